package jobfile

import (
	"slices"
	"strings"
	"testing"
)

// TestParseAfter checks that one result after several jobs applies to all of them, and that formatted
// dependencies parse as the same.
func TestParseAfter(t *testing.T) {
	for text, want := range map[string][]string{
		"a":              {"a"},
		"a:ok":           {"a"},
		"a,b:any":        {"a:any", "b:any"},
		"a:ok, b:failed": {"a", "b:failed"},
		"a:any,b":        {"a:any", "b"},
		"a:started+10m":  {"a:started+10m"},
		"a,b:started":    {"a:started", "b:started"},
		"a:element":      {"a:element"},
		"a:started+soon": nil,
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
			if problem != nil || len(again) != 1 || again[0].End.Word() != all[i].End.Word() ||
				again[0].DelayMs != all[i].DelayMs {
				t.Errorf("%q is written as %q, and read as %v (%v)", text, word, again, problem)
			}
		}
	}
}

// TestAfterAsElsewhere checks the hint for Slurm's order, which puts the result first.
func TestAfterAsElsewhere(t *testing.T) {
	for text, want := range map[string]string{"afterok:prep": "train-7f:ok", "any:prep": "train-7f:any"} {
		if _, problem := ParseAfter(text); problem == nil || !strings.Contains(problem.Hint, want) {
			t.Errorf("of %q it is said: %+v", text, problem)
		}
	}
	if _, problem := ParseAfter("prep:nonsense"); problem == nil || !strings.Contains(problem.Text,
		"not an end of a job") {
		t.Errorf("an end that there is not: %+v", problem)
	}
}
