package test

import (
	"go/ast"
	"go/token"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// This file owns the rule about the start of the command line: its packages compile no regular expression before it is
// used. Users start the program for each command, and the expressions of all commands took a quarter of a start.

// eager returns the names of package variables whose value is a compiled regular expression or a parsed template.
func eager(file *ast.File) (names []string) {
	for _, d := range file.Decls {
		vars, is := d.(*ast.GenDecl)
		if !is || vars.Tok != token.VAR {
			continue
		}
		for _, spec := range vars.Specs {
			v := spec.(*ast.ValueSpec)
			for i, value := range v.Values {
				if call, is := value.(*ast.CallExpr); is && compiles(call) {
					names = append(names, v.Names[i].Name)
				}
			}
		}
	}
	return names
}

// compiles reports whether a call compiles an expression or parses a template.
func compiles(call *ast.CallExpr) bool {
	f, is := call.Fun.(*ast.SelectorExpr)
	if !is {
		return false
	}
	from, is := f.X.(*ast.Ident)
	return is && (from.Name == "regexp" && strings.HasPrefix(f.Sel.Name, "MustCompile") ||
		from.Name == "template" && f.Sel.Name == "Must")
}

func TestStartRule(t *testing.T) {
	command := exec.Command("go", "list", "-deps", "./cmd/synapse-cli")
	command.Dir = root
	output, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	checked := 0
	for p := range strings.FieldsSeq(string(output)) {
		folder, ours := strings.CutPrefix(p, module+"/")
		if !ours {
			continue
		}
		for _, file := range sources(t, filepath.Join(folder, "*.go")) {
			checked++
			for _, name := range eager(file) {
				t.Errorf("%s: %s is computed at each start of synapse-cli: wrap it in sync.OnceValue", folder, name)
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d files were checked", checked)
	}
	bad := parsed(t, "package p\nvar a, b = 1, regexp.MustCompile(`x`)\nvar (\n\tc = template.Must(nil)\n"+
		"\td = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`x`) })\n)\n"+
		"func f() { e := regexp.MustCompile(``); _ = e }\n")
	if got := strings.Join(eager(bad), " "); got != "b c" {
		t.Errorf("found %q, want b and c", got)
	}
}
