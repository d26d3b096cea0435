package jobfile

import "testing"

// TestParseArray checks that indices in Slurm's notation are parsed and formatted.
func TestParseArray(t *testing.T) {
	for text, want := range map[string]struct {
		again string
		n     int
	}{
		"0-99%10": {"0-99%10", 100}, "0-9:2": {"0-8:2", 5}, "1,5,7": {"1,5,7", 3}, "7": {"7", 1}, "0-3,9%1": {"0-3,9%1", 5},
		"5-5": {"5", 1}, "": {}, "a": {}, "3-1": {}, "0-9:0": {}, "1:2": {}, "0-9%0": {}, "0-9%": {}, "-1": {}, "1,,2": {},
		"99999999999": {},
	} {
		a, problem := ParseArray(text)
		if (problem != nil) != (want.n == 0) || problem == nil && (FormatArray(a) != want.again || a.Len() != want.n) {
			t.Errorf("%q is read as %v (%v), want %v", text, a, problem, want)
		}
	}
}
