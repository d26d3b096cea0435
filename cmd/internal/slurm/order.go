package slurm

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/messages"
)

// This file sorts the jobs of squeue, and lists the elements of an array that are not jobs yet.

// numbers lists the columns that are sorted by number instead of by text.
var numbers = map[byte]func(*Entry) int64{
	'i': func(e *Entry) int64 { return leading(e.ID)<<32 + leading(e.Element) }, // the first has 30 bits, an index 31
	'A': func(e *Entry) int64 { return leading(e.raw()) }, 'F': func(e *Entry) int64 { return leading(e.base()) },
	'c': func(e *Entry) int64 { return e.CPUs / max(e.Nodes, 1) }, 'd': func(e *Entry) int64 { return e.Disk },
	'K': func(e *Entry) int64 { return leading(e.Element) },
	'M': func(e *Entry) int64 { return e.ElapsedMs }, 'l': func(e *Entry) int64 { return endless(e.LimitMs, e.LimitMs) },
	'L': func(e *Entry) int64 { return endless(e.LimitMs, e.LimitMs-e.ElapsedMs) },
	'D': func(e *Entry) int64 { return e.Nodes }, 'C': func(e *Entry) int64 { return e.CPUs },
	'm': func(e *Entry) int64 { return e.Memory / max(e.Nodes, 1) }, 'b': func(e *Entry) int64 { return e.GPUs },
	'S': func(e *Entry) int64 { return endless(e.began(), e.began()) },
	'e': func(e *Entry) int64 { return endless(e.ends(), e.ends()) }, 'V': func(e *Entry) int64 { return e.SubmitMs },
	'Q': func(e *Entry) int64 { return int64(e.Priority) }, 'p': func(e *Entry) int64 { return int64(e.Priority) },
	't': stage, 'T': stage,
}

// leading returns the number at the start of a text, or 0.
func leading(text string) int64 {
	digits := text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
	n, _ := strconv.ParseInt(digits, 10, 64)
	return n
}

// endless returns n, or the largest number if nothing is given.
func endless(given, n int64) int64 {
	if given == 0 {
		return math.MaxInt64
	}
	return n
}

// stage returns the position of a state in Slurm's order: waiting before running.
func stage(e *Entry) int64 {
	return int64(slices.Index([]string{"PENDING", "RUNNING", "CONFIGURING", "COMPLETING"}, e.State)+5) % 5
}

// Sort sorts jobs by the keys of -S: letters of -o, each with an optional + or - before it. - sorts in descending
// order.
func Sort(all []*Entry, keys string) error {
	var compare []func(x, y *Entry) int
	for key := range strings.SplitSeq(keys, ",") {
		sign := 1
		letter := strings.TrimPrefix(strings.TrimSpace(key), "+")
		if rest, is := strings.CutPrefix(letter, "-"); is {
			letter, sign = rest, -1
		}
		at := slices.IndexFunc(QueueFields(), func(f Field[*Entry]) bool {
			return f.Letter != 0 && f.Of != nil && letter == string(f.Letter)
		})
		if at < 0 {
			return &Refusal{Option: "--sort", Text: fmt.Sprintf("unknown field %q", key),
				Hint: "write letters of --format separated by commas, such as P,-p; use " + letters(QueueFields())}
		}
		field := QueueFields()[at]
		compare = append(compare, func(x, y *Entry) int {
			if n := numbers[field.Letter]; n != nil {
				return sign * cmp.Compare(n(x), n(y))
			}
			return sign * strings.Compare(field.Of(x), field.Of(y))
		})
	}
	slices.SortStableFunc(all, func(x, y *Entry) int {
		for _, c := range compare {
			if n := c(x, y); n != 0 {
				return n
			}
		}
		return 0
	})
	return nil
}

// Unborn returns the elements of an array that are not jobs yet: those that are neither finished nor in born.
func Unborn(j *messages.JobStatus, born map[int32]bool, nowMs int64) (all []*Entry) {
	r := j.GetRecord()
	spec := r.GetSpec().GetArray()
	over, held, own := map[int]bool{}, map[int]bool{}, map[int]*messages.ElementsChanged{}
	each := func(places []*messages.IndexRange, do func(int)) {
		for place := range (&messages.ArraySpec{Indices: places}).Len() {
			do(int((&messages.ArraySpec{Indices: places}).Index(place)))
		}
	}
	for _, ended := range r.GetArray().GetEnded() {
		each(ended.GetPlaces(), func(place int) { over[place] = true })
	}
	each(r.GetArray().GetHeld(), func(place int) { held[place] = true })
	for _, changed := range r.GetArray().GetChanged() {
		each(changed.GetPlaces(), func(place int) { own[place] = changed })
	}
	whole := Of(j, nowMs)
	for place := range spec.Len() {
		index := spec.Index(place)
		if over[place] || born[index] {
			continue
		}
		e := *whole
		e.Element = strconv.Itoa(int(index))
		e.ID = e.ArrayID + "_" + e.Element
		e.Job = messages.ElementID(r.GetId(), index)
		if c := own[place]; c != nil && c.GetSetPriority() {
			e.Priority = c.GetPriority()
		}
		if c := own[place]; c != nil && c.GetSetTimeLimit() {
			e.LimitMs = c.GetTimeLimitMs()
		}
		if held[place] {
			e.Reason = "JobHeldUser"
		}
		all = append(all, &e)
	}
	return all
}
