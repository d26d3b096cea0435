package gateway

// This file tests requests for the history.

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
)

// attic returns a gateway with a store of finished jobs, whose actors never answer.
func attic(t *testing.T, jobs int, edit func(i int, j *messages.JobRecord)) (*servedGateway, *store.Memory) {
	t.Helper()
	memory := store.NewMemory()
	if _, err := memory.Lead("test"); err != nil {
		t.Fatal(err)
	}
	var changes []actors.Change
	for i := range jobs {
		j := &messages.JobRecord{
			Id: fmt.Sprintf("j%05d", i), Revision: 1, WrittenBy: &messages.Token{Epoch: 1, Counter: uint64(i + 1)},
			Arrival: uint64(i + 1),
			Spec:    gpuJob("old", 1, 1), Owner: &messages.Principal{Name: "alice"},
			State:           messages.JobState_JOB_STATE_SUCCEEDED,
			SubmittedUnixMs: 1, FinishedUnixMs: int64(i + 1),
		}
		if edit != nil {
			edit(i, j)
		}
		changes = append(changes, actors.Change{Job: j})
	}
	verdicts, err := memory.Apply(1, changes)
	if err != nil || len(verdicts) != jobs {
		t.Fatal(err)
	}
	return newRoom(t).door(newRoom(t).system("scheduler"), Options{Store: memory}), memory
}

// pages reads all pages, and returns the IDs and the number of pages.
func (d *servedGateway) pages(q *messages.History) (ids []string, pages int) {
	d.tb.Helper()
	for range 1_000 {
		r, err := d.SynapseClient.History(timely(d.tb), q)
		if err != nil {
			d.tb.Fatal(err)
		}
		pages++
		for _, j := range r.Jobs {
			ids = append(ids, j.Id)
		}
		if q.After = r.Next; r.Next == "" {
			return ids, pages
		}
	}
	d.tb.Fatal("the pages do not end")
	return nil, 0
}

// TestHistoryInPages checks that every job appears once, newest first, for any page size, without actors.
func TestHistoryInPages(t *testing.T) {
	d, _ := attic(t, 450, func(i int, j *messages.JobRecord) {
		if i%100 == 7 {
			j.Spec.Name, j.State, j.Spec.Queue = "rare", messages.JobState_JOB_STATE_FAILED, "night"
		}
	})
	for _, c := range []struct {
		q          *messages.History
		jobs, most int
		newest     string
	}{
		{&messages.History{}, 450, 6, "j00449"},
		{&messages.History{Limit: 1_000}, 450, 1, "j00449"},
		{&messages.History{Limit: 7}, 450, 66, "j00449"},
		{&messages.History{Limit: 1, Name: "rare"}, 5, 6, "j00407"},
		{&messages.History{Name: "rare"}, 5, 1, "j00407"},
		{&messages.History{Queue: "night"}, 5, 1, "j00407"},
		{&messages.History{Owner: "bob"}, 0, 1, ""},
		{&messages.History{States: []messages.JobState{messages.JobState_JOB_STATE_FAILED}, SinceUnixMs: 200}, 3, 1,
			"j00407"},
		{&messages.History{UntilUnixMs: 11}, 10, 1, "j00009"},
		{&messages.History{SinceUnixMs: 11, UntilUnixMs: 12}, 1, 1, "j00010"},
		{&messages.History{UntilUnixMs: 11, Limit: 3}, 10, 4, "j00009"},
	} {
		text := c.q.String()
		ids, pages := d.pages(c.q)
		seen := map[string]bool{}
		for i, id := range ids {
			if seen[id] || i > 0 && id > ids[i-1] {
				t.Errorf("%s: %s is out of order, or there twice", text, id)
			}
			seen[id] = true
		}
		if len(ids) != c.jobs || pages > c.most || len(ids) > 0 && ids[0] != c.newest {
			t.Errorf("%s: %d jobs from %.1s in %d pages, want %d from %s in %d", text, len(ids), ids, pages, c.jobs, c.newest,
				c.most)
		}
	}
}

// TestHistoryLooksSoFar checks that rare matches lead to short pages instead of long calls.
func TestHistoryLooksSoFar(t *testing.T) {
	d, _ := attic(t, maxLooked+1_500, func(i int, j *messages.JobRecord) {
		if i == 0 {
			j.Spec.Name = "first"
		}
	})
	r, err := d.SynapseClient.History(timely(t), &messages.History{Name: "first"})
	if err != nil || len(r.Jobs) != 0 || r.Next == "" {
		t.Fatalf("the first page is %v, %v", r, err)
	}
	if ids, pages := d.pages(&messages.History{Name: "first"}); len(ids) != 1 || pages != 2 {
		t.Errorf("%v in %d pages", ids, pages)
	}
}

// TestHistoryWeighs checks that large jobs lead to short pages.
func TestHistoryWeighs(t *testing.T) {
	d, _ := attic(t, 30, func(_ int, j *messages.JobRecord) { j.Outcome = strings.Repeat("x", maxPageBytes/10) })
	if ids, pages := d.pages(&messages.History{}); len(ids) != 30 || pages < 3 || pages > 5 {
		t.Errorf("%d jobs in %d pages", len(ids), pages)
	}
}

func TestHistoryTellsOfRanks(t *testing.T) {
	r := newRoom(t)
	s, memory := r.lead()
	d := r.door(s, Options{Store: memory})
	n := r.join("n1", s)
	eventually(t, "the machine is there", func() bool { return d.nodes() == 1 })
	job := d.submit(gpuJob("one", 1, 2))
	eventually(t, "it runs", func() bool { return d.phase(job) == "running" })
	n.exits(7, false)
	eventually(t, "it is over", func() bool { return d.phase(job) == "failed" })
	reply, err := d.SynapseClient.History(timely(t), &messages.History{Ranks: true})
	if err != nil || len(reply.Jobs) != 1 {
		t.Fatalf("%v, %v", reply, err)
	}
	one := reply.Jobs[0]
	if one.Id != job || one.ExitCode != 7 || len(one.Attempts) != 1 || one.StartedUnixMs == 0 {
		t.Fatalf("the account is %v", one)
	}
	if a := one.Attempts[0]; len(a.Places) != 1 || len(a.Places[0].Grant.Gpus) != 2 || a.Places[0].Exit.GetCode() != 7 ||
		a.ExitCode != 7 || a.Nodes[0] != "n1" || a.MilliGpu != 2000 {
		t.Errorf("the attempt is %v", a)
	}
}

func TestHistoryRefuses(t *testing.T) {
	d, _ := attic(t, 1, nil)
	ctx := timely(t)
	for _, after := range []string{"5", "x/j", "5/", "/"} {
		_, err := d.SynapseClient.History(ctx, &messages.History{After: after})
		refused(t, err, messages.Code_CODE_INVALID, codes.InvalidArgument, "not a position in the history")
	}
	_, err := d.SynapseClient.History(ctx, &messages.History{Limit: -1})
	refused(t, err, messages.Code_CODE_INVALID, codes.InvalidArgument, "limit")
	d.o.Store = failing{}
	_, err = d.SynapseClient.History(ctx, &messages.History{})
	refused(t, err, messages.Code_CODE_UNAVAILABLE, codes.Unavailable, "store cannot be read: disk on fire")
	d.o.Store = nil
	_, err = d.SynapseClient.History(ctx, &messages.History{})
	refused(t, err, messages.Code_CODE_UNAVAILABLE, codes.Unavailable, "is not stored by this scheduler")
}

// TestHistoryLeavesDamageOut checks that an unreadable job is skipped and named, and that the others are shown.
func TestHistoryLeavesDamageOut(t *testing.T) {
	d, memory := attic(t, 5, nil)
	memory.Damage("job", "j00003")
	r, err := d.SynapseClient.History(timely(t), &messages.History{})
	if err != nil || len(r.Jobs) != 4 || len(r.Damaged) != 1 || !strings.Contains(r.Damaged[0], "job j00003: table job") {
		t.Fatalf("%v, %v", r, err)
	}
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
}

// slow is a store that answers only when the test permits it.
type slow struct {
	*store.Memory
	reads chan struct{}
	let   chan struct{}
}

func (s slow) History(p store.Past) (store.Page, error) {
	s.reads <- struct{}{}
	<-s.let
	return s.Memory.History(p)
}

// TestHistoryReadsAreFew checks that only a few calls read at once, and that a call that waits too long gets an
// error.
func TestHistoryReadsAreFew(t *testing.T) {
	d, memory := attic(t, 1, nil)
	s := slow{memory, make(chan struct{}, 10), make(chan struct{})}
	d.o.Store = s
	done := make(chan error)
	for range maxReading {
		go func() {
			_, err := d.SynapseClient.History(context.Background(), &messages.History{})
			done <- err
		}()
		<-s.reads
	}
	short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := d.Gateway.History(short, &messages.History{}); err == nil || len(s.reads) > 0 {
		t.Errorf("one too many reads: %v", err)
	}
	close(s.let)
	for range maxReading {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestFinishedJobsAreListedAgain checks that a new leader on the same store lists the jobs that finished before it
// led.
func TestFinishedJobsAreListedAgain(t *testing.T) {
	r := newRoom(t)
	var memory *store.Memory
	s, _ := r.lead(func(p *leader.Ports) {
		memory = store.NewMemory()
		epoch, err := memory.Lead("test")
		if err != nil {
			t.Fatal(err)
		}
		p.Epoch = epoch
		storeJob(t, memory, &messages.JobRecord{
			Id: "old-1", Revision: 1, WrittenBy: &messages.Token{Epoch: 1, Counter: 99}, Spec: gpuJob("old", 1, 1),
			Owner: &messages.Principal{Name: "alice"},
			State: messages.JobState_JOB_STATE_SUCCEEDED, FinishedUnixMs: 5, Arrival: 1, SubmittedUnixMs: 1,
		})
		port := store.NewPort(memory, p.System)
		t.Cleanup(func() { _ = port.Close() })
		p.Store = port
	})
	d := r.door(s, Options{Store: memory})
	list, err := d.SynapseClient.ListJobs(timely(t), &messages.ListJobs{})
	if err != nil || len(list.Jobs) != 1 || list.Jobs[0].Record.Id != "old-1" || list.Jobs[0].Phase != "succeeded" {
		t.Fatalf("listed are %v, %v", list, err)
	}
	if p := d.phase("old"); p != "succeeded" { // by its prefix too
		t.Errorf("it is %q", p)
	}
}
