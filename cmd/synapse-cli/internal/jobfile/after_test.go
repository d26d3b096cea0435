package jobfile

import (
	"slices"
	"testing"
)

// TestParseAfter: one end behind several jobs holds for all of them, and what was read is written so that it is read
// again.
func TestParseAfter(t *testing.T) {
	for text, want := range map[string][]string{
		"a":              {"a"},
		"a:ok":           {"a"},
		"a,b:any":        {"a:any", "b:any"},
		"a:ok, b:failed": {"a", "b:failed"},
		"a:any,b":        {"a:any", "b"},
		"a:later":        nil,
		"a,,b":           nil,
		":any":           nil,
		"":               nil,
	} {
		all, problem := ParseAfter(text)
		got := FormatAfter(all)
		if (problem != nil) != (want == nil) || problem == nil && !slices.Equal(got, want) {
			t.Errorf("%q is read as %v (%v), want %v", text, got, problem, want)
		}
		for i, word := range got {
			again, problem := ParseAfter(word)
			if problem != nil || len(again) != 1 || again[0].End.Word() != all[i].End.Word() {
				t.Errorf("%q is written as %q, and read as %v (%v)", text, word, again, problem)
			}
		}
	}
}
