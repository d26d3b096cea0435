package test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader"
	"github.com/yi-json/synapse/actors/worker"
	"github.com/yi-json/synapse/messages"
)

// This file compares docs/contribute/states.md with leader.Tables() and worker.Tables(). TestEveryStepIsTaken in sim
// shows that each transition occurs. This file also enforces that the word of a state occurs once, because a misspelt
// literal compiles wherever a state is expected.

const statesPage = "docs/contribute/states.md"

const statesIntroduction = `# The states of every actor

A test writes this page from the tables in ` + "`actors/`" + `: ` + "`go test ./test -run StatesPage -rewrite`" + `.
An actor changes its state only by these transitions.
In any other case, the actor panics, because the consequences are unknown.
Another test runs the simulator until each transition was taken.
`

var rewrite = flag.Bool("rewrite", false, "write docs/contribute/states.md")

// TestStatesPage checks that the page agrees with the tables.
func TestStatesPage(t *testing.T) {
	var page strings.Builder
	page.WriteString(statesIntroduction)
	for _, table := range append(leader.Tables(), worker.Tables()...) {
		fmt.Fprintf(&page, "\n## %s\n\nThe actor begins as **%s**.\n\n| from | event | to |\n|---|---|---|\n",
			strings.ToUpper(string(table.Kind[:1]))+string(table.Kind[1:]), table.Edges[0].From())
		for _, e := range table.Edges {
			fmt.Fprintf(&page, "| %s | %s | %s |\n", e.From(), e.Event(), e.To())
		}
	}
	path := filepath.Join(root, statesPage)
	if *rewrite {
		if err := os.WriteFile(path, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	there, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(there) != page.String() {
		t.Errorf("%s differs from the tables: run go test ./test -run StatesPage -rewrite", statesPage)
	}
}

// stateWords returns the words of every actor's states.
func stateWords() (words []string) {
	for _, table := range append(leader.Tables(), worker.Tables()...) {
		for _, e := range table.Edges {
			words = append(words, e.From(), e.To())
		}
	}
	return words
}

// stateRule: in actors/ the word of a state occurs only in the list of its type. All other code uses the constant. An
// event may have the same word as its state. The rule also applies to the phases of a job in messages, in cluster/ and
// server/ too.
func stateRule(s source) []string {
	words := messages.Phases
	switch {
	case !s.production():
		return nil
	case s.layer() == "actors":
		words = append(stateWords(), words...)
	case s.layer() != "cluster" && s.layer() != "server":
		return nil
	}
	allowed := map[ast.Node]bool{}
	var findings []string
	ast.Inspect(s.syntax, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.ValueSpec:
			if kind, ok := n.Type.(*ast.Ident); ok && strings.HasSuffix(kind.Name, "State") && len(n.Values) == 1 {
				allowed[n.Values[0]] = true
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && strings.EqualFold(f.Sel.Name, "Become") {
				allowed[n.Args[0]] = true
			}
		case *ast.CompositeLit:
			if n.Type == nil && len(n.Elts) == len(actors.Edge[string]{}) {
				allowed[n.Elts[1]] = true
			}
		case *ast.BasicLit:
			if word, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && !allowed[n] &&
				slices.Contains(words, word) {
				findings = append(findings, fmt.Sprintf("%s: the state %s has a constant", s.at(n.Pos()), n.Value))
			}
		}
		return true
	})
	return findings
}
