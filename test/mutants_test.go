// The planted bugs are kept in step with the code here, in milliseconds; `make mutants` sees whether each is caught.
package test

import (
	"flag"
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

// minMutants is how many planted bugs the tests promise to notice.
const minMutants = 150

// long type-checks every harmed package too. Without it a mutant is only known to apply and to parse; `make mutants`
// builds each anyway.
var long = flag.Bool("long", false, "type-check every mutant")

func TestMutantsStillApply(t *testing.T) {
	mutants, err := patch.Load("mutants")
	if err != nil {
		t.Fatal(err)
	}
	if len(mutants) < minMutants {
		t.Errorf("%d mutants, and %d are promised", len(mutants), minMutants)
	}
	table, err := os.ReadFile("mutants/README.md")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	for _, mutant := range mutants {
		if !strings.Contains(string(table), "| `"+mutant.Name+"` | "+mutant.File+" | "+mutant.Harm+" |") {
			t.Errorf("mutant %s is not in mutants/README.md as it says of itself", mutant.Name)
		}
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

// typeCheck tries each harmed package against the compiled form of what it imports, which takes a tenth of a second
// where a build takes seconds.
func typeCheck(t *testing.T, mutants []patch.Mutant) {
	packages, exports := listPackages(t, append([]string{"cluster", "runtime", "cmd"}, orderedRooms...))
	fset := token.NewFileSet()
	config := types.Config{Importer: exportImporter(fset, exports)}
	for _, mutant := range mutants {
		harmed, err := mutant.Apply(root)
		if err != nil {
			continue // Told already.
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
