package slurmrest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// This file compares the documentation with the fields.

// treatments returns the lines of the page about fields.
func treatments() string {
	var effective, warned, refusals []string
	for _, f := range fields {
		switch {
		case f.warn:
			warned = append(warned, "`"+f.name+"`")
		case f.refuse != "":
			refusals = append(refusals, "`"+f.name+"`")
		default:
			effective = append(effective, "`"+f.name+"`")
		}
	}
	text := ""
	for _, list := range []struct {
		what  string
		names []string
	}{
		{"**With an effect:**", effective}, {"**Accepted with a warning**, because the field has no meaning here:", warned},
		{"**Refused:**", refusals},
	} {
		slices.Sort(list.names)
		text += fmt.Sprintf("- %s %s.\n", list.what, strings.Join(list.names, ", "))
	}
	return text
}

// TestPage checks that the page names each field with its treatment, each URL and each number of an error.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("../../../docs/reference/slurm-rest.md")
	page := string(text)
	if err != nil || !strings.Contains(page, treatments()) {
		t.Errorf("docs/reference/slurm-rest.md lacks these lines (%v):\n%s", err, treatments())
	}
	for _, e := range endpoints {
		path := "`" + e.prefix + "v0.0.42/" + e.path
		if !strings.Contains(page, path+"`") && !strings.Contains(page, path+"/{") {
			t.Errorf("the page lacks %s", path)
		}
	}
	for n := range strerror { //order: each is independent
		if !strings.Contains(page, fmt.Sprint(n)) {
			t.Errorf("the page lacks the number %d", n)
		}
	}
}
