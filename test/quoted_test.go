// This file holds the rule that a page quotes errors as the programs write them.
package test

import (
	"regexp"
	"strings"
	"testing"
)

const (
	imagePage = "docs/jobs/data.md"
	// imageErrors opens the table with parts of error messages.
	imageErrors = "| message contains | fix |"
)

var (
	// quotedCell matches the first cell of a row, a part of a message.
	quotedCell = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")
	// joined matches a string that continues on the next line.
	joined = regexp.MustCompile(`"\s*\+\s*"`)
)

// TestQuotedErrorsRule looks up each message of the page on images in the code that fetches them.
func TestQuotedErrorsRule(t *testing.T) {
	_, table, found := strings.Cut(pageOf(t, imagePage), imageErrors)
	if !found {
		t.Fatalf("%s has no table %q", imagePage, imageErrors)
	}
	table, _, _ = strings.Cut(table, "\n## ")
	var code strings.Builder
	for _, s := range readTree(t) {
		if s.production() && strings.HasPrefix(s.path, "runtime/image/") {
			code.WriteString(joined.ReplaceAllString(s.text, ""))
		}
	}
	quoted := quotedCell.FindAllStringSubmatch(table, -1)
	for _, m := range quoted {
		part, _, _ := strings.Cut(m[1], "…")
		if !strings.Contains(code.String(), part) {
			t.Errorf("%s quotes %q, which no error of runtime/image contains", imagePage, part)
		}
	}
	if len(quoted) < 8 {
		t.Errorf("only %d messages are quoted", len(quoted))
	}
}
