// This file holds the rule that the questions of a newcomer have an answer.
package test

import (
	"fmt"
	"strings"
	"testing"
)

// questions lists the questions that docs/contribute/code-map.md answers, in its order.
var questions = []string{
	"Where is a gang admitted?",
	"Where can a GPU become free?",
	"What is on disk before a submit is answered?",
	"Who may stop a task?",
	"What happens when the leader's lease is lost between decision and write?",
	"Where would I add a field to a job?",
	"Where would I add a message?",
	"Where would I add an invariant?",
	"Where would I add a driver?",
	"Where would I add a queue policy?",
}

// TestTourRule checks that each question is on the page, with an answer that refers to the code. TestPointersRule
// checks these references.
func TestTourRule(t *testing.T) {
	page := pageOf(t, "docs/contribute/code-map.md")
	for i, question := range questions {
		heading := fmt.Sprintf("\n## %d. %s\n", i+1, question)
		_, answer, found := strings.Cut(page, heading)
		if !found {
			t.Errorf("docs/contribute/code-map.md lacks the question %q", strings.TrimSpace(heading))
			continue
		}
		answer, _, _ = strings.Cut(answer, "\n## ")
		if n := len(pointingLink.FindAllString(answer, -1)); n < 3 {
			t.Errorf("the answer to %q names only %d functions", question, n)
		}
	}
	if n := strings.Count(page, "\n## "); n != len(questions) {
		t.Errorf("docs/contribute/code-map.md has %d questions, but the list here has %d", n, len(questions))
	}
}

// pageOf reads one document of the tree.
func pageOf(t *testing.T, name string) string {
	t.Helper()
	for _, d := range documents(readTree(t)) {
		if d.path == name {
			return d.text
		}
	}
	t.Fatalf("document %s does not exist", name)
	return ""
}
