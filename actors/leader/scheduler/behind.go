package scheduler

import (
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/intake"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns a store that is behind its machines: a backup was restored, a
// copy of the database put in its place, or the end of it lost with a replica. A
// machine then has attempts that were committed and of which the store has never
// heard. Nobody knows what else is missing, so nothing new is admitted, what
// runs is left alone, and the operator is told. Only the operator's word gives
// up what was lost (protocol.Ports.AcceptLoss); a leader that decided it by itself
// would end the work of everybody who came after the backup.
//
// One machine alone is no proof: it may have been used in a restore drill, or its
// agent may be broken, and it must not stop a cluster. Whose word is evidence, and
// how much of it is enough, quarantine.go decides.

// behind holds what this leader knows of nodes that are ahead of the store.
type behind struct {
	why     string // empty: the store knows all that machines have told of, or too few of them tell otherwise
	trial   trial
	told    map[topology.Token]bool
	asked   map[orphan]bool // the store is being asked whether it knows, or will be
	open    int             // how many questions are under way
	waiting []orphan        // to be asked about then
}

// orphansAsked is how many questions are under way at a time. After a restore
// there may be thousands, and the Journal's writes go the same way.
const orphansAsked = 16

// orphan is an attempt on a machine that no actor here knows.
type orphan struct {
	node  topology.NodeID
	job   topology.JobID
	token topology.Token
}

// askOrphan asks again a store that could not be read.
type askOrphan struct{ orphan }

func newBehind() behind {
	return behind{told: map[topology.Token]bool{}, asked: map[orphan]bool{}, trial: newTrial()}
}

// committed reports whether a machine has an attempt that only COMMIT on disk can
// have brought there. A reservation is forgotten by itself.
func committed(sl *messages.SliceReport) bool {
	return sl != nil && sl.State > messages.SliceState_SLICE_STATE_RESERVED
}

// givenUp: the operator said that what leaders up to this epoch decided and the
// store does not know is lost.
func (s *base) givenUp(t topology.Token) bool { return t.Epoch <= s.p.AcceptLoss }

// issued reports whether this leader made the token itself.
func (s *base) issued(t topology.Token) bool {
	return t.Epoch == s.p.Epoch && t.Counter <= s.tokens
}

// unheardOf reports whether this leader neither made an attempt of a job that lives
// nor read it with the job. Then it is over, and the machine has missed its
// Forget; or it is lost, and only the store can say which. That the store knows a
// later one says nothing: the job may have been run again before this machine
// was heard.
func (s *jobTable) unheardOf(e *livingJob, t topology.Token) bool {
	return !s.issued(t) && !s.givenUp(t) && !slices.Contains(e.read, t)
}

// askStore looks for an orphan where attempts are that are over. The answer is
// acted upon by judgeOrphan.
func (s *evidence) askStore(o orphan) {
	if !s.behind.asked[o] {
		s.behind.asked[o] = true
		s.behind.waiting = append(s.behind.waiting, o)
		s.askNext()
	}
}

func (s *evidence) askNext() {
	b := &s.behind
	for b.open < orphansAsked && len(b.waiting) > 0 {
		o := b.waiting[0]
		b.waiting = b.waiting[1:]
		b.open++
		s.ask(find{job: o.job, orphan: &o}, actors.Query{Job: o.job, Token: o.token})
	}
}

func (s *evidence) onAskOrphan(_ actor.Context, m askOrphan) {
	if w := s.machines[m.node]; w != nil && w.up && w.slice(m.token) != nil {
		s.askStore(m.orphan)
	}
}

// judgeOrphan: what the store knows to be over is cleaned up; of what it does
// not know the operator is told.
func (s *Scheduler) judgeOrphan(ctx actor.Context, o orphan, found actors.Found) {
	delete(s.behind.asked, o)
	s.behind.open--
	s.askNext()
	m, e := s.machines[o.node], s.jobs[o.job]
	if m == nil || !m.up || m.slice(o.token) == nil {
		return // it has gone meanwhile, or the next Hello tells of it again
	}
	switch {
	case found.Err != "", e != nil && (e.remakes || found.Damaged != ""):
		s.p.Clock.After(s.p.Constants.BenchFirst, ctx.Self(), askOrphan{o})
	case found.Has && o.token.Epoch > s.p.Epoch:
		s.overtaken(o.token)
	case found.Damaged != "": // it was over, as far as its columns say: nobody knows what of it
		s.setJobAside(ctx, actors.Damaged{Job: o.job, What: found.Damaged})
	case !found.Pruned && !found.Has:
		s.fallBehind(ctx, o)
	case e != nil:
		s.tellSight(ctx, m, e, o.token, m.slice(o.token))
	default:
		s.endOrphan(ctx, m, o.job, o.token, m.slice(o.token))
	}
}

// fallBehind keeps an attempt that the store has never heard of.
func (s *Scheduler) fallBehind(ctx actor.Context, o orphan) {
	m := s.machines[o.node]
	if !slices.Contains(m.strange, o.token) {
		m.strange = append(m.strange, o.token)
	}
	s.withhold(ctx, m, o)
	s.testify(ctx, m, o.token,
		fmt.Sprintf("%s has attempt %s of job %s, and the store knows nothing of it: it is older than the cluster. "+
			"Restore a newer backup, or start the scheduler with --accept-loss=%d, which stops such attempts for good", o.node,
			o.token, o.job, s.p.Epoch))
}

// followsAnother: the machine obeys a leader with a higher epoch than ours.
// Either that one has taken over, and we are about to learn of it; or our epoch
// was counted from an old copy of the store, and no machine will ever obey us; or
// the machine comes from somewhere else with our cluster's id, as from a drill.
func (s *Scheduler) followsAnother(ctx actor.Context, h *messages.Hello) {
	m := s.machine(topology.NodeID(h.Origin.GetNode()))
	delete(s.greetings.unheard, m.id)
	if m.record != nil && m.record.MachineId != h.Origin.MachineId {
		s.p.Host.Count("scheduler.foreign_epoch", 1)
		return // another machine under this name says nothing about it
	}
	m.obeys = h.Epoch
	s.testify(ctx, m, topology.Token{Epoch: h.Epoch},
		fmt.Sprintf(
			"%s follows a leader of epoch %d, and this one's is %d: another scheduler leads, or the store is a copy older "+
				"than the cluster. Bring it in by synapse-scheduler restore (with PostgreSQL, by its own tools and a higher "+
				"epoch), or use a newer one",
			m.id, h.Epoch, s.p.Epoch))
}

// vanished: the store has lost what it had acknowledged to this very leader, as
// an asynchronous replica does that takes over. What else is in our memory and
// not on disk, nobody knows; a next leader begins with what is.
func (s *base) vanished(what string) {
	s.p.Log.Info(
		"The store lost %s, which it had acknowledged: this scheduler exits, and the next leader starts from "+
			"the stored records", what)
	s.p.Host.Deposed(s.p.Epoch)
}

// overtaken: the store has an attempt that only a later leader can have written. This one must not judge it, and ends
// without waiting for its next write to be refused.
func (s *base) overtaken(t topology.Token) {
	s.p.Log.Info("The store has attempt %s, but the epoch of this scheduler is %d: another scheduler leads, and "+
		"this one exits", t,
		s.p.Epoch)
	s.p.Host.Deposed(s.p.Epoch)
}

// stopAdmissions closes every machine, so that whoever asks why a job waits or
// what a machine does is told. The first reason stays: the rest is in the log.
func (s *Scheduler) stopAdmissions(ctx actor.Context, why string) {
	s.p.Log.Info("ADMISSIONS STOPPED: %s", why)
	if s.behind.why != "" {
		return
	}
	s.p.Host.Count("scheduler.behind", 1)
	s.behind.why = why
	ctx.Send(s.peers.Mirror, mirror.PlanningShown{Reason: s.haltReason()})
	for _, m := range s.order {
		m.halted = s.halted()
		if m.record != nil && m.record.Removed == nil {
			s.refresh(ctx, m)
		}
	}
}

// halted returns the text for clients while admissions are stopped; empty: they are not.
func (s *evidence) halted() string {
	if s.behind.why == "" {
		return ""
	}
	return "admissions have stopped: " + s.behind.why
}

// haltReason is why no job starts; the zero value: jobs start.
func (s *evidence) haltReason() messages.Reason {
	if s.behind.why == "" {
		return messages.Reason{}
	}
	return messages.WaitHalted.Because(s.behind.why)
}

// outdated answers a submit that could be lost with the store that is behind.
func (s *evidence) outdated() *messages.SubmitReply {
	return intake.Reply("", messages.Code_CODE_UNAVAILABLE, "", s.halted(), "ask the operator of this cluster")
}

// Behind says why nothing is admitted; empty: it is.
func (s *evidence) Behind() string { return s.behind.why }
