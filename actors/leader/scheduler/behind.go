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

// This file owns the case that the store is behind its nodes: a backup was restored, a copy replaced the database, or a
// replica lost the last writes. A node then holds committed attempts that the store does not contain. Other records may
// be missing too. Therefore no new job is admitted, running tasks continue, and the operator is notified. Only the
// operator can give up what was lost (protocol.Ports.AcceptLoss). A leader that decided this itself would end all work
// that started after the backup.
//
// A single node is no proof. It may come from a restore drill, or its agent may be broken, and it must not stop a
// cluster. The file quarantine.go decides which reports count as evidence and how many are needed.

// behind holds what this leader knows of nodes that are ahead of the store.
type behind struct {
	why     string // empty: the store contains all reported attempts, or too few nodes contradict it
	trial   trial
	told    map[topology.Token]bool
	asked   map[orphan]bool // questions about them are sent to the store, or will be
	open    int             // number of questions without an answer
	waiting []orphan        // asked about later
}

// orphansAsked limits the simultaneous questions. After a restore there may be thousands, and the Journal's writes use
// the same store.
const orphansAsked = 16

// orphan is an attempt on a node for which this leader has no actor.
type orphan struct {
	node  topology.NodeID
	job   topology.JobID
	token topology.Token
}

// askOrphan is the timer that repeats a question after a failed read.
type askOrphan struct{ orphan }

func newBehind() behind {
	return behind{told: map[topology.Token]bool{}, asked: map[orphan]bool{}, trial: newTrial()}
}

// committed reports whether an allocation proves a COMMIT on disk. A reservation does not, because it expires.
func committed(sl *messages.SliceReport) bool {
	return sl != nil && sl.State > messages.SliceState_SLICE_STATE_RESERVED
}

// givenUp reports whether the operator has given up the decisions of that epoch which the store does not contain.
func (s *base) givenUp(t topology.Token) bool { return t.Epoch <= s.p.AcceptLoss }

// issued reports whether this leader created the token.
func (s *base) issued(t topology.Token) bool {
	return t.Epoch == s.p.Epoch && t.Counter <= s.tokens
}

// unheardOf reports whether this leader neither created an attempt of a live job nor read it with the job. The attempt
// has ended and the node missed its Forget, or the attempt was lost, which only the store can tell. A later attempt in
// the store proves nothing, because the job may have run again before this node was heard.
func (s *jobTable) unheardOf(e *livingJob, t topology.Token) bool {
	return !s.issued(t) && !s.givenUp(t) && !slices.Contains(e.read, t)
}

// askStore looks up an orphan among the ended attempts. judgeOrphan handles the answer.
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

// judgeOrphan cleans up an attempt that has ended according to the store. It reports an attempt that the store does not
// contain to the operator.
func (s *Scheduler) judgeOrphan(ctx actor.Context, o orphan, found actors.Found) {
	delete(s.behind.asked, o)
	s.behind.open--
	s.askNext()
	m, e := s.machines[o.node], s.jobs[o.job]
	if m == nil || !m.up || m.slice(o.token) == nil {
		return // it is gone by now, or the next Hello reports it again
	}
	switch {
	case found.Err != "", e != nil && (e.remakes || found.Damaged != ""):
		s.p.Clock.After(s.p.Constants.NodeBackoffFirst, ctx.Self(), askOrphan{o})
	case found.Has && o.token.Epoch > s.p.Epoch:
		s.overtaken(o.token)
	case found.Damaged != "": // its columns say that it has ended, but its record is unreadable
		s.setJobAside(ctx, actors.Damaged{Job: o.job, What: found.Damaged})
	case !found.Pruned && !found.Has:
		s.fallBehind(ctx, o)
	case e != nil:
		s.tellSight(ctx, m, e, o.token, m.slice(o.token))
	default:
		s.endOrphan(ctx, m, o.job, o.token, m.slice(o.token))
	}
}

// fallBehind records an attempt that the store does not contain.
func (s *Scheduler) fallBehind(ctx actor.Context, o orphan) {
	m := s.machines[o.node]
	if !slices.Contains(m.strange, o.token) {
		m.strange = append(m.strange, o.token)
	}
	s.withhold(ctx, m, o)
	s.testify(ctx, m, o.token,
		fmt.Sprintf("%s has attempt %s of job %s, which the store does not contain: the store is older than the cluster; "+
			"restore a newer backup, or start the scheduler with --accept-loss=%d to stop such attempts for good", o.node,
			o.token, o.job, s.p.Epoch))
}

// followsAnother handles a node that follows a leader with a higher epoch. That leader may have taken over, which this
// leader will learn soon. Or this leader's epoch comes from an old copy of the store, and no node will ever follow it.
// Or the node comes from another copy of this cluster, such as a restore drill.
func (s *Scheduler) followsAnother(ctx actor.Context, h *messages.Hello) {
	m := s.machine(topology.NodeID(h.Origin.GetNode()))
	delete(s.greetings.unheard, m.id)
	if m.record != nil && m.record.MachineId != h.Origin.MachineId {
		s.p.Host.Count("scheduler.foreign_epoch", 1)
		return // another machine with this name is no evidence about this one
	}
	if m.outlived(h.Origin.Incarnation) {
		s.p.Host.Count("scheduler.old_hello", 1)
		return // a later start of this agent has followed this leader since
	}
	m.obeys = h.Epoch
	s.testify(ctx, m, topology.Token{Epoch: h.Epoch},
		fmt.Sprintf(
			"%s follows a leader of epoch %d, but this leader has epoch %d: another scheduler leads, or the store is a "+
				"copy older than the cluster; restore it with synapse-scheduler restore (PostgreSQL: with its own tools and a "+
				"higher epoch), or use a newer copy",
			m.id, h.Epoch, s.p.Epoch))
}

// vanished handles a store that has lost a write which it had acknowledged to this leader, as an asynchronous replica
// does after a failover. Other state in memory may be missing on disk too. The next leader starts from the records on
// disk.
func (s *base) vanished(what string) {
	s.p.Log.Info(
		"The store lost %s, which it had acknowledged: this scheduler exits, and the next leader starts from "+
			"the stored records", what)
	s.p.Host.Deposed(s.p.Epoch)
}

// overtaken handles an attempt in the store that only a later leader can have written. This leader ends at once instead
// of waiting until its next write is refused.
func (s *base) overtaken(t topology.Token) {
	s.p.Log.Info("The store has attempt %s, but the epoch of this scheduler is %d: another scheduler leads, and "+
		"this one exits", t,
		s.p.Epoch)
	s.p.Host.Deposed(s.p.Epoch)
}

// stopAdmissions closes every node, so that explanations of jobs and lists of nodes show the reason. The first reason
// stays. The log has the others.
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

// halted returns the text for clients while admissions are stopped. It returns the empty string otherwise.
func (s *evidence) halted() string {
	if s.behind.why == "" {
		return ""
	}
	return "admissions have stopped: " + s.behind.why
}

// haltReason returns why no job starts. It returns the zero value if jobs start.
func (s *evidence) haltReason() messages.Reason {
	if s.behind.why == "" {
		return messages.Reason{}
	}
	return messages.WaitHalted.Because(s.behind.why)
}

// outdated returns the refusal of a submit that could be lost because the store is behind.
func (s *evidence) outdated() *messages.SubmitReply {
	return intake.Reply("", messages.Code_CODE_UNAVAILABLE, "", s.halted(), "ask the operator of this cluster")
}

// Behind returns why admissions are stopped. It returns the empty string if they are not.
func (s *evidence) Behind() string { return s.behind.why }
