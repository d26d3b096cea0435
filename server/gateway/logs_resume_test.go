package gateway

// This file tests readers that stop and resume.

import (
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/clock"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// TestReadLogsGoesOn checks that a reader that stops after any part and resumes gets the same output as a
// continuous reader, without gaps or duplicates.
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

// TestReadLogsGoesOnInAnEarlierAttempt checks that a reader that resumes in an earlier attempt first gets the rest
// of it.
func TestReadLogsGoesOnInAnEarlierAttempt(t *testing.T) {
	d, _, job, write, machines := gang(t, Options{Clock: clock.Real{}})
	write(0, false, "first\n")
	before := d.parts(&api.ReadLogs{Job: job})
	write(0, false, "its end\n")
	for _, m := range machines {
		m.exits(1, false)
	}
	d.runsAgain(job)
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

// TestTailIsOfOneAttempt checks that a follower with a tail gets the complete output of later attempts. This also
// applies to a reader that resumes in the first attempt.
func TestTailIsOfOneAttempt(t *testing.T) {
	d, _, job, write, machines := gang(t, Options{Clock: clock.Real{}})
	write(0, false, "first\nlast\n")
	before := d.parts(&api.ReadLogs{Job: job})
	readers := []*follower{
		d.following(timely(t), &api.ReadLogs{Job: job, Follow: true, TailLines: 1}),
		d.following(timely(t), &api.ReadLogs{Job: job, Follow: true, TailBytes: 5}),
	}
	for _, r := range readers {
		eventually(t, "the last line", r.has("0 last$"))
		if r.has("0 first$")() {
			t.Error("more than the last line was read")
		}
	}
	for _, m := range machines {
		m.exits(1, false) // the output of the next attempt is available from its start
	}
	d.runsAgain(job)
	at := []*api.LogPosition{{Rank: 0, Offset: before[0].Offset}}
	for _, q := range []*api.ReadLogs{{TailLines: 1}, {TailBytes: 5}} {
		q.Job, q.Follow, q.Attempt, q.From = job, true, before[0].Attempt, at
		readers = append(readers, d.following(timely(t), q))
	}
	for _, r := range readers {
		eventually(t, "the whole output of the second attempt", r.has("0 first$"))
	}
}

// unsteady is a store with some failing reads.
type unsteady struct {
	Store
	err  error
	fail int // number of reads that will fail
}

func (u *unsteady) Job(id topology.JobID) (*messages.JobRecord, []*messages.AttemptRecord, error) {
	if u.fail--; u.fail >= 0 {
		return nil, nil, u.err
	}
	return u.Store.Job(id)
}

// TestResumedOverAFailedRead checks that a reader that resumes gets a retryable error while the store is
// unreadable, and misses nothing. If the earlier attempt is lost, the reader gets the complete output of the
// latest.
func TestResumedOverAFailedRead(t *testing.T) {
	d, _, job, write, machines := gang(t, Options{Clock: clock.Real{}})
	write(0, false, "first\nlast\n")
	before := d.parts(&api.ReadLogs{Job: job})
	for _, m := range machines {
		m.exits(1, false)
	}
	d.runsAgain(job)
	u := &unsteady{Store: d.o.Store, err: errors.New("the disk hangs"), fail: 1}
	d.o.Store = u
	q := &api.ReadLogs{
		Job: job, Ranks: []int32{0}, TailLines: 1, Attempt: before[0].Attempt, From: []*api.LogPosition{{Rank: 0, Offset: 1}},
	}
	_, err := d.reads(q)
	refused(t, err, messages.Code_CODE_UNAVAILABLE, codes.Unavailable, "store cannot be read: the disk hangs")
	rest := d.parts(q)
	if len(rest) == 0 || !proto.Equal(rest[0].Attempt, before[0].Attempt) || string(rest[0].Data) != "irst\nlast\n" {
		t.Errorf("asked again, it reads %v", rest)
	}
	for _, lost := range []error{store.ErrDamaged, store.ErrNotFound} {
		u.err, u.fail = lost, 1
		rest = d.parts(q)
		if len(rest) == 0 || proto.Equal(rest[0].Attempt, before[0].Attempt) || string(rest[0].Data) != "first\nlast\n" {
			t.Errorf("%v: it reads %v", lost, rest)
		}
	}
}

// runsAgain waits until the second attempt of a job runs.
func (d *servedGateway) runsAgain(job string) {
	d.tb.Helper()
	eventually(d.tb, "it runs again", func() bool {
		got, err := d.SynapseClient.GetJob(timely(d.tb), &messages.GetJob{Job: job})
		return err == nil && got.Job.Record.Runs == 2 && got.Job.Phase == "running"
	})
}

// parts reads all parts to the end.
func (d *servedGateway) parts(q *api.ReadLogs) []*api.LogPart {
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

// text returns the output of each stream, one after the other.
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
