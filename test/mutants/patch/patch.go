// Package patch reads planted bugs and writes the files they change. A patch names the text to replace and the folder
// that contains it, instead of a file or line numbers. So it survives every edit except an edit of those lines:
//
//	# harm: a deposed leader still commands nodes
//	# catches: seeds
//	in: actors
//	<<<<
//	if order.Epoch < n.epoch {
//	====
//	if false {
//	>>>>
//
// The old text must occur exactly once below the folder. If it does not, `func: NAME` limits the search to the
// functions of that name. A patch changes one file, in one or more blocks. `catches` is `seeds`, `scenario NAME`, or
// `test PACKAGE NAME` for a Go test, with its package as a folder from the repository's root.
package patch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Mutant is one planted bug.
type Mutant struct {
	Name string // the file's name, without .patch
	Harm string // what goes wrong for a user, in one sentence
	// Scenario is the golden scenario that must catch it, and Test a test of Package. Without either, the
	// simulator's seeds must catch it.
	Scenario      string
	Package, Test string
	In            string // the folder that contains its text, with slashes, from the repository's root
	Func          string // the name of the functions that contain the text; empty: any
	File          string // the file that it changes, from the repository's root; Load finds it
	Blocks        []Block
}

// Block is one replacement.
type Block struct{ Old, New string }

// The marks are alone on their lines.
const (
	markOld = "<<<<"
	markNew = "===="
	markEnd = ">>>>"
)

// Load reads every patch of a folder, ordered by name, and finds the file of each in a repository.
func Load(root, folder string) ([]Mutant, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.patch")) // Glob sorts.
	if err != nil {
		return nil, err
	}
	var mutants []Mutant
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		mutant, err := Parse(strings.TrimSuffix(filepath.Base(path), ".patch"), string(text))
		if err != nil {
			return nil, fmt.Errorf("mutant %s: %w", path, err)
		}
		mutants = append(mutants, mutant)
	}
	return mutants, locate(root, mutants)
}

// Parse reads one patch.
func Parse(name, text string) (Mutant, error) {
	mutant := Mutant{Name: name}
	catches := ""
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if line == markOld {
			block, next, err := parseBlock(lines, i+1)
			if err != nil {
				return mutant, err
			}
			mutant.Blocks = append(mutant.Blocks, block)
			i = next
			continue
		}
		key, value, _ := strings.Cut(strings.TrimPrefix(line, "# "), ":")
		switch value = strings.TrimSpace(value); {
		case key == "harm" && mutant.Harm == "":
			mutant.Harm = value
		case key == "catches" && catches == "":
			catches = value
		case key == "in" && mutant.In == "":
			mutant.In = value
		case key == "func" && mutant.Func == "":
			mutant.Func = value
		case key == "in", key == "func":
			return mutant, fmt.Errorf("line %d: a second `%s:` line", i+1, key)
		case line != "" && !strings.HasPrefix(line, "#"):
			return mutant, fmt.Errorf("line %d: %q stands outside a block", i+1, line)
		}
	}
	return mutant, mutant.complete(catches)
}

// parseBlock reads from after the first mark. It also returns the line of the last mark.
func parseBlock(lines []string, i int) (Block, int, error) {
	from, to := i, -1
	for ; i < len(lines); i++ {
		switch {
		case lines[i] == markNew && to < 0:
			to = i
		case lines[i] == markEnd && to >= 0:
			return Block{Old: strings.Join(lines[from:to], "\n"), New: strings.Join(lines[to+1:i], "\n")}, i, nil
		}
	}
	return Block{}, i, fmt.Errorf("line %d: a block without %s and %s", from, markNew, markEnd)
}

// complete checks that no part is missing, and parses the catches line.
func (m *Mutant) complete(catches string) error {
	known := catches == "seeds"
	switch words := strings.Fields(catches); {
	case len(words) == 2 && words[0] == "scenario":
		m.Scenario, known = words[1], true
	case len(words) == 3 && words[0] == "test":
		m.Package, m.Test, known = words[1], words[2], true
	}
	switch {
	case m.Harm == "":
		return errors.New("no `# harm:` line: say what goes wrong for a user")
	case !known:
		return errors.New("no `# catches: seeds`, `# catches: scenario NAME` or `# catches: test PACKAGE NAME` line")
	case m.In == "":
		return errors.New("no `in:` line")
	case len(m.Blocks) == 0:
		return errors.New("no block to replace")
	}
	return nil
}

// Catcher returns the check that must catch it.
func (m Mutant) Catcher() string {
	switch {
	case m.Scenario != "":
		return "scenario " + m.Scenario
	case m.Test != "":
		return "test " + m.Package + " " + m.Test
	}
	return "seeds"
}

// BySeeds reports whether the simulator's seeds must catch it.
func (m Mutant) BySeeds() bool { return m.Scenario == "" && m.Test == "" }
