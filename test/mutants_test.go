// This file checks in milliseconds that the planted bugs apply to the code. `make mutants` checks that each is caught.
package test

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/test/mutants/patch"
)

// minMutants is the minimum number of planted bugs.
const minMutants = 150

// long type-checks every changed package too. Without it a mutant is only applied and parsed. `make mutants` builds
// each mutant anyway.
var long = flag.Bool("long", false, "type-check every mutant")

func TestMutantsStillApply(t *testing.T) {
	mutants, err := patch.Load(root, "mutants")
	if err != nil {
		t.Fatal(err)
	}
	if len(mutants) < minMutants {
		t.Errorf("only %d mutants exist, want at least %d", len(mutants), minMutants)
	}
	checkMutantsPage(t, mutants)
	fset := token.NewFileSet()
	for _, mutant := range mutants {
		harmed, err := mutant.Apply(root)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := parser.ParseFile(fset, mutant.Name, harmed, parser.SkipObjectResolution); err != nil {
			t.Errorf("mutant %s does not parse: %v", mutant.Name, err)
		}
	}
	if *long {
		typeCheck(t, mutants)
	}
}

// TestOtherPatchesStillApply checks that the patches which tests use for one run still apply, each in its folder.
func TestOtherPatchesStillApply(t *testing.T) {
	folders, err := filepath.Glob("*/testdata/*")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, folder := range folders {
		if patches, _ := filepath.Glob(folder + "/*.patch"); len(patches) == 0 {
			continue
		}
		changes, err := patch.Load(root, folder)
		if err != nil {
			t.Errorf("%s: %v", folder, err)
		}
		for _, change := range changes {
			if _, err := change.Apply(root); err != nil {
				t.Errorf("%s: %v", folder, err)
			}
		}
		found += len(changes)
	}
	if found < 8 {
		t.Errorf("only %d patches were found", found)
	}
}

// mutantsPage lists all mutants, below its head.
const (
	mutantsPage = "mutants/README.md"
	mutantsHead = "| name | in | harm | caught by |\n|---|---|---|---|\n"
)

// checkMutantsPage compares the table of mutants with the patches.
func checkMutantsPage(t *testing.T, mutants []patch.Mutant) {
	page, err := os.ReadFile(mutantsPage)
	if err != nil {
		t.Fatal(err)
	}
	text, _, found := strings.Cut(string(page), mutantsHead)
	if !found {
		t.Fatalf("%s has no table that begins with\n%s", mutantsPage, mutantsHead)
	}
	var table strings.Builder
	for _, m := range mutants {
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", m.Name, m.In, m.Harm, m.Catcher())
	}
	now := text + mutantsHead + table.String()
	if *rewrite {
		err = os.WriteFile(mutantsPage, []byte(now), 0o644)
	} else if now != string(page) {
		err = errors.New("it does not list the mutants as they say of themselves")
	}
	if err != nil {
		t.Errorf("%s: %v: run go test ./test -run Mutants -rewrite", mutantsPage, err)
	}
}

// typeCheck checks each changed package against its compiled imports, which takes a tenth of a second instead of
// seconds for a build.
func typeCheck(t *testing.T, mutants []patch.Mutant) {
	packages, exports := listPackages(t, append([]string{"cluster", "server", "runtime", "cmd"}, orderedFolders...))
	fset := token.NewFileSet()
	config := types.Config{Importer: exportImporter(fset, exports)}
	for _, mutant := range mutants {
		harmed, err := mutant.Apply(root)
		if err != nil {
			continue // Already reported.
		}
		for _, p := range packages {
			if p.ImportPath != path.Join(module, path.Dir(mutant.File)) {
				continue
			}
			var files []*ast.File
			for _, name := range p.GoFiles {
				var text any // nil means: read the file.
				if name == path.Base(mutant.File) {
					text = harmed
				}
				file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), text, parser.SkipObjectResolution)
				if err != nil {
					t.Error(err)
					continue
				}
				files = append(files, file)
			}
			if _, err := config.Check(p.ImportPath, fset, files, nil); err != nil {
				t.Errorf("mutant %s does not build: %v", mutant.Name, err)
			}
		}
	}
}
