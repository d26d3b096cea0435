package test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/actors/leader"
	"github.com/yi-json/synapse/actors/worker"
)

// This file keeps docs/states.md true: the page is what actors.Tables() says,
// and nothing else. That each of these steps is really taken, sim's
// TestEveryStepIsTaken proves over its seeds.

const statesPage = "docs/states.md"

const statesIntroduction = `# The states of every actor

Written by a test from the tables in ` + "`actors/`" + ` (` + "`go test ./test -run StatesPage -rewrite`" + ` writes it anew). An actor moves only along
these steps: any other is a panic, because what would follow was never thought through. Another test runs the simulator
until each of these steps was taken.
`

var rewrite = flag.Bool("rewrite", false, "write docs/states.md")

// TestStatesPage: the page is what the tables say.
func TestStatesPage(t *testing.T) {
	var page strings.Builder
	page.WriteString(statesIntroduction)
	for _, table := range append(leader.Tables(), worker.Tables()...) {
		fmt.Fprintf(&page, "\n## %s\n\nBegins as **%s**.\n\n| from | event | to |\n|---|---|---|\n",
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
		t.Errorf("%s is not what the tables say: go test ./test -run StatesPage -rewrite", statesPage)
	}
}
