// Package fieldpath reads fields of JSON values by paths, such as .items[*].metadata.name, and prints them by
// templates. The syntax is kubectl's JSONPath without filters, slices and recursion.
package fieldpath

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// This file owns paths.

// Path leads from a JSON value to fields in it.
type Path []step

// step selects fields of an object or elements of a list.
type step struct {
	name  string
	index int  // of the element; below zero: from the end
	isKey bool // the step selects the field with the name
	all   bool // the step selects all elements, or all fields in the order of their names
}

// ParsePath parses a path. A leading $, @ or dot is optional.
func ParsePath(text string) (Path, error) {
	var p Path
	rest := strings.TrimSpace(text)
	if rest = strings.TrimLeft(rest, "$@"); rest != "" && rest[0] != '.' && rest[0] != '[' {
		rest = "." + rest
	}
	if rest == "." {
		return p, nil
	}
	for rest != "" {
		next, n, err := parseStep(rest)
		if err != nil {
			return nil, fmt.Errorf("path %q: %w", text, err)
		}
		p, rest = append(p, next), rest[n:]
	}
	return p, nil
}

// parseStep parses the first step of a text, and returns its length.
func parseStep(text string) (s step, n int, err error) {
	switch {
	case strings.HasPrefix(text, ".."):
		return s, 0, fmt.Errorf("a recursive path (..) is not supported: write all fields of the path")
	case text[0] == '[':
		end := strings.IndexByte(text, ']')
		if end < 0 {
			return s, 0, fmt.Errorf("a ] is missing")
		}
		s, err = parseIndex(strings.TrimSpace(text[1:end]))
		return s, end + 1, err
	case text[0] != '.':
		return s, 0, fmt.Errorf("a dot is missing before %q", text)
	}
	var name strings.Builder
	for n = 1; n < len(text) && text[n] != '.' && text[n] != '['; n++ {
		if text[n] == '\\' && n+1 < len(text) { // a dot in a name
			n++
		}
		name.WriteByte(text[n])
	}
	if name.Len() == 0 {
		return step{}, n, fmt.Errorf("a name is missing after the dot")
	}
	return step{name: name.String(), isKey: name.String() != "*", all: name.String() == "*"}, n, nil
}

// parseIndex parses the part of a step between brackets.
func parseIndex(text string) (step, error) {
	switch {
	case text == "*":
		return step{all: true}, nil
	case len(text) > 1 && (text[0] == '\'' || text[0] == '"') && text[len(text)-1] == text[0]:
		return step{name: text[1 : len(text)-1], isKey: true}, nil
	case strings.HasPrefix(text, "?"):
		return step{}, fmt.Errorf("a filter [?(…)] is not supported: select with -l, --phase, or jq")
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return step{}, fmt.Errorf("[%s] is not an index: write [0], [-1], [*] or ['name']", text)
	}
	return step{index: n}, nil
}

// Values returns the fields of a value that a path leads to. A missing field yields nothing.
func (p Path) Values(value any) []any {
	all := []any{value}
	for _, s := range p {
		var next []any
		for _, v := range all {
			next = append(next, s.of(v)...)
		}
		all = next
	}
	return all
}

// of returns what a step selects from a value.
func (s step) of(value any) []any {
	switch v := value.(type) {
	case map[string]any:
		if s.all {
			var all []any
			for _, name := range sortedNames(v) {
				all = append(all, v[name])
			}
			return all
		}
		if field, ok := v[s.name]; ok && s.isKey {
			return []any{field}
		}
	case []any:
		if s.all {
			return v
		}
		at := s.index
		if at < 0 {
			at += len(v)
		}
		if !s.isKey && at >= 0 && at < len(v) {
			return v[at : at+1]
		}
	}
	return nil
}

func sortedNames(of map[string]any) []string {
	names := make([]string, 0, len(of))
	for name := range of { //order: they are sorted
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
