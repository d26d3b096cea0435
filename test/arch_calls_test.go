// This file owns the rules on what is called where: what runs beside an actor, what waits, what belongs to a process,
// and what relies on the inside of Go or removes trees.
package test

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

// removalRule: what tasks and images made is removed by runtime/tree. The library's way opens one directory in the
// other, and fails at a tree that is deeper than a process may open files. A package that only tests use makes its own
// trees.
func removalRule(s source) []string {
	if !s.production() || s.layer() != "runtime" || strings.HasPrefix(s.path, "runtime/conformance/") {
		return nil
	}
	return s.selectors(func(from, name string) string {
		if from == "os" && name == "RemoveAll" {
			return "fails at deep trees; runtime/tree removes any"
		}
		return ""
	})
}

// concurrencyRule: an actor is one thread of control by construction; whatever else runs is asked for by message.
func concurrencyRule(s source) []string {
	if !s.production() || !packages[packageOf(path.Dir(s.path))].pure {
		return nil
	}
	var findings []string
	ast.Inspect(s.syntax, func(node ast.Node) bool {
		found := ""
		switch node := node.(type) {
		case *ast.GoStmt:
			found = "go statement"
		case *ast.SelectStmt:
			found = "select"
		case *ast.ChanType:
			found = "channel type"
		case *ast.SendStmt:
			found = "channel send"
		case *ast.UnaryExpr:
			if node.Op == token.ARROW {
				found = "channel receive"
			}
		}
		if found != "" {
			findings = append(findings, fmt.Sprintf("%s: %s; ask for it by message", s.at(node.Pos()), found))
		}
		return true
	})
	return findings
}

// protoActorRule: the calls of Proto.Actor that wait, use the wall clock, or lose what they are given.
func protoActorRule(s source) []string {
	if !s.production() || s.layer() == "tools" {
		return nil
	}
	return s.selectors(func(from, name string) string {
		onActor := from == "" || strings.HasPrefix(from, protoActor)
		if onActor && actorBans.MatchString(name) {
			return "is not for us: it waits, uses the wall clock, reorders, or drops the sender"
		}
		return ""
	})
}

// processRule: flags, environment and exit belong to cmd/, where a reader looks for them. Tests' own programs are free.
func processRule(s source) []string {
	if !s.production() || slices.Contains([]string{"cmd", "test", "tools", "examples"}, s.layer()) {
		return nil
	}
	var findings []string
	for _, spec := range s.syntax.Imports {
		if spec.Path.Value == `"flag"` {
			findings = append(findings, fmt.Sprintf("%s: flags are read in cmd/ only", s.at(spec.Pos())))
		}
	}
	return append(findings, s.selectors(func(from, name string) string {
		if from == "os" && slices.Contains([]string{"Exit", "Getenv", "LookupEnv", "Environ", "Setenv", "Args"}, name) {
			return "belongs to cmd/"
		}
		return ""
	})...)
}

// insidesRule: nothing takes from Go what its packages do not show, which another version may not have. One package has
// functions in which Go's runtime has no say.
func insidesRule(s source) []string {
	if s.syntax == nil {
		return nil
	}
	banned := []string{"//go:linkname", "//go:nosplit", "//go:norace", "//go:nocheckptr"}
	if path.Dir(s.path) == "runtime/carapace/fork" {
		banned = banned[:1]
	}
	var findings []string
	for _, group := range s.syntax.Comments {
		for _, comment := range group.List {
			directive, _, _ := strings.Cut(comment.Text, " ")
			if slices.Contains(banned, directive) {
				findings = append(findings, fmt.Sprintf("%s: %s is for runtime/carapace/fork at most", s.at(comment.Pos()),
					directive))
			}
		}
	}
	return findings
}
