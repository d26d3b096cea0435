package job

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/clock/backoff"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/verdict"
	"github.com/yi-json/synapse/topology"
)

// This file owns restarts in place. If a task of such a job fails, END tells the nodes to keep the resources after the
// last exit. When every node has confirmed the exits of all its ranks and keeps their resources, the Job writes COMMIT
// of the next attempt, the heir. It uses the same nodes, ranks and devices, so nothing is reserved or placed. If
// something prevents the heir, the attempt is closed as usual, the nodes free the resources, and the job waits in the
// queue.

// These are the prefixes of the figures of restarts in place. They never decide anything.
const (
	CountRestarted = "restart.class."    // the class of the failure follows
	TookRestart    = "restart.in-place." // a step of the restart, or all of them, follows

	stepStopping, stepStarting, stepAll = messages.PhaseStopping, messages.PhaseStarting, "all"
)

// heirship is the state of a restart in place. It belongs to the ended attempt with this token.
type heirship struct {
	from   topology.Token
	ended  actors.Instant // when this actor learned of the end
	due    actors.Instant // end of the delay before the heir
	asked  bool
	barred bool
	next   *protocol.Heir        // the Scheduler's answer
	class  messages.FailureClass // of the failure, in the last draft
}

// heirDue is the timer of an heir: the end of its delay, or of the hold.
type heirDue struct {
	From topology.Token
	Over bool // the nodes keep the resources no longer
}

// holdFor returns how long the nodes of an attempt keep its resources for an heir. It returns 0 if the next attempt
// must be placed again, or if there is none.
func (j *Job) holdFor(rec *messages.JobRecord, a *messages.AttemptRecord, end *messages.End) time.Duration {
	if !rec.Spec.GetRestart().GetInPlace() || end.Cause != messages.Cause_CAUSE_MEMBER_FAILED || a.StartedUnixMs == 0 ||
		rec.Cancel != nil || j.kept() || a.Pending != nil || !j.allKeep(a) {
		return 0
	}
	switch a.Verdict.GetClass() {
	case messages.FailureClass_FAILURE_CLASS_NODE, messages.FailureClass_FAILURE_CLASS_GPU,
		messages.FailureClass_FAILURE_CLASS_NETWORK, messages.FailureClass_FAILURE_CLASS_STORAGE:
		return 0 // other nodes may be better
	}
	switch {
	case a.Verdict.GetRepeated(), charged(a) && rec.Failures >= rec.Spec.GetRestart().GetLimit(),
		!charged(a) && int(rec.InfraRestarts) >= j.p.Constants.InfraRestarts:
		return 0
	}
	return j.heirDelay(rec, a, end) + j.p.Constants.InPlaceHold
}

// allKeep reports whether every node of an attempt answers, and has an agent that can keep resources.
func (j *Job) allKeep(a *messages.AttemptRecord) bool {
	for _, p := range a.Places {
		if c := j.contacts[topology.NodeID(p.Node)]; !c.up || c.vocabulary < messages.VocabularyInPlace {
			return false
		}
	}
	return true
}

// heirDelay returns the pause before an heir. The first restart is immediate. A further one that comes soon after the
// one before is delayed, for longer each time.
func (j *Job) heirDelay(rec *messages.JobRecord, a *messages.AttemptRecord, end *messages.End) time.Duration {
	if a.QuickRestarts == 0 || actors.Millis(end.RanMs) >= j.p.Constants.InPlaceQuick {
		return 0
	}
	first := actors.Millis(rec.Spec.GetRestart().GetBackoffMs())
	if first == 0 {
		first = j.p.Constants.PrepareBackoff
	}
	return backoff.After(int(a.QuickRestarts), first, j.p.Constants.BackoffCap)
}

// expectHeir begins a restart in place, if the end on disk asks for one.
func (j *Job) expectHeir(ctx actor.Context) {
	j.heir = heirship{}
	if j.att.GetEnd().GetHoldMs() == 0 {
		return
	}
	now := j.p.Clock.Now()
	if j.limitFrom == 0 { // it started and ended under an earlier leader
		j.limitFrom = now.Plus(-actors.Millis(j.att.InPlaceMs + j.att.End.RanMs))
	}
	delay := j.heirDelay(j.rec, j.att, j.att.End)
	j.heir = heirship{from: messages.FromToken(j.att.Token), ended: now, due: now.Plus(delay)}
	if j.heir.from.Epoch != j.p.Epoch { // until then, the planner would not know when the resources become free
		ctx.Send(j.peers.Scheduler, protocol.Foreseen{Job: j.id, Token: j.heir.from, Spec: j.rec.Spec,
			Starts: now.Plus(actors.Millis(j.att.End.HoldMs) + protocol.UntilBarrier(j.rec.Spec, &j.p.Constants))})
	}
	if delay > 0 { // a node whose tasks all ended by themselves does not know of the delay
		for _, t := range j.planOf(&messages.AttemptRecord{Places: placesOfHeir(j.att)}).Targets {
			j.stopAt(ctx, j.att, t.Node)
		}
	}
	j.p.Clock.After(delay, ctx.Self(), heirDue{From: j.heir.from})
	j.p.Clock.After(actors.Millis(j.att.End.HoldMs), ctx.Self(), heirDue{j.heir.from, true})
}

// holdLeft returns how long a Stop asks a node to keep the resources of an ended attempt.
func (j *Job) holdLeft(a *messages.AttemptRecord) int64 {
	if j.heir.barred || j.heir.from.IsZero() || j.heir.from != messages.FromToken(a.Token) {
		return 0
	}
	return a.End.GetHoldMs()
}

func (j *Job) onHeirDue(ctx actor.Context, m heirDue) {
	if m.From != j.heir.from {
		return
	}
	if m.Over {
		j.barHeir(ctx)
	} else {
		j.advance(ctx)
	}
}

// barHeir gives up a restart in place. The attempt is closed as usual.
func (j *Job) barHeir(ctx actor.Context) {
	if !j.heir.from.IsZero() && !j.heir.barred && j.heir.next == nil {
		j.heir.barred = true
		j.advance(ctx)
	}
}

// noteKept notes whether a node keeps the resources of an ended attempt.
func (j *Job) noteKept(ctx actor.Context, t topology.Token, n topology.NodeID, kept bool, port int32) {
	c := j.contacts[n]
	switch {
	case kept:
		c.keeps, c.port = t, port
	case c.keeps == t:
		c.keeps, c.port = topology.Token{}, 0
	}
	if !kept && t == j.heir.from {
		j.barHeir(ctx)
	}
}

// awaitsHeir reports whether an ended attempt whose exits are all known stays open, because an heir may follow it. Its
// end may be in the same write. A node that has not been heard since a takeover may keep the resources.
func (j *Job) awaitsHeir(d *draft) bool {
	h, token := &j.heir, messages.FromToken(d.att.Token)
	if d.att.End.GetHoldMs() == 0 || !d.ended && (h.barred || h.from != token) || d.rec.Cancel != nil ||
		j.kept() || j.beginsIn() > 0 || j.limitFrom != 0 && j.timeIsUp() {
		return false
	}
	for _, p := range d.att.Places {
		if c := j.contacts[topology.NodeID(p.Node)]; !c.up || c.incarnation != nil && c.keeps != token {
			return false
		}
	}
	return true
}

// askHeir requests an heir from the Scheduler after the delay, if all nodes keep the resources.
func (j *Job) askHeir(ctx actor.Context) {
	h := &j.heir
	if h.from.IsZero() || h.asked || h.barred || !j.states.In(jobStopping) || j.p.Clock.Now() < h.due {
		return
	}
	for _, p := range j.att.Places {
		if j.contacts[topology.NodeID(p.Node)].keeps != h.from || p.Exit == nil {
			return
		}
	}
	h.asked = true
	targets := j.planOf(&messages.AttemptRecord{Places: placesOfHeir(j.att)}).Targets
	ctx.Send(j.peers.Scheduler, protocol.Inherit{Job: j.id, From: h.from, Targets: targets})
}

func (j *Job) onHeir(ctx actor.Context, m protocol.Heir) {
	switch {
	case m.Token.IsZero():
		if m.From == j.heir.from {
			j.barHeir(ctx)
		}
	case m.From == j.heir.from && j.states.In(jobStopping) && !j.heir.barred && j.heir.next == nil:
		j.met, j.heir.next = m.Token, &m
		j.advance(ctx)
	default:
		j.declineHeir(ctx, m.Token)
	}
}

// declineHeir returns the claim of an heir that will not be committed.
func (j *Job) declineHeir(ctx actor.Context, t topology.Token) {
	ctx.Send(j.peers.Scheduler, protocol.Declined{Token: t,
		Targets: j.planOf(&messages.AttemptRecord{Places: placesOfHeir(j.last)}).Targets})
}

// draftHeir adds COMMIT of the heir to a write. The ended attempt is closed with it: the failure counts as usual.
func (j *Job) draftHeir(d *draft) {
	a, now := d.att, j.p.Clock.Now()
	if judged := j.judgeAgain(a); judged != a {
		a = judged
		d.touch(a)
	}
	if v := a.Verdict; v != nil {
		d.rec.LastFailure, j.heir.class = v.Brief(), v.Class
	}
	d.rec.RanMs += a.End.RanMs
	if charged(a) {
		d.rec.Failures++
	} else {
		d.rec.InfraRestarts++
	}
	d.rec.PrepareFailures, d.rec.PrepareFailedOn = 0, nil
	d.rec.Attempt = messages.ToToken(j.heir.next.Token)
	d.rec.Runs++
	d.rec.NotBeforeUnixMs = 0
	next := &messages.AttemptRecord{
		Job: string(j.id), Token: d.rec.Attempt, Run: d.rec.Runs, Places: placesOfHeir(a),
		Rendezvous: j.meetingOfHeir(a), CommittedUnixMs: j.p.Clock.WallMs(), Inherited: &messages.Inherited{
			From: a.Token, Generation: a.Inherited.GetGeneration() + 1, Cause: a.End.Detail, Rank: a.End.Rank,
		}, InPlaceMs: wholeMs(now.Since(j.limitFrom)), QuickRestarts: 1,
		StoppingMs: wholeMs(now.Since(j.heir.ended)),
	}
	if actors.Millis(a.End.RanMs) < j.p.Constants.InPlaceQuick {
		next.QuickRestarts += a.QuickRestarts
	}
	d.att, d.committed = next, true
	d.touch(next)
}

// placesOfHeir returns the places of an ended attempt without its exits.
func placesOfHeir(a *messages.AttemptRecord) []*messages.Place {
	places := make([]*messages.Place, len(a.Places))
	for i, p := range a.Places {
		places[i] = p.Revise()
		places[i].Exit = nil
	}
	return places
}

// meetingOfHeir returns the rendezvous of an heir: the same list of members at another port. An invalid port of a node
// is ignored.
func (j *Job) meetingOfHeir(a *messages.AttemptRecord) *messages.Rendezvous {
	meet := actors.CopyOf(a.Rendezvous)
	if port := j.contacts[topology.NodeID(a.Places[0].Node)].port; port >= 1 && port <= 65_535 {
		meet.Port = port
	}
	return meet
}

// afterHeir brings an heir whose COMMIT is on disk to its barrier. The time limit counts on from the first attempt in
// this place.
func (j *Job) afterHeir(ctx actor.Context) {
	j.placeFrom = j.limitFrom
	j.p.Host.Count(CountRestarted+verdict.Word(j.heir.class), 1)
	j.p.Host.Took(TookRestart+stepStopping, actors.Millis(j.att.StoppingMs))
	j.restartFrom, j.decided = j.heir.ended, j.p.Clock.Now()
	j.heir = heirship{}
	j.begunBefore, j.ranBefore, j.begun, j.startBy, j.ready = false, false, 0, 0, 0
	j.beginWatch(false)
	j.states.Become("inherited", jobStarting)
	log := actors.About(j.p.Log, actors.FieldAttempt, messages.FromToken(j.att.Token).String)
	log.Info("Job %s restarts in place on Nodes [%s]", j.id, nodeList(j.att))
	j.coordinate(ctx, j.planOf(j.att))
	j.armTimeLimit(ctx, j.limitFrom)
	if m := j.moved; m != nil {
		j.moved = nil
		j.finish(ctx, m.Cause, m.Detail, m.Node)
	}
}

// tookRestart measures a restart in place at its barrier. One that an earlier leader decided is not measured.
func (j *Job) tookRestart(now actors.Instant) {
	if j.restartFrom == 0 {
		return
	}
	j.p.Host.Took(TookRestart+stepStarting, now.Since(j.decided))
	j.p.Host.Took(TookRestart+stepAll, now.Since(j.restartFrom))
	j.restartFrom = 0
}

// stopHeir gives up a restart in place because of a drain, a faulty device or a preemption. An heir whose COMMIT is on
// its way to disk ends at once.
func (j *Job) stopHeir(ctx actor.Context, m protocol.MoveOff) {
	j.moved = &m
	j.barHeir(ctx)
}

// closeHeirless tells the nodes and the Scheduler that an attempt for which resources were kept is closed.
func (j *Job) closeHeirless(ctx actor.Context, a *messages.AttemptRecord) {
	if next := j.heir.next; next != nil {
		j.declineHeir(ctx, next.Token)
	}
	if a.GetEnd().GetHoldMs() > 0 {
		ctx.Send(j.peers.Scheduler, protocol.Heirless{Job: j.id, Token: messages.FromToken(a.Token),
			Ran: actors.Millis(a.InPlaceMs + a.End.RanMs)})
	}
	last := ""
	for _, p := range a.Places {
		if p.Node != last && j.inPlace(a) {
			last = p.Node
			j.forgetAt(ctx, a, topology.NodeID(p.Node))
		}
	}
	j.heir = heirship{}
}

// inPlace reports whether the nodes keep an attempt's exits until it is closed, because they may keep its resources.
func (j *Job) inPlace(a *messages.AttemptRecord) bool {
	return j.rec.Spec.GetRestart().GetInPlace() && a.StartedUnixMs != 0
}

// keepsExits reports whether a node must not forget its part of an attempt yet: the attempt is open, or its heir takes
// the resources over.
func (j *Job) keepsExits(a *messages.AttemptRecord) bool {
	if j.att == nil || !j.rec.Spec.GetRestart().GetInPlace() {
		return false
	}
	t := messages.FromToken(a.Token)
	return t == messages.FromToken(j.att.Token) && j.inPlace(j.att) || t == messages.FromToken(j.att.Inherited.GetFrom())
}

// countedFrom returns the moment from which the time limit of an attempt counts: its own barrier, or that of the first
// attempt in this place.
func (j *Job) countedFrom(passed actors.Instant) actors.Instant {
	switch {
	case j.att.Inherited == nil:
		return passed
	case j.placeFrom != 0:
		return j.placeFrom
	}
	return passed.Plus(-actors.Millis(j.att.InPlaceMs + j.att.PreparingMs))
}
