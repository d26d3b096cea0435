package test

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// This file checks the references in documents: each named function must be in the named file, and each link must lead
// to an existing target.

var (
	// pointer matches a place that a document names: `Type.function` in `folder/file.go`.
	pointer = regexp.MustCompile("`([A-Za-z]+(?:\\.[A-Za-z]+)?)`\\s+in\\s+`([a-z0-9_/]+\\.go)`")
	// pointingLink matches the form with the file as the link's target.
	pointingLink = regexp.MustCompile("\\[`([A-Za-z]+(?:\\.[A-Za-z]+)?)`\\]\\(([a-z0-9_/.]+\\.go)\\)")
	// relativeLink matches a link to a file of the tree, or to a heading in it.
	relativeLink = regexp.MustCompile(`\]\(([^)\s:#]*)(?:#([^)\s]+))?\)`)
	// notInAnchor matches the characters that the anchor of a heading omits.
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// TestPointersRule looks up every place that a document names.
func TestPointersRule(t *testing.T) {
	tree := readTree(t)
	code := declarations(tree)
	found := 0
	for _, d := range documents(tree) {
		for _, m := range pointer.FindAllStringSubmatch(d.text, -1) {
			found++
			// a folder's own page names its files without the folder
			beside := path.Join(path.Dir(d.path), m[2])
			if !code.has(m[2], m[1]) && !code.has(beside, m[1]) {
				t.Errorf("%s names %s in %s, which does not exist", d.path, m[1], m[2])
			}
		}
		for _, m := range pointingLink.FindAllStringSubmatch(d.text, -1) {
			found++
			if !code.has(path.Join(path.Dir(d.path), m[2]), m[1]) {
				t.Errorf("%s links %s in %s, which does not exist", d.path, m[1], m[2])
			}
		}
	}
	if found < 120 {
		t.Errorf("only %d references were found: the documents, or the patterns of this test, have changed", found)
	}
	if code.has("policy/plan.go", "planned") || code.has("policy/planned.go", "Plan") {
		t.Error("the rule accepts a name that does not exist")
	}
}

// TestLinksRule follows every link from a document to a file or a heading of the tree.
func TestLinksRule(t *testing.T) {
	found := 0
	for _, d := range documents(readTree(t)) {
		for _, m := range relativeLink.FindAllStringSubmatch(d.text, -1) {
			found++
			if why := deadLink(d, m[1], m[2]); why != "" {
				t.Errorf("%s links %s: %s", d.path, m[0], why)
			}
		}
	}
	if found < 120 {
		t.Errorf("only %d links were found: the documents, or the patterns of this test, have changed", found)
	}
	page := source{path: "docs/x.md", text: "# A `word`, and more\n"}
	for _, bad := range [][2]string{{"nowhere.md", ""}, {"", "another"}, {"../README.md", "nothing"}} {
		if deadLink(page, bad[0], bad[1]) == "" {
			t.Errorf("the rule accepts the broken link %q", bad)
		}
	}
	if why := deadLink(page, "", "a-word-and-more"); why != "" {
		t.Error(why)
	}
}

// deadLink returns why a link of a document is broken, or an empty string.
func deadLink(d source, file, anchor string) string {
	text := d.text
	if file != "" {
		at := filepath.Join(root, path.Dir(d.path), file)
		if _, err := os.Stat(at); err != nil {
			return "there is no such file"
		}
		if anchor == "" {
			return ""
		}
		content, err := os.ReadFile(at)
		if err != nil {
			return err.Error()
		}
		text = string(content)
	}
	for line := range strings.Lines(text) {
		if heading, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && line[0] == '#' &&
			anchorOf(heading) == anchor {
			return ""
		}
	}
	return "there is no such heading"
}

// anchorOf returns the anchor of a heading.
func anchorOf(heading string) string {
	plain := notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
	return strings.ReplaceAll(plain, " ", "-")
}

// documents returns the documentation pages.
func documents(tree []source) (all []source) {
	for _, s := range tree {
		if strings.HasSuffix(s.path, ".md") {
			all = append(all, s)
		}
	}
	return all
}

// declared holds the names of a tree's top level by file: functions, methods after their type, types, variables and
// constants.
type declared map[string]map[string]bool

func declarations(tree []source) declared {
	all := declared{}
	for _, s := range tree {
		if s.syntax == nil {
			continue
		}
		names := map[string]bool{}
		all[s.path] = names
		for _, d := range s.syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				names[qualified(d)] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						names[spec.Name.Name] = true
					case *ast.ValueSpec:
						for _, name := range spec.Names {
							names[name.Name] = true
						}
					}
				}
			}
		}
	}
	return all
}

// has reports whether a file declares a name. A document may omit a method's type if the file has one method of that
// name.
func (d declared) has(file, name string) bool {
	if d[file][name] {
		return true
	}
	if strings.Contains(name, ".") {
		return false
	}
	for known := range d[file] {
		if strings.HasSuffix(known, "."+name) {
			return true
		}
	}
	return false
}

// qualified returns a function's name, after its receiver's type if it has one.
func qualified(f *ast.FuncDecl) string {
	if of := receiver(f); of != "" {
		return of + "." + f.Name.Name
	}
	return f.Name.Name
}

// receiver returns the type of a method, or an empty string for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return ""
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}
