package sim

import (
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/store"
)

// This file simulates the connection to the store: the real memory store behind a connection that is slow, fails,
// stalls, or loses the answer to a successful commit.

// storage is the database, with its present faults.
type storage struct {
	w       *World
	kept    *store.Memory
	file    *file // the file next to it; nil: there is none, or nobody has led yet
	row     leaseRow
	outage  int      // number of faults that make every call fail
	stalled instant  // no call is answered before this …
	held    []action // … and calls during that time wait
	silent  instant  // when it last wrote and never answered; 0: it always answered
	unheard bool     // the caller of the present write gets no answer, or a late one
}

// trouble names the fault of one call.
type trouble uint8

const (
	noTrouble     trouble = iota
	errorBefore           // nothing was written
	errorAfter            // it was written, and the answer is lost
	errorLate             // the caller gets an error, and it is written after that
	crashed               // the database died: it was written, or not
	answerMissing         // it was written, and no answer ever comes
	powerLost             // the scheduler's host lost power during the write
)

// latency returns the time that one call takes to arrive.
func latency(chance *generator) time.Duration {
	return chance.between(300*time.Microsecond, 3*time.Millisecond)
}

// after lets a call arrive after d, or later if the store is stalled.
func (s *storage) after(d time.Duration, do action) {
	s.w.engine.after(d, func() {
		if s.stalled > s.w.engine.now {
			s.held = append(s.held, do)
			return
		}
		do()
	})
}

// proceed ends a stall.
func (s *storage) proceed() {
	held := s.held
	s.stalled, s.held = s.w.engine.now, nil
	for _, do := range held {
		s.after(latency(s.w.chance), do)
	}
}

// trouble draws the fault of one write.
func (s *storage) trouble(p *process) trouble {
	switch {
	case s.outage > 0 || p.host.cut > 0:
		return errorBefore
	case s.file != nil && s.file.power:
		s.file.power = false
		return powerLost
	case !s.w.fires("store-error"):
		return noTrouble
	}
	return trouble(1 + s.w.chance.below(int(answerMissing)))
}

// Call is a write that the store accepted: changes with their verdicts, or no changes if a leader got its epoch.
type Call struct {
	Epoch    uint64
	Changes  []actors.Change
	Verdicts []actors.Verdict
}

func (s *storage) tell(c Call) {
	if s.w.opts.Calls != nil {
		s.w.opts.Calls(c)
	}
}

// storePort is the store as one process reaches it.
type storePort struct {
	s    *storage
	proc *process
}

// held returns the store under the name of this process.
func (x *storePort) held() store.Held { return x.s.kept.HeldBy(x.proc.holder().String()) }

// Load answers with everything that has not finished.
func (x *storePort) Load(epoch uint64, to *actor.PID) {
	x.read(func() any {
		loaded, err := x.truth().Load(epoch)
		switch {
		case errors.Is(err, store.ErrDeposed):
			return actors.Loaded{Deposed: true, Err: err.Error()}
		case err != nil:
			return actors.Loaded{Err: err.Error()}
		}
		return *loaded
	}, actors.Loaded{Err: away}, to)
}

// Find answers with one job.
func (x *storePort) Find(q actors.Query, to *actor.PID) {
	x.read(func() any { return store.Answer(x.truth(), q) }, actors.Found{Query: q, Err: away}, to)
}

const away = "the store is away"

// read reads the store after a delay, unless it is unreachable.
func (x *storePort) read(ask func() any, failure any, to *actor.PID) {
	x.s.w.writes++
	x.s.after(latency(x.s.w.chance), func() {
		x.s.w.writes--
		if x.broken() {
			x.proc.tell(to, failure)
			return
		}
		x.proc.tell(to, ask())
	})
}

func (x *storePort) broken() bool { return x.s.outage > 0 || x.proc.host.cut > 0 }

// Apply writes a transaction and answers, unless a fault prevents that.
func (x *storePort) Apply(epoch, ticket uint64, changes []actors.Change, to *actor.PID) {
	s := x.s
	s.w.writes++
	s.after(latency(s.w.chance), func() {
		s.w.writes--
		fault := s.trouble(x.proc)
		answer := actors.Applied{Ticket: ticket, Err: "the connection broke"}
		switch fault {
		case noTrouble:
			answer = x.commit(epoch, ticket, changes)
		case errorAfter:
			x.commitUnheard(epoch, ticket, changes)
		case errorLate:
			s.w.writes++
			s.w.engine.after(s.w.chance.skewed(time.Millisecond, 8*time.Second), func() {
				s.w.writes--
				x.commitUnheard(epoch, ticket, changes)
			})
		case crashed:
			x.crash(epoch, changes)
		case powerLost:
			x.crash(epoch, changes)
			if !x.proc.dead {
				s.w.note(x.proc, "its machine lost power")
				x.proc.crash()
			}
			return
		case answerMissing:
			s.silent = s.w.engine.now
			x.commitUnheard(epoch, ticket, changes)
			return
		}
		if answer.Deposed && x.proc.deposedAt == 0 {
			x.proc.deposedAt = s.w.engine.now
		}
		x.proc.tell(to, answer)
	})
}

// commit does the transaction. A commit that arrived is done even if the process that sent it has died meanwhile.
func (x *storePort) commit(epoch, ticket uint64, changes []actors.Change) actors.Applied {
	w := x.s.w
	if x.s.file.failing() {
		return x.commitFailing(epoch, ticket, changes)
	}
	verdicts, err := x.held().Apply(epoch, changes)
	x.s.file.apply(epoch, changes, verdicts, err)
	switch {
	case errors.Is(err, store.ErrDeposed):
		return actors.Applied{Ticket: ticket, Deposed: true}
	case err != nil:
		return actors.Applied{Ticket: ticket, Err: err.Error()}
	}
	x.s.kept.Sync()
	x.s.tell(Call{epoch, changes, verdicts})
	w.books.writeAll(x.proc, epoch, changes, verdicts)
	return actors.Applied{Ticket: ticket, Verdicts: verdicts}
}

// commitUnheard does a commit of which its leader does not know yet.
func (x *storePort) commitUnheard(epoch, ticket uint64, changes []actors.Change) {
	x.s.unheard = true
	x.commit(epoch, ticket, changes)
	x.s.unheard = false
}

// crash loses the transaction, or only its answer. Nothing had been acknowledged.
func (x *storePort) crash(epoch uint64, changes []actors.Change) {
	if x.s.file != nil {
		x.crashFile(epoch, changes)
		return
	}
	verdicts, err := x.held().Apply(epoch, changes)
	kept := x.s.w.chance.below(2)
	x.s.kept.CrashKeeping(kept)
	if err == nil && kept > 0 {
		x.s.tell(Call{epoch, changes, verdicts})
		x.s.w.books.writeAll(x.proc, epoch, changes, verdicts)
	}
}

// truth returns the store that leaders read.
func (x *storePort) truth() store.Store {
	if x.s.file != nil {
		return x.s.file.kept
	}
	return x.held()
}

// crashFile lets the file decide which of the two happened. The model follows.
func (x *storePort) crashFile(epoch uint64, changes []actors.Change) {
	s := x.s
	s.file.loseApply(epoch, changes)
	if s.file == nil {
		return
	}
	// The former leader is dead, and only a next leader reads the file. So the file and the model both get one more
	// leader, which is no process.
	const reader = "after the power"
	defer s.file.spared()()
	s.file.lead(reader, s.kept.Epoch()+1)
	defer func() {
		_, _ = s.kept.Lead(reader)
		s.kept.Sync()
	}()
	next := s.kept.Epoch() + 1
	if s.file.agrees(next) {
		return
	}
	verdicts, err := s.kept.Apply(epoch, changes)
	s.kept.Sync()
	if !s.file.agrees(next) {
		s.w.violate("S8 acknowledged-kept",
			"after a power loss the file has neither the whole of the last write nor nothing of it")
		return
	}
	if err == nil {
		s.w.count("store.survived", 1)
		s.w.books.writeAll(x.proc, epoch, changes, verdicts)
	}
}
