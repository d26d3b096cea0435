package image

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// This file fuzzes the parsers of input from users and registries: image names, archives and configs. Package layer
// fuzzes layers.

// FuzzReference checks that an image's name is refused, or has exactly one kind of source.
func FuzzReference(f *testing.F) {
	for _, text := range []string{"oci:/a/b:tag", "/a/../b", "registry:5000/x/y@sha256:00", "docker://x", "oci:/a:"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ref, err := parse(text)
		if err != nil {
			return
		}
		if ref.kind == kindRegistry == (ref.registry == nil) {
			t.Errorf("%q is %+v", text, ref)
		}
		if ref.kind != kindRegistry && (!filepath.IsAbs(ref.path) || filepath.Clean(ref.path) != ref.path) {
			t.Errorf("%q leads to %q", text, ref.path)
		}
	})
}

// FuzzConfig checks that an accepted config has as many layers as its manifest, each identified by its sha256.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"rootfs":{"type":"layers","diff_ids":["sha256:00"]}}`), 1)
	f.Fuzz(func(t *testing.T, raw []byte, layers int) {
		config, err := parseConfig(raw, layers)
		if err == nil && (len(config.RootFS.DiffIDs) != layers || layers > maxLayers) {
			t.Errorf("%d layers, and %d", layers, len(config.RootFS.DiffIDs))
		}
	})
}

// FuzzArchive checks that any archive of a user is listed and resolved, or refused.
func FuzzArchive(f *testing.F) {
	f.Add([]byte("no archive"))
	path := filepath.Join(f.TempDir(), "a.tar")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		a := &archive{path: path, file: file, parts: map[string]archived{}}
		defer a.Close()
		if a.list() != nil {
			return
		}
		if image, err := a.resolve(context.Background()); err == nil && image == nil {
			t.Error("it is an image and none")
		}
		_, _ = a.open(context.Background(), v1.Descriptor{})
	})
}
