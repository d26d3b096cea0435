package store

import (
	"errors"
	"slices"
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// Port is the store as actors use it. It accepts a call at once, executes the calls in order on its own goroutine, and
// answers with a message. An actor never waits for a disk.
type Port struct {
	store  Store
	system *actor.ActorSystem
	calls  chan func()
	done   chan struct{}

	mu     sync.Mutex
	closed bool
}

// portQueue limits the waiting calls. The Journal has one transaction in flight and repeats it only after long silence,
// so a full queue means that the database hangs.
const portQueue = 64

// errBusy is returned if a call was not executed. The caller does not know the result, as after any other error.
var errBusy = errors.New("store: too many calls wait for the database")

// NewPort starts to serve a store. The caller must call Close.
func NewPort(s Store, system *actor.ActorSystem) *Port {
	p := &Port{store: s, system: system, calls: make(chan func(), portQueue), done: make(chan struct{})}
	go p.serve()
	return p
}

// serve executes one call after the other. A panic in a store ends the process, because a database that has broken one
// of its own rules must not be written any more.
func (p *Port) serve() {
	defer close(p.done)
	for call := range p.calls {
		call()
	}
}

// mustBeWhole ends the process if a record is damaged. A leader would retry forever, because the damage is permanent.
// The error names the record.
func mustBeWhole(err error) {
	if errors.Is(err, ErrDamaged) {
		panic(err)
	}
}

// do queues a call without waiting.
func (p *Port) do(call func()) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	select {
	case p.calls <- call:
		return nil
	default:
		return errBusy
	}
}

// Load implements actors.Store.
func (p *Port) Load(epoch uint64, to *actor.PID) {
	err := p.do(func() {
		loaded, err := p.store.Load(epoch)
		mustBeWhole(err)
		if err != nil {
			loaded = &actors.Loaded{Deposed: errors.Is(err, ErrDeposed), Err: err.Error()}
		} else {
			ended, bad := recent(p.store)
			loaded.Ended, loaded.Damaged = ended, append(loaded.Damaged, bad...)
		}
		p.system.Root.Send(to, *loaded)
	})
	if err != nil {
		p.system.Root.Send(to, actors.Loaded{Err: err.Error()})
	}
}

// recalled is how many finished jobs a new leader gets, so that lists show them as before. They may be as large as one
// page of history.
const recalled = 1_000

// recent returns the newest finished jobs. A leader does not need them, so it leads without them if they are
// unreadable. A query for such a job returns the error.
func recent(s Store) (out []actors.Ended, bad []actors.Damaged) {
	page, err := s.History(Past{Look: recalled})
	if err != nil {
		return nil, nil
	}
	for _, past := range page.Jobs {
		ended := actors.Ended{Job: past.Job}
		if n := len(past.Attempts); n > 0 {
			ended.Attempt = past.Attempts[n-1]
		}
		if !slices.ContainsFunc(past.Attempts, (*messages.AttemptRecord).Owes) { // otherwise its Job actor shows it
			out = append(out, ended)
		}
	}
	return out, page.Damaged
}

// Apply implements actors.Store.
func (p *Port) Apply(epoch, ticket uint64, changes []actors.Change, to *actor.PID) {
	err := p.do(func() {
		answer := actors.Applied{Ticket: ticket}
		verdicts, err := p.store.Apply(epoch, changes)
		mustBeWhole(err)
		switch {
		case errors.Is(err, ErrDeposed):
			answer.Deposed = true
		case err != nil:
			answer.Err = err.Error()
		default:
			answer.Verdicts = verdicts
		}
		p.system.Root.Send(to, answer)
	})
	if err != nil {
		p.system.Root.Send(to, actors.Applied{Ticket: ticket, Err: err.Error()})
	}
}

// Find implements actors.Store.
func (p *Port) Find(q actors.Query, to *actor.PID) {
	err := p.do(func() { p.system.Root.Send(to, Answer(p.store, q)) })
	if err != nil {
		p.system.Root.Send(to, actors.Found{Query: q, Err: err.Error()})
	}
}

// Answer answers a query. A missing job is an answer, not an error.
func Answer(s Store, q actors.Query) actors.Found {
	found := actors.Found{Query: q}
	var err error
	if q.Job != "" {
		found.Job, found.Attempts, err = s.Job(q.Job)
	} else {
		found.Job, found.Attempts, err = s.Requested(q.Owner, q.RequestID)
	}
	if errors.Is(err, ErrNotFound) && q.Job != "" {
		found.Pruned, err = s.Pruned(q.Job)
	}
	switch one := (*Damage)(nil); {
	case errors.As(err, &one):
		found.Job, found.Attempts, found.Damaged = nil, nil, whatIsWrong(err)
	case err != nil && !errors.Is(err, ErrNotFound):
		found.Err = err.Error()
	}
	found.Has = slices.ContainsFunc(found.Attempts,
		func(a *messages.AttemptRecord) bool { return messages.FromToken(a.Token) == q.Token })
	found.Attempts = unsettled(found.Attempts)
	return found
}

// Close executes the waiting calls, and closes the store.
func (p *Port) Close() error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.calls)
	}
	p.mu.Unlock()
	<-p.done
	return p.store.Close()
}
