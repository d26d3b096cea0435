package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLeftoversOfNoCluster checks that wrong arguments or a wrong folder end no process.
func TestLeftoversOfNoCluster(t *testing.T) {
	dir := t.TempDir()
	if err := checkLeftovers([]string{"end", dir}); err == nil {
		t.Error("a directory without a cluster is taken")
	}
	if err := os.WriteFile(filepath.Join(dir, "lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		nil, {"end"}, {"kill", dir}, {"end", ""}, {"end", "/"}, {"end", "//"}, {"end", "."}, {"end", dir, dir},
	} {
		if err := checkLeftovers(args); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
	for _, verb := range []string{"end", "collect"} {
		if err := checkLeftovers([]string{verb, dir}); err != nil {
			t.Errorf("%s: %v", verb, err)
		}
	}
}
