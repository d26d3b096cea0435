package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// arrayOf returns an array with the elements 0 to last, of which some have finished as given.
func arrayOf(id, reason string, last int32, ended ...*messages.ElementsEnded) *messages.JobStatus {
	j := job(id, "queued", messages.JobState_JOB_STATE_QUEUED)
	j.Reason = reason
	j.Record.Spec.Array = &messages.ArraySpec{Indices: []*messages.IndexRange{{Last: last}}}
	j.Record.Array = &messages.ArrayRecord{Ended: ended}
	return j
}

// elementOf returns an element that runs or ran.
func elementOf(array string, index int32, phase string, state messages.JobState) *messages.JobStatus {
	j := job(messages.ElementID(array, index), phase, state)
	j.Record.Spec.Element = &messages.Element{Array: array, Index: index}
	j.Attempt = &messages.AttemptRecord{Token: &messages.Token{Epoch: 1}, Run: 1}
	return j
}

// sortedLines sorts the lines of a text, because the order of several elements is random.
func sortedLines(text string) string {
	all := strings.SplitAfter(text, "\n")
	slices.Sort(all)
	return strings.Join(all, "")
}

// TestLogsOfAnArray checks that each element that is or was a job is read, also if no list contains it, and no
// other.
func TestLogsOfAnArray(t *testing.T) {
	f := startFake(t)
	f.logs = []*api.LogPart{{Data: []byte("a\nb")}, {Stderr: true, Data: []byte("e\n")}}
	f.put(arrayOf("karray", "1 running, 8 waiting", 9, &messages.ElementsEnded{
		Places: []*messages.IndexRange{{First: 2, Last: 3}}, State: messages.JobState_JOB_STATE_SUCCEEDED,
	}, &messages.ElementsEnded{
		Places: []*messages.IndexRange{{First: 5, Last: 5}}, State: messages.JobState_JOB_STATE_CANCELLED, Unborn: true,
	}))
	f.put(elementOf("karray", 1, "running", messages.JobState_JOB_STATE_ACTIVE))
	waits := elementOf("karray", 4, "queued", messages.JobState_JOB_STATE_QUEUED)
	waits.Attempt = nil
	f.put(waits)
	r := cli(f.address, "logs", "karray")
	r.wants(t, 0, "[1] a\n[1] e\n[1] b\n[2] a\n[2] e\n[2] b\n[3] a\n[3] e\n[3] b\n", "")
	if strings.Count(r.out, "\n") != 9 || f.mostRead != 1 {
		t.Errorf("%s; %d at once", r.out, f.mostRead)
	}
	f = startFake(t)
	f.put(arrayOf("karray", "10 waiting", 9))
	cli(f.address, "logs", "karray").wants(t, 0, "", "no element of karray has started yet: 10 waiting\n")
	f = startFake(t)
	unborn := elementOf("karray", 7, "queued", messages.JobState_JOB_STATE_QUEUED)
	unborn.Reason, unborn.Attempt = "waits until it may be next of its array", nil
	f.put(unborn)
	cli(f.address, "logs", "karray_7").wants(t, 0, "",
		"karray_7 has not been submitted as a job yet: waits until it may be next of its array\n")
	if n := len(told[*api.ReadLogs](f)); n > 0 {
		t.Errorf("its output was asked for %d times", n)
	}
}

// TestLogsOfAnArrayWithRanks checks that a line has the element and the rank.
func TestLogsOfAnArrayWithRanks(t *testing.T) {
	f := startFake(t)
	f.logs = []*api.LogPart{
		{Data: []byte("a\n")}, {Rank: 3, Data: []byte("x\n")},
		{Rank: 3, Attempt: &messages.Token{Epoch: 1}, Notice: "n2 is not reachable"},
	}
	array := arrayOf("karray", "1 running", 9)
	array.Record.Spec.Gang.ReplicasMin = 4
	f.put(array)
	f.put(elementOf("karray", 8, "running", messages.JobState_JOB_STATE_ACTIVE))
	cli(f.address, "logs", "karray").wants(t, 0, "[8.0] a\n[8.3] x\n", "karray_8: rank 3: n2 is not reachable\n")
}

// TestLogsOfAnArrayFollowed checks that each element is shown from its start until the array has finished, within
// the limit. Elements that ran between two events are included, and the exit code reports missing output.
func TestLogsOfAnArrayFollowed(t *testing.T) {
	f := startFake(t)
	f.logs = []*api.LogPart{{Data: []byte("out\n")}}
	f.put(arrayOf("karray", "50 waiting", 49))
	f.put(job("other", "running", messages.JobState_JOB_STATE_ACTIVE))
	var out, errs lines
	done := make(chan int)
	go func() {
		done <- run([]string{"synapse-cli", "logs", "-f", "karray"}, strings.NewReader(""), &out, &errs,
			func(name string) (string, bool) { return f.address, name == "SYNAPSE_SERVER" })
	}()
	await(t, "the words", func() bool {
		return strings.Contains(errs.String(), "no element of karray has started yet: 50 waiting\n")
	})
	for i := range int32(40) {
		f.put(elementOf("karray", i, "running", messages.JobState_JOB_STATE_ACTIVE))
	}
	shown := func(n int) func() bool {
		return func() bool { return strings.Count(out.String(), "] out\n") == n }
	}
	await(t, "the first ones", shown(followed))
	await(t, "what is said of the others", func() bool {
		return strings.Contains(errs.String(), "32 outputs are shown at once")
	})
	f.put(elementOf("karray", 3, "succeeded", messages.JobState_JOB_STATE_SUCCEEDED))
	await(t, "the next one", shown(followed+1))
	for i := range int32(40) {
		f.put(elementOf("karray", i, "succeeded", messages.JobState_JOB_STATE_SUCCEEDED))
	}
	await(t, "all that have run", shown(40))
	f.mu.Lock()
	f.logs = append(f.logs, &api.LogPart{Attempt: &messages.Token{Epoch: 1}, Notice: "the end is missing", Missing: true})
	f.mu.Unlock()
	over := arrayOf("karray", "50 ok", 49, &messages.ElementsEnded{
		Places: []*messages.IndexRange{{First: 0, Last: 49}}, State: messages.JobState_JOB_STATE_SUCCEEDED,
	})
	over.Record.State = messages.JobState_JOB_STATE_SUCCEEDED
	f.put(over)
	if code := <-done; code != exit.Unavailable || !strings.Contains(errs.String(), "end of the output is missing") {
		t.Errorf("it ends with %d: %s", code, &errs)
	}
	var want strings.Builder
	for i := range 50 {
		fmt.Fprintf(&want, "[%d] out\n", i)
	}
	if sortedLines(out.String()) != sortedLines(want.String()) || f.mostRead != followed {
		t.Errorf("at most %d at once: %s", f.mostRead, out.String())
	}
	for _, q := range told[*api.ReadLogs](f) {
		if !q.Follow || !strings.HasPrefix(q.Job, "karray_") {
			t.Errorf("%v", q)
		}
	}
}

// TestAttachToAnArray checks that the elements' streams stay separate, and that the exit code is the array's.
func TestAttachToAnArray(t *testing.T) {
	f := startFake(t)
	f.logs = []*api.LogPart{{Data: []byte("out\n")}, {Stderr: true, Data: []byte("to stderr\n")}}
	f.put(arrayOf("karray", "2 waiting", 1))
	done := make(chan result, 1)
	go func() { done <- cli(f.address, "attach", "karray") }()
	await(t, "both watches", func() bool { return len(told[*messages.Watch](f)) == 2 })
	over := arrayOf("karray", "1 ok, 1 failed", 1, &messages.ElementsEnded{
		Places: []*messages.IndexRange{{First: 0, Last: 0}}, State: messages.JobState_JOB_STATE_SUCCEEDED,
	})
	over.Record.State, over.Record.ExitCode, over.Phase = messages.JobState_JOB_STATE_FAILED, 1, "failed"
	f.put(over)
	(<-done).wants(t, 1, "[0] out\n", "[0] to stderr\n")
}
