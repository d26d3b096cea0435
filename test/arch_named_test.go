// This file holds the rule that names in comments exist. A comment may survive the rename of a type, and no compiler
// checks it.
package test

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// camel matches a Go name with at least two capital letters in prose.
	camel = regexp.MustCompile(`\b[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]+)+\b`)
	// member matches a method or a field of a type in prose.
	member = regexp.MustCompile(`\b([A-Z][a-z]\w*)\.([A-Za-z]\w+)\b`)
	// quoted matches text that is no name of this module: an address, a path, or a quotation.
	quoted = regexp.MustCompile("https?://\\S+|`[^`]*`|\"[^\"]*\"|\\S*/\\S*")
)

// foreign lists names from elsewhere: the kernel, libraries, protocols and programs.
var foreign = []string{
	"ConfigMap", "DeepSpeed", "ExportTraceServiceRequest", "ExportTraceServiceResponse", "InfiniBand", "OpenTelemetry",
	"Proto.Actor", "RemoteMessage.message_batch", "SplitMix64",
}

// TestNamedRule looks up every name in a comment of production code, and shows that it can fail.
func TestNamedRule(t *testing.T) {
	tree := readTree(t)
	names := namesIn(tree)
	found := 0
	for _, s := range tree {
		findings, seen := unnamed(s, names)
		found += seen
		for _, finding := range findings {
			t.Error(finding)
		}
	}
	if found < 300 {
		t.Errorf("only %d names were found: the comments, or the patterns of this test, have changed", found)
	}
	known := parse(t, "store/x.go", "package store\n\ntype JobRow struct{}\n\nfunc (JobRow) find() {}\n")
	for comment, refused := range map[string]bool{
		"JobRow.find is known": false, "JobRow is known": false, "JobRows are not": true, "JobRow.lose is not": true,
		"JobRow.yes is elsewhere": true, "LeaderPorts.yes is not": true,
	} {
		s := parse(t, "store/y.go", "package store\n\n// "+comment+".\nvar yes int\n")
		if findings, _ := unnamed(s, namesIn([]source{known, s})); len(findings) > 0 != refused {
			t.Errorf("%s: %q", comment, findings)
		}
	}
}

// named holds the names in the code.
type named struct {
	has map[string]bool            // all names, including names that other modules define
	of  map[string]map[string]bool // by type: its methods and fields; "" if another type may provide more
}

// namesIn returns every name that the code of a tree has.
func namesIn(tree []source) named {
	n := named{has: map[string]bool{}, of: map[string]map[string]bool{}}
	for _, s := range tree {
		if s.syntax == nil {
			continue
		}
		ast.Inspect(s.syntax, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.Ident:
				n.has[node.Name] = true
			case *ast.FuncDecl:
				n.add(receiver(node), node.Name.Name)
			case *ast.TypeSpec:
				n.addType(node)
			}
			return true
		})
	}
	return n
}

// add adds a method or a field of a type.
func (n named) add(of, name string) {
	if n.of[of] == nil {
		n.of[of] = map[string]bool{}
	}
	n.of[of][name] = true
}

// addType adds the methods and fields in the declaration of a type.
func (n named) addType(spec *ast.TypeSpec) {
	var fields *ast.FieldList
	switch declared := spec.Type.(type) {
	case *ast.StructType:
		fields = declared.Fields
	case *ast.InterfaceType:
		fields = declared.Methods
	default:
		n.add(spec.Name.Name, "")
		return
	}
	for _, f := range fields.List {
		if len(f.Names) == 0 {
			n.add(spec.Name.Name, "")
		}
		for _, name := range f.Names {
			n.add(spec.Name.Name, name.Name)
		}
	}
}

// unnamed returns a sentence for each name in a comment that the code does not have, and the number of names that it
// looked up.
func unnamed(s source, names named) (findings []string, seen int) {
	if !s.production() {
		return nil, 0
	}
	for _, group := range s.syntax.Comments {
		for _, comment := range group.List {
			text := quoted.ReplaceAllString(strings.TrimPrefix(comment.Text, "//"), "")
			all := camel.FindAllString(text, -1)
			for _, m := range member.FindAllStringSubmatch(text, -1) {
				if all = append(all, m[0]); !names.has[m[1]] {
					continue // The complete name was looked up, and does not exist.
				}
				if of := names.of[m[1]]; names.has[m[2]] && (of == nil || of[m[2]] || of[""]) {
					all = all[:len(all)-1]
					seen++
				}
			}
			for _, name := range all {
				seen++
				if !names.has[name] && !slices.Contains(foreign, name) {
					findings = append(findings, fmt.Sprintf("%s: no code has the name %s", s.at(comment.Pos()), name))
				}
			}
		}
	}
	return findings, seen
}
