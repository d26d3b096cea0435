package jobfile

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/messages"
)

// This file parses and formats the indices of an array in Slurm's notation: 0-99%10, 0-9:2 or 1,5,7.

const arrayHint = "write indices such as 0-99, 0-99%10 (at most ten running at once), 0-9:2 or 1,5,7"

// ParseArray parses indices.
func ParseArray(text string) (*messages.ArraySpec, *Problem) {
	a := &messages.ArraySpec{}
	list, most, limited := strings.Cut(text, "%")
	if limited {
		n, err := strconv.ParseInt(most, 10, 32)
		if err != nil || n < 1 {
			return nil, say(arrayHint, "%s is not a number of running elements", quote(most))
		}
		a.Most = int32(n)
	}
	for part := range strings.SplitSeq(list, ",") {
		span, step, stepped := strings.Cut(strings.TrimSpace(part), ":")
		first, last, wide := strings.Cut(span, "-")
		r := &messages.IndexRange{}
		ok := number32(first, &r.First)
		if r.Last = r.First; wide {
			ok = ok && number32(last, &r.Last) && r.Last >= r.First
		}
		if stepped {
			ok = ok && wide && number32(step, &r.Step) && r.Step > 0
		}
		if !ok {
			return nil, say(arrayHint, "%s is not an index or a range", quote(part))
		}
		if n := int32(r.Len() - 1); r.Step > 1 {
			r.Last = r.First + n*r.Step // 0-9:2 ends with 8
		}
		a.Indices = append(a.Indices, r)
	}
	return a, nil
}

func number32(text string, to *int32) bool {
	n, err := strconv.ParseInt(text, 10, 32)
	*to = int32(n)
	return err == nil && n >= 0
}

// FormatArray formats indices for ParseArray. It returns "" if the job is not an array.
func FormatArray(a *messages.ArraySpec) string {
	var parts []string
	for _, r := range a.GetIndices() {
		parts = append(parts, r.Words())
	}
	text := strings.Join(parts, ",")
	if a.GetMost() > 0 {
		text += "%" + strconv.Itoa(int(a.GetMost()))
	}
	return text
}

func readArray(r *reader, n *yaml.Node, path string) {
	if a, ok := parsed(r, n, path, "indices", ParseArray); ok {
		r.spec.Array = a
	}
}
