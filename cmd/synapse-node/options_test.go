package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestHidden: the agent's own, its key and what --hide names are shown to no task, as absolute paths; what cannot be
// hidden is refused before anything starts.
func TestHidden(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.MkdirAll("keys", 0o700); err != nil {
		t.Fatal(err)
	}
	o := options{hide: []string{"keys"}, tls: "tls"}
	if err := o.checkHidden(); err != nil {
		t.Fatal(err)
	}
	got, err := o.hidden("/data")
	want := []string{"/data", filepath.Join(dir, "keys"), filepath.Join(dir, "tls")}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("hidden are %v (%v), want %v", got, err, want)
	}
	for path, words := range map[string]string{"nosuch": "there is no such folder", "/": "would be hidden too"} {
		o := options{hide: []string{path}}
		if err := o.checkHidden(); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("--hide %s: %v", path, err)
		}
	}
}
