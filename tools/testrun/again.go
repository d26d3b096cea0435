package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// This file owns the second look at a test that failed. Thousands of tests run beside each other, many of them with
// real processes and real clocks, and one that a busy machine has kept waiting says nothing about the change that is
// tested. So a few that failed are run again, each alone: one that passes then is unsteady. It is named, its first
// words stand above, and it is a bug to be mended, but it refuses nobody's change. What is wrong by itself fails alone,
// too: the simulator's seeds, the scenarios, the goldens. STRICT=1 gives no second look.

// mostAgain is how many tests are run again. Where more fail, something is broken, and nobody wants to hear it twice.
const mostAgain = 3

// suspects are the tests that are worth a second look: none where a package did not build or did not come to its end,
// because then nobody knows what else it would have said, and none where too many failed. What a race or a panic has
// shown, a run without it does not refute.
func (r *run) suspects() []test {
	var tops []test
	for _, f := range r.failed {
		if f.name == "" {
			return nil
		}
		f.name, _, _ = strings.Cut(f.name, "/") // a subtest is run again with its test
		if !slices.Contains(tops, f) {
			tops = append(tops, f)
		}
	}
	if r.broken || len(tops) > mostAgain {
		return nil
	}
	return tops
}

// alone is the command that runs one test by itself: what it was, with that test's package in place of all.
func alone(command []string, t test) []string {
	flags := slices.DeleteFunc(slices.Clone(command), func(word string) bool { return strings.HasPrefix(word, "./") })
	return append(flags, "-count=1", "-run", "^"+regexp.QuoteMeta(t.name)+"$", t.pkg)
}

// again runs the suspects, each alone, and notes which of them pass then.
func (r *run) again(suspects []test, look func(test, *run) error) error {
	for _, t := range suspects {
		fmt.Fprintf(r.out, "\nonce more, alone: %s %s\n", shortOf(t.pkg), t.name)
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
