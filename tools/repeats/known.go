package main

import (
	"fmt"
	"slices"
	"strings"
)

// This file holds the list of permitted repeats.

// maxPlaces is the maximum number of entries in the list.
const maxPlaces = 14

// alike names functions that may look alike, with the reason.
type alike struct {
	functions []string
	why       string
}

// parseKnown parses the list: functions on separate lines, and below them, indented, the reason.
func parseKnown(text string) (all []alike, err error) {
	for i, l := range strings.Split(text, "\n") {
		switch said := strings.TrimSpace(l); {
		case said == "" || strings.HasPrefix(said, "#"):
		case l[0] != '\t':
			if len(all) == 0 || all[len(all)-1].why != "" {
				all = append(all, alike{})
			}
			p := &all[len(all)-1]
			p.functions = append(p.functions, said)
		case len(all) == 0:
			return nil, fmt.Errorf("known.txt:%d: a reason precedes the first functions", i+1)
		default:
			p := &all[len(all)-1]
			p.why = strings.TrimSpace(p.why + " " + said)
		}
	}
	for _, p := range all {
		if p.why == "" {
			return nil, fmt.Errorf("known.txt: %s has no reason", p.functions[0])
		}
	}
	return all, nil
}

// judge compares the found repeats with the permitted ones, and returns the errors.
func judge(found []repeat, places []alike) (wrong []string) {
	used := map[string]bool{}
	for _, r := range found {
		a, b := r.a.f.String(), r.b.f.String()
		allowed := slices.ContainsFunc(places, func(p alike) bool {
			return slices.Contains(p.functions, a) && slices.Contains(p.functions, b)
		})
		if !allowed {
			wrong = append(wrong, r.String())
		}
		used[a], used[b] = true, true
	}
	for _, p := range places {
		for _, f := range p.functions {
			if !used[f] {
				wrong = append(wrong, "tools/repeats/known.txt: no repeat matches "+f+" any more: remove the entry")
			}
		}
	}
	if len(places) > maxPlaces {
		wrong = append(wrong, fmt.Sprintf("tools/repeats/known.txt: %d entries, but at most %d are permitted",
			len(places), maxPlaces))
	}
	return wrong
}
