// One rule needs types: code that decides or simulates never ranges over a map. Go randomises the order of maps, so one
// such loop gives different runs for the same seed. If the order cannot matter, the line states why:
//
//	for id := range members { //order: every member is only counted
package test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// orderedFolders lists the directory trees whose behaviour must follow from their input alone.
var orderedFolders = []string{"topology", "policy", "messages", "actors", "store", "sim"}

// listed is one package in the output of `go list -export`.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
	Error                   *struct{ Err string }
}

// TestOrderRule checks the rule in the ordered packages, and shows that it can fail.
func TestOrderRule(t *testing.T) {
	if testing.Short() {
		t.Skip("this test would compile everything again under -race, and has no concurrency")
	}
	packages, exports := listPackages(t, orderedFolders)
	fset := token.NewFileSet()
	imports := exportImporter(fset, exports)
	for _, p := range packages {
		var files []*ast.File
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		for _, finding := range unordered(t, fset, p.ImportPath, files, imports) {
			t.Error(finding)
		}
	}
	refuses := func(body string, want int) {
		t.Helper()
		text := "package x\nimport (\n\"maps\"\n\"slices\"\n)\nvar m map[string]int\nvar _ = slices.Sorted(maps.Keys(m))\n" +
			"func f() {\n" + body + "\n}\n"
		file, err := parser.ParseFile(fset, "x.go", text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if found := unordered(t, fset, "x", []*ast.File{file}, imports); len(found) != want {
			t.Errorf("want %d findings, not %q, in:\n%s", want, found, body)
		}
	}
	refuses("for range m {\n}", 1)
	refuses("for k := range maps.Keys(m) { _ = k }", 1)
	refuses("_ = slices.Collect(maps.Values(m))", 1)
	refuses("for range m { //order:\n}", 1)
	refuses("for range m { //order: only counted\n}", 0)
	refuses("//order: only counted\nfor range m {\n}", 0)
	refuses("for _, k := range slices.Sorted(maps.Keys(m)) { _ = k }", 0)
	refuses("type n map[int]int; for range (n{}) {\n}", 1)
}

// listPackages asks the go command for the packages of the folders and for the compiled form of their imports. It uses
// the build cache, which `go test ./...` fills anyway.
func listPackages(t *testing.T, folders []string) ([]listed, map[string]string) {
	t.Helper()
	// maps and slices are listed for the examples above.
	arguments := []string{
		"list", "-export", "-deps", "-e", "-json=ImportPath,Dir,Export,GoFiles,DepOnly,Error", "maps", "slices",
	}
	for _, folder := range folders {
		if _, err := os.Stat(filepath.Join(root, folder)); err == nil {
			arguments = append(arguments, "./"+folder+"/...")
		}
	}
	command := exec.Command("go", arguments...)
	command.Dir = root
	output, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var packages []listed
	exports := map[string]string{}
	decoder := json.NewDecoder(strings.NewReader(string(output)))
	for {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, exports
		} else if err != nil {
			t.Fatalf("cannot parse the output of go list: %v", err)
		}
		exports[p.ImportPath] = p.Export
		if p.Error != nil {
			t.Fatalf("%s does not build: %s", p.ImportPath, p.Error.Err)
		}
		if strings.HasPrefix(p.ImportPath, module) && !p.DepOnly {
			packages = append(packages, p)
		}
	}
}

// exportImporter resolves imports from compiled packages. Type-checking Proto.Actor and its dependencies from source
// would take a hundred times as long.
func exportImporter(fset *token.FileSet, exports map[string]string) types.Importer {
	return importer.ForCompiler(fset, "gc", func(importPath string) (io.ReadCloser, error) {
		if exports[importPath] == "" {
			return nil, fmt.Errorf("no compiled form of %s", importPath)
		}
		return os.Open(exports[importPath])
	})
}

// unordered lists each place of a package that iterates over a map in random order without a stated reason.
func unordered(t *testing.T, fset *token.FileSet, name string, files []*ast.File, imports types.Importer) []string {
	t.Helper()
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: imports}
	if _, err := config.Check(name, fset, files, info); err != nil {
		t.Errorf("%s does not type-check: %v", name, err)
		return nil
	}
	var findings []string
	for _, file := range files {
		if ast.IsGenerated(file) {
			continue
		}
		excused := orderComments(fset, file)
		sorted := map[ast.Expr]bool{} // calls whose result is sorted at once
		ast.Inspect(file, func(node ast.Node) bool {
			pos, what := shuffled(info, node, sorted)
			if what == "" {
				return true
			}
			place := fset.Position(pos)
			if !excused[place.Line] && !excused[place.Line-1] {
				findings = append(findings,
					fmt.Sprintf("%s: %s in no order; sort it, or say why it may with //order: REASON", place, what))
			}
			return true
		})
	}
	return findings
}

// shuffled reports whether a node iterates over a map in random order. The walk visits the outer call first, so a sort
// can mark the call inside it before that call is judged.
func shuffled(info *types.Info, node ast.Node, sorted map[ast.Expr]bool) (token.Pos, string) {
	switch node := node.(type) {
	case *ast.RangeStmt:
		if _, isMap := info.TypeOf(node.X).Underlying().(*types.Map); isMap {
			return node.Pos(), "ranges over a map"
		}
	case *ast.CallExpr:
		switch from, name := callee(info, node); {
		case from == "slices" && strings.HasPrefix(name, "Sorted") && len(node.Args) > 0:
			sorted[node.Args[0]] = true
		case from == "maps" && !sorted[node] && (name == "Keys" || name == "Values" || name == "All"):
			return node.Pos(), "maps." + name
		}
	}
	return token.NoPos, ""
}

// callee returns the package and function of a call such as maps.Keys(m).
func callee(info *types.Info, call *ast.CallExpr) (from, name string) {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	function, ok := info.Uses[selector.Sel].(*types.Func)
	if !ok || function.Pkg() == nil {
		return "", ""
	}
	return function.Pkg().Path(), function.Name()
}

// orderComments returns the lines of a file with a stated reason.
func orderComments(fset *token.FileSet, file *ast.File) map[int]bool {
	lines := map[int]bool{}
	for _, group := range file.Comments {
		for _, comment := range group.List {
			reason, ok := strings.CutPrefix(comment.Text, "//order:")
			if ok && strings.TrimSpace(reason) != "" {
				lines[fset.Position(comment.Pos()).Line] = true
			}
		}
	}
	return lines
}
