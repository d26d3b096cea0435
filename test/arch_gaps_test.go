// The rule on exceptions of invariants. This file lists the facts about a whole simulated world that may switch off a
// check.
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

// invariantFile matches the files of the simulator's checkers.
var invariantFile = regexp.MustCompile(`^sim/[sl][0-9]+[ab]?_[a-z0-9_]+\.go$`)

var (
	// worldFacts are properties of a whole world: two versions, and the epochs up to which a restore has lost
	// records.
	worldFacts = []string{"oldVersion", "ledUpTo"}
	// worldFaults are faults after which a checker may not know enough, if it looks at the wrong job, node or time.
	worldFaults = []string{"liar", "byzantine", "upgrade", "clock-jump"}
)

// gapsRule: a checker skips a job only in functions named away…. `synapse-sim -gaps` counts these. The extent of any
// other exception would be invisible.
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
