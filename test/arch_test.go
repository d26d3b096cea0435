// The architecture rules are checked on syntax trees: the permitted imports of each package, forbidden calls of pure
// packages and actors, and lengths. This file holds the walk over the tree and the list of rules. The rules are in
// arch_rules_test.go, the rules on the form of a file in arch_files_test.go, and the rule that needs types in
// arch_order_test.go.
//
// A rule that cannot fail is useless, so each rule also gets small bad sources.
package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// root is the repository's root relative to this package's folder.
const root = ".."

// module is the import path of this module.
const module = "github.com/yi-json/synapse"

// source is one file of the tree. Files that are not Go have no syntax.
type source struct {
	path   string // path with slashes, from the repository's root
	text   string
	fset   *token.FileSet
	syntax *ast.File
}

// archRule is one architecture rule. holds returns a sentence for each place that breaks it.
type archRule struct {
	name  string
	holds func(source) []string
	// breaches are files that the rule must reject.
	breaches []breach
}

// breach is a small file that breaks a rule, as if it were at path.
type breach struct{ path, text string }

// TestArchitectureRules checks every rule in the whole tree, and shows that each rule can fail.
func TestArchitectureRules(t *testing.T) {
	tree := readTree(t)
	if len(tree) < 10 {
		t.Fatalf("the walk found only %d files: is the root wrong?", len(tree))
	}
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) {
			for _, source := range tree {
				for _, finding := range rule.holds(source) {
					t.Errorf("%s", finding)
				}
			}
			for _, breach := range rule.breaches {
				if findings := rule.holds(parse(t, breach.path, breach.text)); len(findings) == 0 {
					t.Errorf("the rule does not reject %s:\n%s", breach.path, breach.text)
				}
			}
		})
	}
}

// readTree reads every file that could be committed. It skips build outputs and hidden folders except CI's.
func readTree(t *testing.T) []source {
	t.Helper()
	var tree []source
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			hidden := strings.HasPrefix(name, ".") && name != ".ci" && file != root
			made := name == "node_modules" || name == "__pycache__" || file == filepath.Join(root, "bin") ||
				file == filepath.Join(root, "dist")
			if hidden || made {
				return filepath.SkipDir
			}
			return nil
		}
		// In a git worktree, .git is a file that contains a path.
		if !entry.Type().IsRegular() || name == ".git" {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		tree = append(tree, parse(t, filepath.ToSlash(relative), string(text)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// parse reads one file. Files below testdata are data, whatever their extension.
func parse(t *testing.T, name, text string) source {
	t.Helper()
	s := source{path: name, text: text, fset: token.NewFileSet()}
	if path.Ext(name) != ".go" || strings.Contains("/"+name, "/testdata/") {
		return s
	}
	syntax, err := parser.ParseFile(s.fset, name, text, parser.ParseComments)
	if err != nil {
		t.Errorf("%s does not parse: %v", name, err)
		return s
	}
	s.syntax = syntax
	return s
}

// production reports whether the file is handwritten code that ships. The rules on style and layers apply to such
// files.
func (s source) production() bool {
	return s.syntax != nil && !strings.HasSuffix(s.path, "_test.go") && !ast.IsGenerated(s.syntax)
}

// layer returns the first folder of the path. The top folders are the coarsest packages.
func (s source) layer() string {
	first, _, _ := strings.Cut(path.Dir(s.path), "/")
	return first
}

// at returns a position in the file, in the form that editors understand.
func (s source) at(pos token.Pos) string {
	return s.fset.Position(pos).String()
}

// imported returns the import path that a selector's left side names, or "" if it is no package. The parser's old
// object resolution distinguishes a package from a local variable of the same name.
func (s source) imported(selector *ast.SelectorExpr) string {
	name, isName := selector.X.(*ast.Ident)
	if !isName || name.Obj != nil {
		return ""
	}
	for _, spec := range s.syntax.Imports {
		importPath := strings.Trim(spec.Path.Value, `"`)
		local := path.Base(importPath)
		if strings.HasPrefix(local, "v") && strings.Trim(local, "v0123456789") == "" {
			local = path.Base(path.Dir(importPath)) // math/rand/v2 has the name rand.
		}
		if spec.Name != nil {
			local = spec.Name.Name
		}
		if local == name.Name {
			return importPath
		}
	}
	return ""
}
