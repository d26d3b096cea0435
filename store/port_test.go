package store

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/cluster/link"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able/pace"
	"github.com/yi-json/synapse/topology"
)

// broken is a database that fails, or hangs until it is released.
type broken struct {
	*Memory
	fail error
	hang chan struct{}
}

func (b *broken) Apply(epoch uint64, changes []actors.Change) ([]actors.Verdict, error) {
	if b.hang != nil {
		<-b.hang
	}
	if b.fail != nil {
		return nil, b.fail
	}
	return b.Memory.Apply(epoch, changes)
}

// listen returns a system with one actor that passes its messages on.
func listen(t *testing.T) (*actor.ActorSystem, *actor.PID, <-chan any) {
	t.Helper()
	system := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }),
	)
	heard := make(chan any, 2*portQueue)
	pid := system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case actors.Applied, actors.Loaded, actors.Found:
			heard <- ctx.Message()
		}
	}, actor.WithMailbox(link.Mailbox)))
	t.Cleanup(func() { system.Root.Stop(pid) })
	return system, pid, heard
}

func next[T any](t *testing.T, heard <-chan any) T {
	t.Helper()
	select {
	case m := <-heard:
		got, ok := m.(T)
		if !ok {
			t.Fatalf("received %#v", m)
		}
		return got
	case <-time.After(pace.Of(10 * time.Second)):
		t.Fatal("received nothing")
		panic("not reached")
	}
}

func TestPortAnswersEachCall(t *testing.T) {
	system, pid, heard := listen(t)
	m := NewMemory()
	epoch, _ := m.Lead("tester")
	p := NewPort(m, system)
	p.Apply(epoch, 7, []actors.Change{{Job: submitted("j", 1)}, {}}, pid)
	if a := next[actors.Applied](t, heard); a.Ticket != 7 || a.Err != "" || a.Deposed || a.Verdicts[0] != actors.Done ||
		a.Verdicts[1] != actors.Conflict {
		t.Fatalf("applied %+v", a)
	}
	p.Load(epoch, pid)
	if l := next[actors.Loaded](t, heard); l.Err != "" || len(l.Jobs) != 1 {
		t.Fatalf("loaded %+v", l)
	}
	for _, q := range []actors.Query{{Ticket: 1, Job: "j"}, {Ticket: 2, Owner: "alice", RequestID: "rj"}} {
		p.Find(q, pid)
		if f := next[actors.Found](t, heard); f.Query != q || f.Job.GetId() != "j" || f.Err != "" {
			t.Fatalf("found %+v", f)
		}
	}
	p.Find(actors.Query{Job: topology.JobID("none")}, pid)
	if f := next[actors.Found](t, heard); f.Job != nil || f.Err != "" {
		t.Fatalf("found %+v", f)
	}
	p.Apply(epoch+1, 8, nil, pid)
	if a := next[actors.Applied](t, heard); !a.Deposed || a.Ticket != 8 {
		t.Fatalf("applied %+v", a)
	}
	p.Load(epoch+1, pid)
	if l := next[actors.Loaded](t, heard); !l.Deposed {
		t.Fatalf("loaded %+v", l)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	p.Apply(epoch, 9, nil, pid)
	if a := next[actors.Applied](t, heard); a.Err == "" || a.Ticket != 9 {
		t.Fatalf("applied %+v", a)
	}
}

func TestPortNeverWaits(t *testing.T) {
	system, pid, heard := listen(t)
	b := &broken{Memory: NewMemory(), hang: make(chan struct{}), fail: errors.New("no such disk")}
	p := NewPort(b, system)
	for ticket := range uint64(portQueue + 2) {
		p.Apply(1, ticket, nil, pid) // would never return if the port waited
	}
	if a := next[actors.Applied](t, heard); a.Err != errBusy.Error() {
		t.Fatalf("applied %+v", a)
	}
	close(b.hang)
	if a := next[actors.Applied](t, heard); a.Err == "" || a.Verdicts != nil {
		t.Fatalf("applied %+v", a)
	}
	_ = p.Close()
}

// TestPortRecallsWhatEnded checks that a new leader gets the recently finished jobs, except those with unconfirmed
// exits, which are loaded as live ones.
func TestPortRecallsWhatEnded(t *testing.T) {
	system, pid, heard := listen(t)
	m := NewMemory()
	epoch, _ := m.Lead("tester")
	write := uint64(0)
	put := func(id string, revision uint64, state messages.JobState, finishedMs int64,
		attempts ...*messages.AttemptRecord) {
		t.Helper()
		write++
		j := submitted(id, write)
		j.Revision, j.State, j.FinishedUnixMs = revision, state, finishedMs
		if verdicts, err := m.Apply(epoch, []actors.Change{{Job: j, Attempts: attempts}}); err != nil ||
			verdicts[0] != actors.Done {
			t.Fatalf("apply: %v, %v, %v", verdicts, err, m.Broken())
		}
	}
	attempt := func(id string, counter uint64, end *messages.End, exit *messages.Exit) *messages.AttemptRecord {
		return &messages.AttemptRecord{
			Job: id, Token: &messages.Token{Epoch: 1, Counter: counter}, Run: 1, End: end,
			Places: []*messages.Place{
				{Node: "n0", MachineId: "m0", Exit: exit, Grant: &messages.Grant{Amount: &messages.Resources{}}},
			},
		}
	}
	const active, over = messages.JobState_JOB_STATE_ACTIVE, messages.JobState_JOB_STATE_CANCELLED
	gone, end := &messages.Exit{Kind: messages.ExitKind_EXIT_KIND_EXITED, AtUnixMs: 5}, &messages.End{
		Cause: messages.Cause_CAUSE_CANCELLED, Rank: -1, AtUnixMs: 5,
	}
	put("old", 1, over, 5)
	put("new", 1, active, 0, attempt("new", 106, nil, nil))
	put("new", 2, active, 0, attempt("new", 106, end, gone), attempt("new", 107, nil, nil))
	put("new", 3, over, 6, attempt("new", 107, end, gone))
	put("owes", 1, active, 0, attempt("owes", 108, nil, nil))
	put("owes", 2, over, 7, attempt("owes", 108, end, nil))
	put("lives", 1, messages.JobState_JOB_STATE_QUEUED, 0)
	p := NewPort(m, system)
	defer p.Close()
	p.Load(epoch, pid)
	l := next[actors.Loaded](t, heard)
	if len(l.Ended) != 2 || l.Ended[0].Job.Id != "new" || l.Ended[0].Attempt.GetToken().GetCounter() != 107 ||
		l.Ended[1].Job.Id != "old" || l.Ended[1].Attempt != nil {
		t.Fatalf("recalled jobs are %v", l.Ended)
	}
	if len(l.Jobs) != 2 {
		t.Fatalf("loaded %v", l.Jobs)
	}
	// A query for a job returns the attempts that still matter, and whether a given attempt existed.
	f := Answer(m, actors.Query{Job: "new", Token: topology.Token{Epoch: 1, Counter: 106}})
	if !f.Has || len(f.Attempts) != 1 || f.Attempts[0].Token.Counter != 107 {
		t.Fatalf("found %+v", f)
	}
}

// TestPortLoadsWithoutThePast checks that a leader leads even if finished jobs are unreadable.
func TestPortLoadsWithoutThePast(t *testing.T) {
	system, pid, heard := listen(t)
	m := NewMemory()
	epoch, _ := m.Lead("tester")
	_, _ = m.Apply(epoch, []actors.Change{{Job: submitted("lives", 4)}})
	p := NewPort(forgetful{m}, system)
	defer p.Close()
	p.Load(epoch, pid)
	if l := next[actors.Loaded](t, heard); l.Err != "" || len(l.Jobs) != 1 || len(l.Ended) != 0 {
		t.Fatalf("loaded %+v", l)
	}
}

type forgetful struct{ *Memory }

func (forgetful) History(Past) (Page, error) { return Page{}, errors.New("no such page") }

// failing is a store in which one kind of read fails.
type failing struct {
	Store
	read string
}

var errAway = errors.New("the disk is away")

func (f failing) Job(id topology.JobID) (*messages.JobRecord, []*messages.AttemptRecord, error) {
	if f.read == "job" {
		return nil, nil, errAway
	}
	return f.Store.Job(id)
}

func (f failing) Requested(owner, id string) (*messages.JobRecord, []*messages.AttemptRecord, error) {
	if f.read == "request" {
		return nil, nil, errAway
	}
	return f.Store.Requested(owner, id)
}

func (f failing) Pruned(id topology.JobID) (bool, error) {
	if f.read == "pruned" {
		return false, errAway
	}
	return f.Store.Pruned(id)
}

func (f failing) Load(epoch uint64) (*actors.Loaded, error) {
	if f.read == "load" {
		return nil, errAway
	}
	return f.Store.Load(epoch)
}

// TestPortTellsOfFailedReads checks that a failed read is never reported as a missing record.
func TestPortTellsOfFailedReads(t *testing.T) {
	for read, q := range map[string]actors.Query{ //order: each is tried by itself
		"job": {Job: "j"}, "request": {Owner: "ann", RequestID: "r"}, "pruned": {Job: "j"},
	} {
		found := Answer(failing{NewMemory(), read}, q)
		if found.Err != errAway.Error() || found.Job != nil || found.Query != q {
			t.Errorf("%s: %+v", read, found)
		}
		if found := Answer(NewMemory(), q); found.Err != "" || found.Job != nil {
			t.Errorf("%s, and there is none: %+v", read, found)
		}
	}
	system, me, heard := listen(t)
	p := NewPort(failing{NewMemory(), "load"}, system)
	t.Cleanup(func() { p.Close() })
	p.Load(1, me)
	if l := next[actors.Loaded](t, heard); l.Err != errAway.Error() || l.Deposed {
		t.Errorf("the store could not be loaded: %+v", l)
	}
}

// unhurried is a database whose write takes until it is released.
type unhurried struct {
	*Memory
	entered, letGo, closed chan struct{}
}

func (u *unhurried) Apply(epoch uint64, changes []actors.Change) ([]actors.Verdict, error) {
	close(u.entered)
	<-u.letGo
	return u.Memory.Apply(epoch, changes)
}

func (u *unhurried) Close() error {
	close(u.closed)
	return u.Memory.Close()
}

// TestPortClosesBehindItsCalls checks that the store is closed after every call has been executed and answered.
func TestPortClosesBehindItsCalls(t *testing.T) {
	system, me, heard := listen(t)
	u := &unhurried{NewMemory(), make(chan struct{}), make(chan struct{}), make(chan struct{})}
	epoch, _ := u.Lead("tester")
	p := NewPort(u, system)
	p.Apply(epoch, 3, []actors.Change{{Job: submitted("j", 1)}}, me)
	<-u.entered
	ended := make(chan error, 1)
	go func() { ended <- p.Close() }()
	select {
	case <-u.closed:
		t.Fatal("the store is closed while it is written to")
	case <-time.After(50 * time.Millisecond): // any duration works for a correct store
	}
	close(u.letGo)
	if a := next[actors.Applied](t, heard); a.Ticket != 3 || a.Err != "" || len(a.Verdicts) != 1 {
		t.Errorf("the last write is answered by %+v", a)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
