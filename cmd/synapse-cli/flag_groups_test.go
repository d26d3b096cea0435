package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestFlagGroups checks that the help of submit and run shows every flag once, under the title of its group.
func TestFlagGroups(t *testing.T) {
	root := newApp(nil, nil, nil, func(string) (string, bool) { return "", false }).root()
	used := map[string]bool{}
	for _, name := range []string{"submit", "run"} {
		command, _, err := root.Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		help := cli("", name, "--help").out
		usage, _, found := strings.Cut(help, "\nGlobal Flags:\n")
		if !found || !strings.Contains(usage, "\nExamples:\n  synapse-cli "+name) {
			t.Errorf("%s: an example or the global flags are missing:\n%s", name, help)
		}
		at := 0
		for _, group := range flagGroups {
			next := strings.Index(usage, "\n"+group.title+":\n")
			if next <= at {
				t.Errorf("%s: %s is at %d, after %d", name, group.title, next, at)
			}
			at = next
		}
		command.LocalFlags().VisitAll(func(f *pflag.Flag) {
			used[f.Name] = true
			flagLines := 0
			for line := range strings.Lines(usage) {
				if regexp.MustCompile(`^ +(-\w, )?--` + f.Name + `[ \[]`).MatchString(line) {
					flagLines++
				}
			}
			if flagLines != 1 {
				t.Errorf("%s: --%s is shown %d times", name, f.Name, flagLines)
			}
		})
	}
	grouped := map[string]bool{}
	for _, group := range flagGroups {
		for _, name := range group.flags {
			if grouped[name] || !used[name] {
				t.Errorf("%s: --%s is in two groups, or is not a flag of submit or run", group.title, name)
			}
			grouped[name] = true
		}
	}
	for name := range used {
		if !grouped[name] && name != "help" {
			t.Errorf("--%s is in no group", name)
		}
	}
}
