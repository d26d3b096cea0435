package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// TestChosen checks that a run with one command behaves like a run with all: the list has the names of the commands,
// and their help and usage errors are equal.
func TestChosen(t *testing.T) {
	output := func(all bool, args ...string) string {
		var out bytes.Buffer
		a := newApp(strings.NewReader(""), &out, &out, func(string) (string, bool) { return "", false })
		root := a.root(args...)
		if all {
			root = a.root()
		}
		root.SetArgs(args)
		root.SetOut(&out)
		root.SetErr(&out)
		if err := root.Execute(); err != nil {
			a.end(usageError(root, args, err))
		}
		return out.String()
	}
	var names []string
	for _, c := range commands() {
		one := newApp(nil, nil, nil, nil).root(c.name)
		names = append(names, c.name)
		if found, _, err := one.Find([]string{c.name}); err != nil || found.Name() != c.name {
			t.Errorf("%s: %v %v", c.name, found, err)
		}
		if n := len(one.Commands()); n != 1 && c.name != "docs" {
			t.Errorf("%s creates %d commands", c.name, n)
		}
		for _, args := range [][]string{{c.name, "--help"}, {c.name, "--no-such-flag"}, {c.name, "--serve", "x"}} {
			if got, want := output(false, args...), output(true, args...); got != want || want == "" {
				t.Errorf("%q prints:\n%s\nwith all commands:\n%s", args, got, want)
			}
		}
	}
	all := newApp(nil, nil, nil, nil).root()
	for _, c := range all.Commands() {
		if !slices.Contains(names, c.Name()) && c.Name() != "completion" && c.Name() != "help" {
			t.Errorf("%s is missing", c.Name())
		}
	}
}
