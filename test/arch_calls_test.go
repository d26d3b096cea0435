// This file holds the rules on calls: concurrency, waiting, access to the process, the internals of Go, and the removal
// of directory trees.
package test

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

// removalRule: runtime/tree removes the files of tasks and images. The standard library opens one directory inside the
// other, and fails at trees that are deeper than a process may open files. A package for tests only creates its own
// trees, and is exempt.
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

// concurrencyRule: an actor is one thread of control by construction. Other concurrent work is requested by message.
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

// protoActorRule forbids the calls of Proto.Actor that wait, use the wall clock, or lose messages.
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

// processRule: flags, environment and exit belong to cmd/, where a reader looks for them. Programs of tests are exempt.
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

// insidesRule forbids the internals of Go's packages, which may be missing in another version. One package has
// functions without Go's runtime, and is exempt.
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
