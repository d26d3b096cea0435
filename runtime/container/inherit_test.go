//go:build linux

package container

import (
	"os"
	"path/filepath"
	"testing"
)

// TestInherit checks that a new task takes over the writable layer of an ended one, also if the call is repeated. An
// ended task without a layer is no error.
func TestInherit(t *testing.T) {
	d, from, to := &Driver{}, taskOf(t, nil), taskOf(t, nil)
	if err := d.Inherit(from, to); err != nil {
		t.Error(err)
	}
	written := filepath.Join("upper", "etc", "made")
	if err := os.MkdirAll(filepath.Join(from.Dir, layerName, written), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.Inherit(from, to); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(to.Dir, layerName, written)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(from.Dir, layerName)); err == nil {
		t.Error("the ended task still has the layer")
	}
}
