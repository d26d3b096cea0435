// Package scope parses the arguments that name jobs and elements of arrays: J, J_5, J_[5-6,9], J_[1-9:2],
// J[3-5]. All commands use this parser, including the Slurm commands. It contacts no scheduler: the caller
// resolves the array J and checks that the elements exist.
package scope

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/messages"
)

// Scope names a job, or some elements of one array.
type Scope struct {
	Word      string // the argument as written
	Job       string // the part before the elements: an ID, a prefix of an ID, a name or a number
	Bracketed bool   // the elements are in brackets; otherwise X_5 may also be a name
	limited   bool   // a limit follows the elements, as in a list: J[0-9%2]
	ranges    []*messages.IndexRange
}

// Error describes a refused scope. The text names the argument.
type Error struct{ Text, Hint string }

func (e *Error) Error() string { return e.Text }

const hint = "write elements as J_5, J_[5-6,9], J_[1-9:2] or J[3-5]"

// Refuse returns the error for an argument.
func Refuse(word, format string, args ...any) *Error {
	return &Error{Text: fmt.Sprintf("%q: ", word) + fmt.Sprintf(format, args...), Hint: hint}
}

// Parse parses one job or scope.
func Parse(word string) (*Scope, error) {
	if !strings.ContainsAny(word, "[]") {
		return plain(word), nil
	}
	job, list, _ := strings.Cut(word, "[")
	list, closed := strings.CutSuffix(list, "]")
	if job = strings.TrimSuffix(job, "_"); !closed || strings.ContainsAny(job+list, "[]") {
		return nil, Refuse(word, "brackets do not match, or text follows them")
	}
	if job == "" {
		return nil, Refuse(word, "array ID is missing before the brackets")
	}
	if strings.Contains(list, "…") {
		return nil, Refuse(word, "list is cut short with …; use %s for the complete array", job)
	}
	s := &Scope{Word: word, Job: job, Bracketed: true}
	list, most, limited := strings.Cut(list, "%")
	if _, ok := number(most); limited && !ok {
		return nil, Refuse(word, "%q after %% is not a number", most)
	}
	s.limited = limited
	for part := range strings.SplitSeq(list, ",") {
		r, ok := rangeOf(part)
		if !ok {
			return nil, Refuse(word, "%q is not an index or a range", part)
		}
		s.ranges = append(s.ranges, r)
	}
	return s, nil
}

// plain parses an argument without brackets. The last part of X_5 is an element if X is an array.
func plain(word string) *Scope {
	at := strings.LastIndexByte(word, '_')
	if at > 0 {
		if n, ok := number(word[at+1:]); ok {
			return &Scope{Word: word, Job: word[:at], ranges: []*messages.IndexRange{{First: n, Last: n}}}
		}
	}
	return &Scope{Word: word, Job: word}
}

// rangeOf parses 5, 5-9 or 5-9:2.
func rangeOf(text string) (*messages.IndexRange, bool) {
	span, step, stepped := strings.Cut(text, ":")
	first, last, wide := strings.Cut(span, "-")
	r := &messages.IndexRange{}
	ok := false
	if r.First, ok = number(first); !ok {
		return nil, false
	}
	if r.Last = r.First; wide {
		if r.Last, ok = number(last); !ok || r.Last < r.First {
			return nil, false
		}
	}
	if stepped {
		if r.Step, ok = number(step); !ok || r.Step == 0 || !wide {
			return nil, false
		}
	}
	return r, true
}

// number parses an index. It accepts only digits, and so neither a sign nor a space.
func number(text string) (int32, bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 32)
	return int32(n), err == nil && n <= messages.MaxIndex
}

// Elements reports whether the scope names elements.
func (s *Scope) Elements() bool { return len(s.ranges) > 0 }

// In returns the named indices of an array in ascending order, without duplicates. No indices mean the
// complete array. An index that is not in the array is refused.
func (s *Scope) In(array *messages.ArraySpec) ([]int32, error) {
	if n := (&messages.ArraySpec{Indices: s.ranges}).Len(); n > 2*messages.MaxElements {
		return nil, Refuse(s.Word, "%d elements are selected, but an array has at most %d", n, messages.MaxElements)
	}
	named := map[int32]bool{}
	var all []int32
	for _, r := range s.ranges {
		for k := range r.Len() {
			index := r.GetFirst() + int32(k)*max(r.GetStep(), 1)
			if array.Place(index) < 0 {
				return nil, Refuse(s.Word, "array has no element %d", index)
			}
			if !named[index] {
				named[index] = true
				all = append(all, index)
			}
		}
	}
	switch {
	case len(all) == array.Len() && s.Bracketed:
		return nil, nil
	case s.limited:
		return nil, Refuse(s.Word, "a limit after %% is supported for complete arrays only")
	}
	slices.Sort(all)
	return all, nil
}

// Has reports whether the scope names an index of an array whose record no longer exists.
func (s *Scope) Has(index int32) bool {
	return (&messages.ArraySpec{Indices: s.ranges}).Place(index) >= 0
}

// Split splits a list at separators outside brackets.
func Split(list, separator string) (parts []string) {
	for {
		part, rest, found := Cut(list, separator)
		parts = append(parts, part)
		if !found {
			return parts
		}
		list = rest
	}
}

// Cut splits a text at the first separator outside brackets.
func Cut(text, separator string) (before, after string, found bool) {
	depth := 0
	for i := range len(text) {
		switch {
		case text[i] == '[':
			depth++
		case text[i] == ']':
			depth--
		case depth <= 0 && strings.HasPrefix(text[i:], separator):
			return text[:i], text[i+len(separator):], true
		}
	}
	return text, "", false
}
