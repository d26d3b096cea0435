package messages

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// This file has the arrays: their indices, the IDs of their elements, and short lists of many elements. The place of an
// element is its position in the list of indices, from 0.

const (
	// MaxElements limits the number of elements of one array.
	MaxElements = 100_000
	// MaxIndex limits the value of an index.
	MaxIndex = 1<<31 - 2
	// maxIndexRanges limits the number of ranges in the list of indices.
	maxIndexRanges = 4_096
)

// stride returns the step, which is 1 if none is set.
func (x *IndexRange) stride() int32 { return max(x.GetStep(), 1) }

// Len returns the number of indices in a range.
func (x *IndexRange) Len() int {
	if x.GetLast() < x.GetFirst() {
		return 0
	}
	return int((x.GetLast()-x.GetFirst())/x.stride()) + 1
}

// Len returns the number of elements of an array.
func (x *ArraySpec) Len() (n int) {
	for _, r := range x.GetIndices() {
		n += r.Len()
	}
	return n
}

// Index returns the index of the element at a place, or -1 if there is no such place.
func (x *ArraySpec) Index(place int) int32 {
	for _, r := range x.GetIndices() {
		if n := r.Len(); place >= n {
			place -= n
			continue
		}
		return r.GetFirst() + int32(place)*r.stride()
	}
	return -1
}

// Place returns the place of an index, or -1 if the array does not have this index.
func (x *ArraySpec) Place(index int32) int {
	at := 0
	for _, r := range x.GetIndices() {
		if d := index - r.GetFirst(); d >= 0 && index <= r.GetLast() && d%r.stride() == 0 {
			return at + int(d/r.stride())
		}
		at += r.Len()
	}
	return -1
}

func (x *IndexRange) valid() error {
	return first(
		between("first", int64(x.GetFirst()), 0, MaxIndex),
		between("last", int64(x.GetLast()), int64(x.GetFirst()), MaxIndex),
		between("step", int64(x.GetStep()), 0, MaxIndex),
	)
}

// validOrNone checks the array of a job. It accepts nil, because a single job has no array.
func (x *ArraySpec) validOrNone() error {
	if x == nil {
		return nil
	}
	if err := first(parts("indices", x.GetIndices(), 1, maxIndexRanges),
		between("most", int64(x.GetMost()), 0, MaxElements)); err != nil {
		return err
	}
	n := 0
	// Checked before the indices are visited one by one, because a single range may be huge.
	for _, r := range x.GetIndices() {
		if n += r.Len(); n > MaxElements {
			return refuse("indices", fmt.Sprintf("are more than %d", MaxElements), "submit several arrays")
		}
	}
	if len(x.GetIndices()) == 1 {
		return nil
	}
	seen := make(map[int32]bool, n)
	for place := range n {
		i := x.Index(place)
		if seen[i] {
			return refuse("indices", fmt.Sprintf("contain %d twice", i), "")
		}
		seen[i] = true
	}
	return nil
}

// ElementID returns the ID of an element.
func ElementID(array string, index int32) string { return array + "_" + strconv.Itoa(int(index)) }

// ArrayOf splits the ID of an element into the ID of the array and the index. It returns false for any other ID.
func ArrayOf(id string) (array string, index int32, ok bool) {
	at := strings.LastIndexByte(id, '_')
	if at <= 0 || at == len(id)-1 || id[at+1] == '0' && at+2 < len(id) || !only(id[at+1:], digit) {
		return "", 0, false
	}
	n, err := strconv.ParseInt(id[at+1:], 10, 32)
	return id[:at], int32(n), err == nil
}

// ElementSpec returns the spec of one element of an array.
func (x *JobSpec) ElementSpec(array string, index int32) *JobSpec {
	a := x.GetArray()
	e := &Element{Array: array, Index: index, Count: int32(a.Len()), First: MaxIndex, Step: -1}
	for i, r := range a.GetIndices() {
		e.First, e.Last = min(e.First, r.GetFirst()), max(e.Last, r.GetFirst()+int32(r.Len()-1)*r.stride())
		if e.Step = r.stride(); len(a.GetIndices()) > 1 && i > 0 {
			e.Step = 0
		}
	}
	return &JobSpec{
		Name: x.Name, Labels: x.Labels, Queue: x.Queue, Priority: x.Priority, Gang: x.Gang, Each: x.Each,
		GpuType: x.GpuType, ShmBytes: x.ShmBytes, Topology: x.Topology, NodeSelector: x.NodeSelector, Image: x.Image,
		Command: x.Command, Workdir: x.Workdir, User: x.User, Env: x.Env, Mounts: x.Mounts, TimeLimitMs: x.TimeLimitMs,
		PrepareTimeoutMs: x.PrepareTimeoutMs, Stop: x.Stop, Restart: x.Restart, LostGraceMs: x.LostGraceMs,
		StopWhenLostMs: x.StopWhenLostMs, LimitsRequired: x.LimitsRequired, Nodes: x.Nodes, Exclude: x.Exclude,
		DiskBytes: x.DiskBytes, SubmitDir: x.SubmitDir, Script: x.Script, Network: x.Network, BeginUnixMs: x.BeginUnixMs,
		DeadlineUnixMs: x.DeadlineUnixMs,
		Launcher:       x.Launcher, Warn: x.Warn, PriorityZero: x.PriorityZero, NotPreemptible: x.NotPreemptible,
		CheckpointMs: x.CheckpointMs, Checkpoint: x.Checkpoint, Secrets: x.Secrets, Title: x.Title,
		Progress: x.Progress, Hang: x.Hang, Element: e, After: x.ElementAfter(index),
		unknownFields: x.unknownFields,
	}
}

// ElementRecord returns a record for an element that is not a job: the element has not become a job yet, or ended
// before it became one.
func (x *JobRecord) ElementRecord(index int32) *JobRecord {
	place := x.GetSpec().GetArray().Place(index)
	r := &JobRecord{
		Id: ElementID(x.GetId(), index), Spec: x.GetSpec().ElementSpec(x.GetId(), index), Owner: x.Owner,
		SubmittedUnixMs: x.SubmittedUnixMs, Arrival: x.Arrival, State: JobState_JOB_STATE_QUEUED,
	}
	x.GetArray().ChangedAt(place).On(r.Spec)
	if state, ended := x.GetArray().EndedAt(place); ended {
		r.State = state
	}
	return r
}

// On applies the changes to the spec of an element.
func (x *ElementsChanged) On(spec *JobSpec) {
	if x.GetSetPriority() {
		spec.Priority, spec.PriorityZero = x.Priority, x.Priority == 0
	}
	if x.GetSetTimeLimit() {
		spec.TimeLimitMs = x.TimeLimitMs
	}
	if x.GetSetBegin() {
		spec.BeginUnixMs = x.BeginUnixMs
	}
	if x.GetSetDeadline() {
		spec.DeadlineUnixMs = x.DeadlineUnixMs
	}
}

// ChangedAt returns the changes of the element at a place, or nil if there are none.
func (x *ArrayRecord) ChangedAt(place int) *ElementsChanged {
	for _, c := range x.GetChanged() {
		if InRanges(c.GetPlaces(), place) {
			return c
		}
	}
	return nil
}

// Ranges converts sorted places to ranges.
func Ranges(places []int) (all []*IndexRange) {
	for _, p := range places {
		if n := len(all); n > 0 && int(all[n-1].Last)+1 == p {
			all[n-1].Last++
			continue
		}
		all = append(all, &IndexRange{First: int32(p), Last: int32(p)})
	}
	return all
}

// ArrayWords returns the text for an array in lists: its ID and its indices.
func ArrayWords(id string, a *ArraySpec) string {
	const shown = 4
	var words []string
	for _, r := range a.GetIndices()[:min(len(a.GetIndices()), shown)] {
		words = append(words, r.Words())
	}
	if len(a.GetIndices()) > shown {
		words = append(words, "…")
	}
	text := id + "[" + strings.Join(words, ",")
	if a.GetMost() > 0 {
		text += "%" + strconv.Itoa(int(a.GetMost()))
	}
	return text + "]"
}

// Words returns a range in the notation of users, such as 0-9:3.
func (x *IndexRange) Words() string {
	text := strconv.Itoa(int(x.GetFirst()))
	if x.Len() > 1 {
		text += "-" + strconv.Itoa(int(x.GetLast()))
	}
	if x.Len() > 1 && x.stride() > 1 {
		text += ":" + strconv.Itoa(int(x.stride()))
	}
	return text
}

// Words returns the number of elements in each state. It omits states without elements.
func (x *ArrayCounts) Words() string {
	var words []string
	for _, c := range []struct {
		n    int32
		word string
	}{
		{x.GetRunning(), "running"}, {x.GetWaiting(), "waiting"}, {x.GetSucceeded(), "ok"}, {x.GetFailed(), "failed"},
		{x.GetCancelled(), "cancelled"},
	} {
		if c.n > 0 {
			words = append(words, strconv.Itoa(int(c.n))+" "+c.word)
		}
	}
	return strings.Join(words, ", ")
}

// Unborn reports whether an element ended before it became a job. It also returns the final state.
func (x *ArrayRecord) Unborn(place int) (JobState, bool) {
	for _, e := range x.GetEnded() {
		if e.GetUnborn() && InRanges(e.GetPlaces(), place) {
			return e.GetState(), true
		}
	}
	return JobState_JOB_STATE_UNSPECIFIED, false
}

// EndedCounts counts the ended elements of an array by state. It returns nil if the job is not an array.
func (x *JobRecord) EndedCounts() *ArrayCounts {
	if x.GetSpec().GetArray() == nil {
		return nil
	}
	c := &ArrayCounts{}
	for _, e := range x.GetArray().GetEnded() {
		n := int32(0)
		for _, r := range e.GetPlaces() {
			n += int32(r.Len())
		}
		switch e.GetState() {
		case JobState_JOB_STATE_SUCCEEDED:
			c.Succeeded += n
		case JobState_JOB_STATE_CANCELLED:
			c.Cancelled += n
		default:
			c.Failed += n
		}
	}
	return c
}

// EndedAt returns the final state of an element, and whether the element has ended.
func (x *ArrayRecord) EndedAt(place int) (JobState, bool) {
	for _, e := range x.GetEnded() {
		if InRanges(e.GetPlaces(), place) {
			return e.GetState(), true
		}
	}
	return JobState_JOB_STATE_UNSPECIFIED, false
}

// InRanges reports whether a place is in one of the ranges.
func InRanges(all []*IndexRange, place int) bool {
	return slices.ContainsFunc(all, func(r *IndexRange) bool {
		return int(r.GetFirst()) <= place && place <= int(r.GetLast())
	})
}
