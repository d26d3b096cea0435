// This file holds the rule that a reader can find every page, from README through the index.
package test

import (
	"path"
	"slices"
	"strings"
	"testing"
)

const (
	frontPage, mostFront = "README.md", 4 << 10
	indexPage, mostIndex = "docs/README.md", 6 << 10
)

// commandIndex links the pages of the commands. The index of docs/ links it.
const commandIndex = "docs/reference/cli/README.md"

// notIndexed lists the pages of docs/ that the index omits. The research log is kept as it was written.
var notIndexed = []string{"docs/reports/research-log.md"}

// TestIndexRule checks that README links the index, that the index links every page, and that both are short.
func TestIndexRule(t *testing.T) {
	front, index := pageOf(t, frontPage), pageOf(t, indexPage)
	if !slices.Contains(linkedFrom(frontPage, front), indexPage) {
		t.Errorf("%s does not link %s", frontPage, indexPage)
	}
	if len(front) > mostFront || len(index) > mostIndex {
		t.Errorf("%s: %d bytes of %d, %s: %d of %d", frontPage, len(front), mostFront, indexPage, len(index), mostIndex)
	}
	linked := append(linkedFrom(indexPage, index), notIndexed...)
	commands := linkedFrom(commandIndex, pageOf(t, commandIndex))
	pages := 0
	for _, d := range documents(readTree(t)) {
		if !strings.HasPrefix(d.path, "docs/") || d.path == indexPage {
			continue
		}
		pages++
		if strings.HasPrefix(d.path, path.Dir(commandIndex)+"/") && d.path != commandIndex {
			if !slices.Contains(commands, d.path) {
				t.Errorf("%s does not link %s", commandIndex, d.path)
			}
			continue
		}
		if !slices.Contains(linked, d.path) {
			t.Errorf("%s does not link %s", indexPage, d.path)
		}
	}
	if pages < 25 {
		t.Errorf("only %d pages were found", pages)
	}
	got := linkedFrom("docs/x.md", "[a](a.md#b) [c](../c.md)")
	if strings.Join(got, " ") != "docs/a.md c.md" {
		t.Errorf("unexpected links of a page: %q", got)
	}
}

// linkedFrom returns the files that a page links, named from the repository's root.
func linkedFrom(name, text string) (all []string) {
	for _, m := range relativeLink.FindAllStringSubmatch(text, -1) {
		if m[1] != "" {
			all = append(all, path.Join(path.Dir(name), m[1]))
		}
	}
	return all
}
