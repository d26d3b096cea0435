package patch

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// This file builds programs with a change in them, for tests of real processes. An overlay replaces the changed files,
// so the sources stay unchanged and the shipped programs need no switch.

// Build builds a program with all these changes, each in a different file. It writes the changed sources next to the
// program.
func Build(root string, changes []Mutant, program, into string) error {
	replace := map[string]string{}
	for _, change := range changes {
		text, err := change.Apply(root)
		if err != nil {
			return err
		}
		file, err := filepath.Abs(filepath.Join(root, filepath.FromSlash(change.File)))
		if err != nil {
			return err
		}
		replace[file] = into + "-" + change.Name + ".go"
		if err := os.WriteFile(replace[file], []byte(text), 0o600); err != nil {
			return err
		}
	}
	note, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	overlay := into + ".json"
	if err := os.WriteFile(overlay, note, 0o600); err != nil {
		return err
	}
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-overlay", overlay, "-o", into,
		filepath.Join(root, program)).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
