package gateway

// This file owns the tests of a reader that broke off and goes on.

import (
	"io"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/clock"
	"github.com/yi-json/synapse/cluster/api"
	"github.com/yi-json/synapse/messages"
)

// TestReadLogsGoesOn: a reader that broke off after any part and resumes there has in the end read the same as one that
// did not: nothing is missing, nothing comes twice.
func TestReadLogsGoesOn(t *testing.T) {
	d, _, job, write, _ := gang(t, Options{Clock: clock.Real{}})
	write(0, false, "a\nb\nno end")
	write(0, true, "oops\n")
	write(2, false, "c\n")
	parts := d.parts(&api.ReadLogs{Job: job})
	if len(parts) != 4 {
		t.Fatalf("%d parts", len(parts))
	}
	for n := 1; n <= len(parts); n++ {
		q := &api.ReadLogs{Job: job, Attempt: parts[0].Attempt}
		at := map[bool]map[int32]int64{false: {}, true: {}}
		for _, p := range parts[:n] {
			at[p.Stderr][p.Rank] = p.Offset
		}
		for _, stderr := range []bool{false, true} {
			for _, rank := range []int32{0, 2} {
				if offset, read := at[stderr][rank]; read {
					q.From = append(q.From, &api.LogPosition{Rank: rank, Stderr: stderr, Offset: offset})
				}
			}
		}
		all := append([]*api.LogPart(nil), parts[:n]...)
		all = append(all, d.parts(q)...)
		if have, want := text(all), text(parts); have != want {
			t.Errorf("broken off after %d parts it read\n%s\nand not\n%s", n, have, want)
		}
	}
	far := &api.ReadLogs{Job: job, Attempt: parts[0].Attempt, From: []*api.LogPosition{{Rank: -1}}}
	if _, err := d.reads(far); api.OutcomeOf(err).GetCode() != messages.Code_CODE_INVALID {
		t.Errorf("byte 0 of rank -1: %v", err)
	}
	far = &api.ReadLogs{Job: job, From: []*api.LogPosition{{Rank: 1}}}
	if _, err := d.reads(far); api.OutcomeOf(err).GetField() != "attempt" {
		t.Errorf("positions in no attempt: %v", err)
	}
}

// TestReadLogsGoesOnInAnEarlierAttempt: a reader that broke off in an attempt that another one has followed first gets
// the rest of it.
func TestReadLogsGoesOnInAnEarlierAttempt(t *testing.T) {
	d, _, job, write, machines := gang(t, Options{Clock: clock.Real{}})
	write(0, false, "first\n")
	before := d.parts(&api.ReadLogs{Job: job})
	write(0, false, "its end\n")
	for _, m := range machines {
		m.exits(1, false)
	}
	eventually(t, "it runs again", func() bool {
		got, err := d.SynapseClient.GetJob(timely(t), &messages.GetJob{Job: job})
		return err == nil && got.Job.Record.Runs == 2 && got.Job.Phase == "running"
	})
	q := &api.ReadLogs{Job: job, Attempt: before[0].Attempt, From: []*api.LogPosition{{Rank: 0, Offset: before[0].Offset}}}
	rest := d.parts(q)
	if len(rest) == 0 || !proto.Equal(rest[0].Attempt, before[0].Attempt) || string(rest[0].Data) != "its end\n" {
		t.Errorf("read on: %v", rest)
	}
	q.Follow = true
	stream, err := d.SynapseClient.ReadLogs(timely(t), q)
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for len(seen) < 2 {
		p, err := stream.Recv()
		if err != nil {
			t.Fatalf("after %q: %v", seen, err)
		}
		run := "first run: "
		if !proto.Equal(p.Attempt, before[0].Attempt) {
			run = "second run: "
		}
		seen = append(seen, run+string(p.Data))
	}
	if seen[0] != "first run: its end\n" || seen[1] != "second run: first\nits end\n" {
		t.Errorf("followed on: %q", seen)
	}
}

// parts reads to the end.
func (d *door) parts(q *api.ReadLogs) []*api.LogPart {
	d.tb.Helper()
	stream, err := d.SynapseClient.ReadLogs(timely(d.tb), q)
	if err != nil {
		d.tb.Fatal(err)
	}
	var all []*api.LogPart
	for {
		p, err := stream.Recv()
		if err == io.EOF {
			return all
		}
		if err != nil {
			d.tb.Fatal(err)
		}
		all = append(all, p)
	}
}

// text is each stream's, one after the other.
func text(parts []*api.LogPart) string {
	out := ""
	for _, stderr := range []bool{false, true} {
		for rank := range int32(4) {
			for _, p := range parts {
				if p.Rank == rank && p.Stderr == stderr {
					out += string(p.Data)
				}
			}
			out += "|"
		}
	}
	return out
}
