// The rule on exceptions of invariants. This file owns which facts about a whole simulated world may switch a check
// off.
package test

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// invariantFile is where a checker of the simulator stands.
var invariantFile = regexp.MustCompile(`^sim/[sl][0-9]+[ab]?_[a-z0-9_]+\.go$`)

var (
	// worldFacts are of a whole world: that it has two versions, and up to which epoch a restore has lost something.
	worldFacts = []string{"oldVersion", "ledUpTo"}
	// worldFaults are faults after which a checker may not know enough, if it looks at the wrong job, node or time.
	worldFaults = []string{"liar", "byzantine", "upgrade", "clock-jump"}
)

// gapsRule: a checker looks away in functions named away… alone. Those are what `synapse-sim -gaps` counts with; an
// exception that stands anywhere else is one of which nobody sees how wide it is.
func gapsRule(s source) []string {
	if s.syntax == nil || !invariantFile.MatchString(s.path) {
		return nil
	}
	var findings []string
	for _, d := range s.syntax.Decls {
		f, is := d.(*ast.FuncDecl)
		if !is || strings.HasPrefix(f.Name.Name, "away") {
			continue
		}
		ast.Inspect(f, func(node ast.Node) bool {
			name := ""
			switch node := node.(type) {
			case *ast.SelectorExpr:
				if slices.Contains(worldFacts, node.Sel.Name) {
					name = node.Sel.Name
				}
			case *ast.BasicLit:
				if text, err := strconv.Unquote(node.Value); node.Kind == token.STRING && err == nil &&
					slices.Contains(worldFaults, text) {
					name = text
				}
			}
			if name != "" {
				findings = append(findings, fmt.Sprintf("%s: %s asks for %s: do so in a function named away…, which a clause "+
					"counts (sim/gaps.go)", s.at(node.Pos()), f.Name.Name, name))
			}
			return true
		})
	}
	return findings
}
