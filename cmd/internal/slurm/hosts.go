package slurm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// This file parses and formats Slurm's node lists: n[1-3,7],gpu04.

// maxHosts limits the number of nodes in one list.
const maxHosts = 65536

// Hostnames returns the nodes of a list.
func Hostnames(list string) (names []string, err error) {
	for part := range splitOutside(list) {
		expanded, ok := expand(strings.TrimSpace(part), maxHosts-len(names))
		if !ok {
			return nil, refuse("write n1,n2 or n[1-3,7]", "%q is not a list of nodes", list)
		}
		names = append(names, expanded...)
	}
	return names, nil
}

// splitOutside iterates over the parts between commas outside brackets.
func splitOutside(list string) func(func(string) bool) {
	return func(yield func(string) bool) {
		depth, from := 0, 0
		for i, r := range list {
			switch {
			case r == '[':
				depth++
			case r == ']':
				depth--
			case r == ',' && depth == 0:
				if !yield(list[from:i]) {
					return
				}
				from = i + 1
			}
		}
		yield(list[from:])
	}
}

func expand(part string, most int) ([]string, bool) {
	before, rest, has := strings.Cut(part, "[")
	if !has {
		return []string{part}, part != "" && !strings.Contains(part, "]") && most > 0
	}
	inside, after, closed := strings.Cut(rest, "]")
	tails, ok := []string{""}, true
	if after != "" {
		tails, ok = expand(after, most)
	}
	if !closed || !ok {
		return nil, false
	}
	var names []string
	for span := range strings.SplitSeq(inside, ",") {
		first, last, wide := strings.Cut(span, "-")
		if !wide {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, failed := strconv.Atoi(last)
		if err != nil || failed != nil || from < 0 || to < from || (to-from+1)*len(tails) > most-len(names) {
			return nil, false
		}
		for n := from; n <= to; n++ {
			for _, tail := range tails {
				names = append(names, fmt.Sprintf("%s%0*d%s", before, len(first), n, tail))
			}
		}
	}
	return names, true
}

// Hostlist formats nodes briefly: names that differ only by a number at the end share one bracket.
func Hostlist(names []string) string {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	var stems []string
	numbers := map[string][]string{}
	for _, name := range names {
		stem := strings.TrimRight(name, "0123456789")
		if _, ok := numbers[stem]; !ok {
			stems = append(stems, stem)
		}
		numbers[stem] = append(numbers[stem], name[len(stem):])
	}
	var parts []string
	for _, stem := range stems {
		all := numbers[stem]
		slices.SortFunc(all, func(a, b string) int { return len(a) - len(b) + 2*strings.Compare(pad(a), pad(b)) })
		var spans []string
		for i := 0; i < len(all); {
			j := i + 1
			for j < len(all) && follows(all[j-1], all[j]) {
				j++
			}
			span := all[i]
			if j-i > 1 {
				span += "-" + all[j-1]
			}
			spans, i = append(spans, span), j
		}
		switch {
		case len(all) > 1 && all[0] != "":
			parts = append(parts, stem+"["+strings.Join(spans, ",")+"]")
		default:
			for _, n := range all {
				parts = append(parts, stem+n)
			}
		}
	}
	return strings.Join(parts, ",")
}

func pad(digits string) string { return fmt.Sprintf("%20s", digits) }

// follows reports whether b is the number after a. With leading zeros, both must have the same width.
func follows(a, b string) bool {
	x, err := strconv.Atoi(a)
	y, failed := strconv.Atoi(b)
	return err == nil && failed == nil && y == x+1 && (len(a) == len(b) || a[0] != '0' && b[0] != '0')
}
