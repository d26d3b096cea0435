package jobfile

import (
	"os"
	"path/filepath"
	"testing"
)

// TestExamplesAreValid parses the example files.
func TestExamplesAreValid(t *testing.T) {
	files, err := filepath.Glob("../../../examples/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d examples found: %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(text); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
