package test

import (
	"strings"
	"testing"

	"github.com/yi-json/synapse/test/page"
)

// This file checks that tests run every command block of the pages. e2e.TestPagesAreTyped runs them.

const (
	// leastTyped is the minimum number of blocks that run unchanged.
	leastTyped = 25
	// mostNotRun is the maximum number of blocks that no test can run. The pages that compare Synapse with other
	// systems have none.
	mostNotRun = 15
)

// TestBlocksRule checks that every block of every page is marked with its use, and that the tests it names exist.
func TestBlocksRule(t *testing.T) {
	tests, uses := declaredTests(t), map[page.Use]int{}
	for _, d := range documents(readTree(t)) {
		for _, b := range page.Blocks(d.path, d.text) {
			use, word, err := b.Use()
			if err != nil {
				t.Error(err)
			}
			if use == page.Elsewhere && !tests[word] {
				t.Errorf("%s is run by %s, which does not exist", b, word)
			}
			uses[use]++
		}
	}
	if uses[page.Typed] < leastTyped || uses[page.NotRun] > mostNotRun {
		t.Errorf("%d blocks are run, want %d; %d cannot be run, at most %d are permitted",
			uses[page.Typed], leastTyped, uses[page.NotRun], mostNotRun)
	}
	for text, want := range map[string]string{ // the rule can fail
		"```\nmake x\n```\n":                          "does not say what",
		"```yaml\na: b\n```\n":                        "does not say what",
		"```text\nsynapse-cli get jobs\n```\n":        "has a command: synapse-cli get jobs",
		"<!-- not run: no -->\n```sh\nls\n```\n":      `"no" is too short for a reason`,
		"<!-- skipped -->\n```sh\nls\n```\n":          "has neither",
		"- a\n\n  ```text\n  $ ls\n  ```\n":           "has a command: $ ls",
		"<!-- run by test.TestX -->\n```\nls\n```\n":  "",
		"<!-- file: a.yaml -->\n```yaml\na: b\n```\n": "",
		"```console\n$ ls\nx.md\n```\n":               "",
	} {
		_, _, err := page.Blocks("docs/x.md", text)[0].Use()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
