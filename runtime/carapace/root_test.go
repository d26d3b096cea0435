//go:build linux

package carapace

import (
	"slices"
	"strings"
	"testing"
)

// TestWithin checks that a folder is within itself, and not within one whose name is only a prefix.
func TestWithin(t *testing.T) {
	inside := []string{"/a/b in /a", "/a in /", "/a/ in /a", "/a/b/../c in /a", "/ in /"}
	for _, c := range append(slices.Clone(inside), "/ab in /a", "/a in /a/b", "/a/../b in /a") {
		path, folder, _ := strings.Cut(c, " in ")
		if got := Within(path, folder); got != slices.Contains(inside, c) {
			t.Errorf("%s: %v", c, got)
		}
	}
}
