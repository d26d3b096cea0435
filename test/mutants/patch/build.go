package patch

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// This file owns programs with a change in them, for tests of real processes: the
// changed files are laid over the sources, which nobody touches, and the programs
// as they are shipped have no switch for it.

// Build builds a program with all these changes, which are of different files, into
// a file. The changed sources lie beside it.
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
