package slurm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// This file tests real scripts (testdata/wild): the first line after #! contains the expected job, and in
// testdata/refused the expected error. e2e's TestSlurmWild runs them on a cluster.

func TestWild(t *testing.T) {
	for name, text := range scripts(t, "wild", 20) {
		_, rest, _ := strings.Cut(text, "\n# wants: ")
		want, _, _ := strings.Cut(rest, "\n")
		spec, _, err := batch(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := shortly(spec); got != want {
			t.Errorf("%s\ncomes to %s\nand not  %s", name, got, want)
		}
		made := string(spec.GetScript().GetText())
		if spec.GetScript() == nil || !strings.Contains(made, text) ||
			strings.Join(spec.GetScript().GetArgs(), " ") != "--epochs 3" {
			t.Errorf("%s: its script is not what is submitted", name)
		}
	}
}

func TestWildRefused(t *testing.T) {
	for name, text := range scripts(t, "refused", 10) {
		_, rest, _ := strings.Cut(text, "\n# refused: ")
		want, _, _ := strings.Cut(rest, "\n")
		_, _, err := batch(text)
		if r := (*Refusal)(nil); !errors.As(err, &r) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is refused as %v, and not as %s", name, err, want)
		}
	}
}

// scripts returns the scripts in a folder, and fails if there are fewer than least.
func scripts(t *testing.T, folder string, least int) map[string]string {
	t.Helper()
	all := map[string]string{}
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*.sh"))
	if err != nil || len(files) < least {
		t.Fatalf("%d scripts: %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = string(text)
	}
	return all
}
