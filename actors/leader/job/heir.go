package job

import (
	"slices"
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
	CountSwapped   = "restart.swapped"   // nodes
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
	places *protocol.Granted     // of a swap whose new nodes have reserved
	gone   []string              // the nodes for which the Scheduler seeks others
	fenced actors.Instant        // end of the wait for tasks on lost nodes for which there is a timer
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
	if !rec.Spec.GetRestart().GetInPlace() || a.StartedUnixMs == 0 || rec.Cancel != nil || j.kept() ||
		a.Pending != nil || !j.mayKeep(a, end) {
		return 0
	}
	switch {
	case a.Verdict.GetRepeated(), failedItself(a, end) && rec.Failures >= rec.Spec.GetRestart().GetLimit(),
		!failedItself(a, end) && int(rec.InfraRestarts) >= j.p.Constants.InfraRestarts:
		return 0
	}
	return j.heirDelay(rec, a, end) + j.swapTime(rec, a, end) + j.p.Constants.InPlaceHold
}

// failedItself reports whether the end of an attempt counts against the job's own limit of restarts.
func failedItself(a *messages.AttemptRecord, end *messages.End) bool {
	return end.GetCause() == messages.Cause_CAUSE_MEMBER_FAILED && charged(a)
}

// mayKeep reports whether the nodes of an attempt may keep its resources: all of them, or the rest if others can be
// replaced.
func (j *Job) mayKeep(a *messages.AttemptRecord, end *messages.End) bool {
	if end.Cause != messages.Cause_CAUSE_MEMBER_FAILED && !replaces(end.Cause) {
		return false
	}
	kept, all := 0, 0
	for _, p := range partsOf(a) {
		all++
		if c := j.contacts[p.node]; c.up && c.vocabulary >= messages.VocabularyInPlace && !leaves(a, end, p.node) {
			kept++
		}
	}
	return kept == all || kept > 0 && maySwap(a)
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
	if delay > 0 {
		j.holdOn(ctx)
	}
	j.p.Clock.After(delay, ctx.Self(), heirDue{From: j.heir.from})
	over := actors.Millis(j.att.End.HoldMs)
	if hold := j.p.Constants.InPlaceHold; over > delay+hold { // the nodes still keep the resources then
		over -= hold
	}
	j.p.Clock.After(over, ctx.Self(), heirDue{j.heir.from, true})
}

// holdOn tells the nodes how long they keep the resources. A node whose tasks all ended by themselves has got no Stop.
func (j *Job) holdOn(ctx actor.Context) {
	for _, p := range partsOf(j.att) {
		if j.contacts[p.node].keeps == j.heir.from {
			j.stopAt(ctx, j.att, p.node)
		}
	}
}

// holdLeft returns how long a Stop asks a node to keep the resources of an ended attempt.
func (j *Job) holdLeft(a *messages.AttemptRecord, n topology.NodeID) int64 {
	if j.heir.barred || leaves(a, a.End, n) || j.heir.from.IsZero() || j.heir.from != messages.FromToken(a.Token) {
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
	if j.heir.from.IsZero() || j.heir.barred || j.heir.next != nil && !j.heirOpen() {
		return
	}
	j.dropHeir(ctx)
	j.heir.barred = true
	j.advance(ctx)
}

// noteKept notes whether a node keeps the resources of an ended attempt.
func (j *Job) noteKept(ctx actor.Context, t topology.Token, n topology.NodeID, kept bool, port int32) {
	c := j.contacts[n]
	had := c.keeps == t
	switch {
	case kept:
		c.keeps, c.port = t, port
	case c.keeps == t:
		c.keeps, c.port = topology.Token{}, 0
	}
	switch {
	case kept || t != j.heir.from:
	case maySwap(j.att):
		if had {
			j.dropHeir(ctx)
		}
	default:
		j.barHeir(ctx)
	}
}

// awaitsHeir reports whether an ended attempt whose exits are all known stays open, because an heir may follow it. Its
// end may be in the same write. A node that has not been heard since a takeover may keep the resources.
func (j *Job) awaitsHeir(d *draft) bool {
	h, token := &j.heir, messages.FromToken(d.att.Token)
	if d.att.End.GetHoldMs() == 0 || !d.ended && (h.barred || h.from != token) || d.rec.Cancel != nil ||
		j.kept() || j.beginsIn() > 0 || j.limitFrom != 0 && j.timeIsUp() || finishedByItself(d.att) {
		return false
	}
	kept := 0
	for _, p := range partsOf(d.att) {
		switch c := j.contacts[p.node]; {
		case c.up && (c.incarnation == nil || c.keeps == token):
			kept++
		case !maySwap(d.att):
			return false
		}
	}
	return kept > 0
}

// askHeir requests an heir from the Scheduler after the delay, if every reachable node has confirmed all exits.
func (j *Job) askHeir(ctx actor.Context) {
	h := &j.heir
	if h.from.IsZero() || h.asked || h.barred || !j.states.In(jobStopping) || j.p.Clock.Now() < h.due ||
		j.owesReachable() || j.fences(ctx) {
		return
	}
	parts, kept := partsOf(j.att), 0
	for _, p := range parts {
		switch c := j.contacts[p.node]; {
		case c.up && (c.incarnation == nil || !p.gone):
			return
		case c.up && c.keeps == h.from:
			kept++
		}
	}
	if kept == len(parts) || kept > 0 && maySwap(j.att) {
		h.asked = true
		j.requestHeir(ctx, parts)
	}
}

// requestHeir sends the request, with the nodes that keep the resources and those that must be replaced.
func (j *Job) requestHeir(ctx actor.Context, parts []part) {
	h := &j.heir
	h.gone = nil
	asks := protocol.Inherit{Job: j.id, From: h.from, Swaps: maySwap(j.att)}
	for i, t := range j.planOf(&messages.AttemptRecord{Places: placesOfHeir(j.att)}).Targets { // in the order of parts
		if c := j.contacts[parts[i].node]; c.up && c.keeps == h.from {
			asks.Kept = append(asks.Kept, t)
		} else {
			asks.Gone = append(asks.Gone, t)
			h.gone = append(h.gone, string(t.Node))
		}
	}
	ctx.Send(j.peers.Scheduler, asks)
	if len(h.gone) > 0 {
		j.holdOn(ctx)
		j.show(ctx)
	}
}

func (j *Job) onHeir(ctx actor.Context, m protocol.Heir) {
	switch h := &j.heir; {
	case m.Token.IsZero():
		if m.From == h.from {
			j.barHeir(ctx)
		}
	case m.From == h.from && j.states.In(jobStopping) && !h.barred && h.next == nil && h.asked:
		h.next = &m
		if len(m.Targets) > 0 {
			j.swap(ctx)
		}
		j.advance(ctx)
	default:
		j.declineHeir(ctx, m)
	}
}

// declineHeir returns the claims of an heir that will not be committed.
func (j *Job) declineHeir(ctx actor.Context, m protocol.Heir) {
	ctx.Send(j.peers.Scheduler, protocol.Declined{Job: j.id, Token: m.Token, Targets: slices.DeleteFunc(m.Targets,
		func(t protocol.Target) bool { return t.Kept })})
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
	if failedItself(a, a.End) {
		d.rec.Failures++
	} else {
		d.rec.InfraRestarts++
	}
	d.rec.PrepareFailures, d.rec.PrepareFailedOn = 0, nil
	d.rec.Attempt = messages.ToToken(j.heir.next.Token)
	d.rec.Runs++
	d.rec.NotBeforeUnixMs = 0
	places, meet, spares := placesOfHeir(a), j.meetingOfHeir(a), a.Spares
	if j.heir.places != nil {
		places, meet, spares = j.heir.places.Places, j.heir.places.Meet, j.heir.next.Spares
		d.owed = append(d.owed, a) // settleOwed drops it if nothing is unconfirmed
	}
	next := &messages.AttemptRecord{
		Job: string(j.id), Token: d.rec.Attempt, Run: d.rec.Runs, Places: places,
		Rendezvous: meet, CommittedUnixMs: j.p.Clock.WallMs(), Inherited: j.inherits(a),
		InPlaceMs: wholeMs(now.Since(j.limitFrom)), QuickRestarts: 1, StoppingMs: wholeMs(now.Since(j.heir.ended)),
		Spares: spares,
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
	meet.Port = j.portOfHeir(a)
	return meet
}

// portOfHeir returns the port for rank 0 on the node that it keeps.
func (j *Job) portOfHeir(a *messages.AttemptRecord) int32 {
	if port := j.contacts[topology.NodeID(a.Places[0].Node)].port; port >= 1 && port <= 65_535 {
		return port
	}
	return a.Rendezvous.GetPort()
}

// afterHeir brings an heir whose COMMIT is on disk to its barrier. The time limit counts on from the first attempt in
// this place.
func (j *Job) afterHeir(ctx actor.Context, was *messages.AttemptRecord) {
	j.placeFrom, j.met = j.limitFrom, messages.FromToken(j.att.Token)
	swapped := j.heir.places != nil
	j.p.Host.Count(CountRestarted+verdict.Word(j.heir.class), 1)
	if n := len(j.att.Inherited.Swapped); n > 0 {
		j.p.Host.Count(CountSwapped, int64(n))
	}
	j.p.Host.Took(TookRestart+stepStopping, actors.Millis(j.att.StoppingMs))
	j.restartFrom, j.decided = j.heir.ended, j.p.Clock.Now()
	j.heir = heirship{}
	j.begunBefore, j.ranBefore, j.begun, j.startBy, j.ready = false, false, 0, 0, 0
	j.beginWatch(false)
	j.states.Become("inherited", jobStarting)
	log := actors.About(j.p.Log, actors.FieldAttempt, messages.FromToken(j.att.Token).String)
	log.Info("Job %s restarts in place on Nodes [%s]", j.id, nodeList(j.att))
	j.passOn(ctx, was)
	if swapped {
		ctx.Send(j.coordinator, protocol.Decided{})
	} else {
		j.coordinate(ctx, j.planOf(j.att))
	}
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

// stopHeir gives up a restart in place because of a preemption, or of a drain or a faulty device if the node cannot be
// replaced. An heir whose COMMIT is on its way to disk ends at once.
func (j *Job) stopHeir(ctx actor.Context, m protocol.MoveOff) {
	switch {
	case j.heir.next != nil && !j.heirOpen():
		j.moved = &m
	case m.Node != "" && maySwap(j.att):
		j.dropHeir(ctx)
		j.advance(ctx)
	default:
		j.barHeir(ctx)
	}
}

// closeHeirless tells the nodes and the Scheduler that an attempt for which resources were kept is closed.
func (j *Job) closeHeirless(ctx actor.Context, a *messages.AttemptRecord) {
	j.dropHeir(ctx)
	if a.GetEnd().GetHoldMs() > 0 {
		ctx.Send(j.peers.Scheduler, protocol.Heirless{Job: j.id, Token: messages.FromToken(a.Token),
			Ran: actors.Millis(a.InPlaceMs + a.End.RanMs)})
	}
	if j.inPlace(a) {
		for _, p := range partsOf(a) {
			j.forgetAt(ctx, a, p.node)
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
func (j *Job) keepsExits(a *messages.AttemptRecord, n topology.NodeID) bool {
	if j.att == nil || !j.rec.Spec.GetRestart().GetInPlace() {
		return false
	}
	t := messages.FromToken(a.Token)
	return t == messages.FromToken(j.att.Token) && j.inPlace(j.att) || j.passesOn(t, n)
}

// passesOn reports whether the current attempt uses a node again from which an earlier one passed its resources on.
func (j *Job) passesOn(t topology.Token, n topology.NodeID) bool {
	h := j.att.GetInherited()
	return h != nil && t == messages.FromToken(h.From) &&
		slices.ContainsFunc(j.att.Places, func(p *messages.Place) bool { return p.Node == string(n) })
}

// passedOn reports whether a node is about to pass the resources of an ended attempt to its heir.
func (j *Job) passedOn(t topology.Token, n topology.NodeID) bool {
	return j.att != nil && j.att.End == nil && j.passesOn(t, n)
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
