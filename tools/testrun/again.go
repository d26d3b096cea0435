package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// This file reruns failed tests. Thousands of tests run in parallel, many with real processes and real clocks, so a
// failure on a busy host may have no relation to the change. If only a few tests failed, each is run again alone. A
// test that then passes is unsteady: it is listed with its first output, and is a bug to fix, but it fails no run. A
// true failure also fails alone, as in the simulator's seeds, the scenarios and the golden files. STRICT=1 disables
// reruns.

// mostAgain is the maximum number of reruns. More failures mean a real error.
const mostAgain = 3

// suspects returns the tests to rerun. It returns none if a package did not build or did not complete, because its
// other results are unknown, and none if too many failed. A race or a panic is never rerun, because a pass would not
// disprove it.
func (r *run) suspects() []test {
	var tops []test
	for _, f := range r.failed {
		if f.name == "" {
			return nil
		}
		f.name, _, _ = strings.Cut(f.name, "/") // a subtest is rerun with its test
		if !slices.Contains(tops, f) {
			tops = append(tops, f)
		}
	}
	if r.broken || len(tops) > mostAgain {
		return nil
	}
	return tops
}

// alone returns the command that runs one test by itself: the original command with that test's package instead of all.
func alone(command []string, t test) []string {
	flags := slices.DeleteFunc(slices.Clone(command), func(word string) bool { return strings.HasPrefix(word, "./") })
	return append(flags, "-count=1", "-run", "^"+regexp.QuoteMeta(t.name)+"$", t.pkg)
}

// again runs each suspect alone, and notes which of them pass.
func (r *run) again(suspects []test, look func(test, *run) error) error {
	for _, t := range suspects {
		fmt.Fprintf(r.out, "\nrerun alone: %s %s\n", shortOf(t.pkg), t.name)
		second := newRun(r.out)
		if err := look(t, second); err != nil {
			return err
		}
		if second.passed == 0 || len(second.failed) > 0 {
			continue
		}
		r.unsteady, r.passed = append(r.unsteady, t), r.passed+1
		r.failed = slices.DeleteFunc(r.failed, func(f test) bool {
			return f == t || f.pkg == t.pkg && strings.HasPrefix(f.name, t.name+"/")
		})
	}
	return nil
}
