package gateway

// This file tests the end of an output: its last lines, and the last bytes if a node does not answer for a while.

import (
	"fmt"
	"strings"
	"testing"

	"github.com/yi-json/synapse/clock"
	"github.com/yi-json/synapse/server/api"
)

// TestTailLines checks the last lines of each stream, for lines of any length.
func TestTailLines(t *testing.T) {
	d, _, job, write, _ := gang(t, Options{Clock: clock.Real{}})
	var all []string
	for i := range 40_000 {
		all = append(all, fmt.Sprintf("line %d%s\n", i, strings.Repeat("x", i%50)))
	}
	write(1, false, strings.Join(all, "")+"no end")
	write(2, true, "oops\n")
	for _, lines := range []int{1, 2, 5, 100, 30_000, 40_000, 40_001, 60_000} {
		want := "no end"
		if lines > 1 {
			want = strings.Join(all[max(0, len(all)-lines+1):], "") + want
		}
		got := ""
		for _, p := range d.parts(&api.ReadLogs{Job: job, Ranks: []int32{1}, TailLines: int32(lines)}) {
			got += string(p.Data)
		}
		if got != want {
			t.Errorf("the last %d lines: %d bytes were read, %d wanted", lines, len(got), len(want))
		}
	}
	d.wants(&api.ReadLogs{Job: job, Ranks: []int32{2}, TailLines: 3}, "2! oops$")
	if _, err := d.reads(&api.ReadLogs{Job: job, TailLines: -1}); err == nil {
		t.Error("-1 lines are read")
	}
}

// TestExitsBehindThePage checks a job that writes its last line and ends between the read of a page and its
// arrival. A follower reads on, although the record already says that the task has ended.
func TestExitsBehindThePage(t *testing.T) {
	d, _, job, _, machines := gang(t, Options{Clock: clock.Real{}})
	machines[0].mu.Lock()
	machines[0].paged = func(rank int32, stderr bool) {
		machines[0].writes(rank, stderr, "the end\n")
		for _, m := range machines {
			m.exits(0, false)
		}
		eventually(t, "it is over", func() bool { return d.phase(job) == "succeeded" })
	}
	machines[0].mu.Unlock()
	stream, err := d.SynapseClient.ReadLogs(timely(t), &api.ReadLogs{Job: job, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for p, err := stream.Recv(); err == nil; p, err = stream.Recv() {
		text += string(p.GetData())
	}
	if text != "the end\n" {
		t.Errorf("who follows has read %q", text)
	}
}

// TestTheEndOfTheOutput checks that a follower waits for a node that does not answer at the end of a job, as after
// a takeover. If the node still does not answer, the end is reported as missing.
func TestTheEndOfTheOutput(t *testing.T) {
	t.Parallel()
	for _, back := range []bool{true, false} {
		t.Run(fmt.Sprintf("it answers again: %v", back), func(t *testing.T) {
			t.Parallel()
			d, _, job, write, machines := gang(t, Options{})
			muted := func(is bool) {
				for _, m := range machines {
					m.mu.Lock()
					m.mute = is
					m.mu.Unlock()
				}
			}
			muted(true)
			stream, err := d.SynapseClient.ReadLogs(timely(t), &api.ReadLogs{Job: job, Follow: true})
			if err != nil {
				t.Fatal(err)
			}
			first, err := stream.Recv() // the notice about the unresponsive node
			if err != nil || first.GetNotice() == "" {
				t.Fatalf("%v, %v", first, err)
			}
			for rank := range int32(4) {
				write(rank, false, "the end\n")
			}
			muted(!back) // it did not answer a moment ago, and is skipped when the job ends
			for _, m := range machines {
				m.exits(0, false)
			}
			ends, missing := 0, 0
			for p, err := stream.Recv(); err == nil; p, err = stream.Recv() {
				ends += strings.Count(string(p.GetData()), "the end\n")
				if p.GetMissing() {
					missing++
				}
			}
			if back && (ends != 4 || missing != 0) || !back && (ends != 0 || missing != 4) {
				t.Errorf("%d of 4 ends were read, %d named as missing", ends, missing)
			}
		})
	}
}
