// This file checks the diagrams of ARCHITECTURE.md. The packages are compared with their imports, and each message with
// the actors that create and handle it.
package test

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	drawnPackage = regexp.MustCompile(`(\w+)\["([a-z/]+)"\]`)
	drawnImport  = regexp.MustCompile(`(?m)^\s*(\w+)(?:\[[^\]]*\])? --> (\w+)`)
	drawnMessage = regexp.MustCompile(`(?m)^\s*(\w+)->>(\w+): (\w+)$`)
	gangMessage  = regexp.MustCompile("(?m)^\\| `(\\w+)` \\|")
)

// notDrawn lists packages that would only enlarge the diagram, because nothing in this module imports them.
var notDrawn = []string{"test", "examples"}

// isDrawn reports whether a package has its own box in the diagram. The packages of a leader's actors are drawn as the
// leader.
func isDrawn(folder string) bool {
	return !slices.Contains(notDrawn, folder) && !strings.HasPrefix(folder, "actors/leader/")
}

// TestPackagesPictureRule checks that every arrow is an import, that every import is a path of arrows, and that no
// package is missing.
func TestPackagesPictureRule(t *testing.T) {
	drawn := packagesPicture(pictureOf(t, "flowchart"))
	tree := readTree(t)
	for _, finding := range comparePicture(drawn, importsOf(tree, drawn)) {
		t.Error(finding)
	}
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		if _, ok := drawn[name]; !ok && isDrawn(name) {
			t.Errorf("the package %s is not in the diagram", name)
		}
	}
	real := map[string][]string{"a": {"b", "c"}, "b": {"c"}, "c": nil}
	for _, wrong := range []map[string][]string{
		{"a": {"b"}, "b": nil, "c": nil}, {"a": {"b"}, "b": {"c"}, "c": {"a"}},
	} {
		if comparePicture(wrong, real) == nil {
			t.Errorf("the rule accepts %v as a diagram of %v", wrong, real)
		}
	}
	if wrong := comparePicture(map[string][]string{"a": {"b"}, "b": {"c"}, "c": nil}, real); wrong != nil {
		t.Error(wrong)
	}
}

// comparePicture returns the differences between a diagram and the imports.
func comparePicture(drawn, real map[string][]string) (findings []string) {
	for _, from := range slices.Sorted(maps.Keys(drawn)) {
		for _, to := range drawn[from] {
			if !slices.Contains(real[from], to) {
				findings = append(findings, fmt.Sprintf("the picture has %s import %s, and it does not", from, to))
			}
		}
		for _, to := range real[from] {
			if !leads(drawn, from, to) {
				findings = append(findings, fmt.Sprintf("%s imports %s, and no arrow leads there", from, to))
			}
		}
	}
	return findings
}

// leads reports whether a path of arrows leads from one package to another.
func leads(drawn map[string][]string, from, to string) bool {
	seen := map[string]bool{}
	for ahead := slices.Clone(drawn[from]); len(ahead) > 0; ahead = ahead[1:] {
		switch here := ahead[0]; {
		case here == to:
			return true
		case !seen[here]:
			seen[here] = true
			ahead = append(ahead, drawn[here]...)
		}
	}
	return false
}

// packagesPicture reads the arrows between packages.
func packagesPicture(picture string) map[string][]string {
	names, arrows := map[string]string{}, map[string][]string{}
	for _, m := range drawnPackage.FindAllStringSubmatch(picture, -1) {
		names[m[1]], arrows[m[2]] = m[2], nil
	}
	for _, m := range drawnImport.FindAllStringSubmatch(picture, -1) {
		from := names[m[1]]
		arrows[from] = append(arrows[from], names[m[2]])
	}
	return arrows
}

// importsOf returns the imports of each package in the diagram.
func importsOf(tree []source, drawn map[string][]string) map[string][]string {
	within := func(folder string) string {
		for ; folder != "."; folder = path.Dir(folder) {
			if _, ok := drawn[folder]; ok {
				return folder
			}
		}
		return ""
	}
	real := map[string][]string{}
	for _, s := range tree {
		from := within(path.Dir(s.path))
		if s.syntax == nil || strings.HasSuffix(s.path, "_test.go") || from == "" {
			continue
		}
		for _, spec := range s.syntax.Imports {
			ours, ok := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module+"/")
			if to := within(ours); ok && to != "" && to != from && !slices.Contains(real[from], to) {
				real[from] = append(real[from], to)
			}
		}
	}
	return real
}

// TestMessagesPictureRule checks that each arrow's message is created by the actor at its beginning and handled by the
// actor at its end. No message about a gang may be missing.
func TestMessagesPictureRule(t *testing.T) {
	made, handled := conversations(readTree(t))
	arrows := drawnMessage.FindAllStringSubmatch(pictureOf(t, "sequenceDiagram"), -1)
	if len(arrows) < 30 {
		t.Fatalf("only %d arrows were found", len(arrows))
	}
	said := map[string]bool{}
	for _, m := range arrows {
		from, to, message := m[1], m[2], m[3]
		said[message] = true
		if from != "Client" && !made[from][message] {
			t.Errorf("the diagram shows that %s creates %s, but the code does not", from, message)
		}
		if to != "Client" && !handled[to][message] {
			t.Errorf("the diagram shows that %s handles %s, but the code does not", to, message)
		}
	}
	_, gang, _ := strings.Cut(pageOf(t, "messages/README.md"), "## A gang")
	gang, _, _ = strings.Cut(gang, "\n## ")
	all := gangMessage.FindAllStringSubmatch(gang, -1)
	for _, m := range all {
		if !said[m[1]] {
			t.Errorf("message %s about a gang is not in the diagram", m[1])
		}
	}
	if len(all) < 16 || made["Node"]["Reserve"] || handled["Scheduler"]["Reserved"] || !handled["Job"]["Exited"] {
		t.Errorf("only %d messages about a gang were found: the patterns of this test have changed", len(all))
	}
}

// conversations returns the messages that each kind of actor creates, and those that it handles in a case or a dispatch
// table. A declaration without a receiver counts for the actors that have methods in its file.
func conversations(tree []source) (made, handled map[string]map[string]bool) {
	made, handled = map[string]map[string]bool{}, map[string]map[string]bool{}
	note := func(in map[string]map[string]bool, actors []string, message ast.Expr) {
		for _, actor := range actors {
			if in[actor] == nil {
				in[actor] = map[string]bool{}
			}
			in[actor][typeOf(message)] = true
		}
	}
	for _, s := range tree {
		if s.layer() != "actors" || !s.production() {
			continue
		}
		here := actorsIn(s.syntax)
		for _, d := range s.syntax.Decls {
			actors := here
			if function, is := d.(*ast.FuncDecl); is && receiver(function) != "" {
				actors = []string{receiver(function)}
			}
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CompositeLit:
					note(made, actors, n.Type)
				case *ast.IndexExpr: // a line of a dispatch table
					if on, is := n.X.(*ast.SelectorExpr); is && (on.Sel.Name == "On" || on.Sel.Name == "OnBare") {
						note(handled, actors, n.Index)
					}
				case *ast.TypeSwitchStmt:
					for _, c := range n.Body.List {
						for _, message := range c.(*ast.CaseClause).List {
							note(handled, actors, message)
						}
					}
				}
				return true
			})
		}
	}
	return made, handled
}

// actorsIn returns the types that have methods in a file.
func actorsIn(file *ast.File) (all []string) {
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && receiver(f) != "" && !slices.Contains(all, receiver(f)) {
			all = append(all, receiver(f))
		}
	}
	return all
}

// typeOf returns a type's name without its package.
func typeOf(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return typeOf(x.X)
	case *ast.SelectorExpr:
		return x.Sel.Name
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// pictureOf returns the diagram of this kind in ARCHITECTURE.md.
func pictureOf(t *testing.T, kind string) string {
	t.Helper()
	_, picture, found := strings.Cut(pageOf(t, "ARCHITECTURE.md"), "```mermaid\n"+kind)
	if !found {
		t.Fatalf("ARCHITECTURE.md has no diagram of kind %s", kind)
	}
	picture, _, _ = strings.Cut(picture, "```")
	return picture
}
