package job

import (
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns swaps: a restart in place in which other nodes replace the lost ones. The Scheduler claims the new
// nodes, and a Coordinator reserves them while the other nodes keep their resources. COMMIT of the heir comes when the
// new nodes have reserved and every reachable node has confirmed its exits. What lost nodes have not confirmed becomes
// a debt, as after any other attempt.

// replaces reports whether other nodes may replace some of the nodes after an end with this cause.
func replaces(c messages.Cause) bool {
	switch c {
	case messages.Cause_CAUSE_MACHINE_LOST, messages.Cause_CAUSE_REBOOTED, messages.Cause_CAUSE_GPU_FAULT,
		messages.Cause_CAUSE_DRAINED:
		return true
	}
	return false
}

// maySwap reports whether nodes of an attempt can be replaced while others stay.
func maySwap(a *messages.AttemptRecord) bool {
	return len(a.GetPlaces()) > 0 && a.Places[0].Node != a.Places[len(a.Places)-1].Node
}

// leaves reports whether a node must be replaced because the end of the attempt was its fault.
func leaves(a *messages.AttemptRecord, end *messages.End, n topology.NodeID) bool {
	if string(n) != end.GetNode() {
		return false
	}
	switch a.Verdict.GetClass() {
	case messages.FailureClass_FAILURE_CLASS_NODE, messages.FailureClass_FAILURE_CLASS_GPU,
		messages.FailureClass_FAILURE_CLASS_NETWORK, messages.FailureClass_FAILURE_CLASS_STORAGE:
		return true
	}
	return replaces(end.Cause)
}

// part holds the ranks of an attempt on one node.
type part struct {
	node topology.NodeID
	gone bool // all their exits are on disk
}

// partsOf returns the parts of an attempt in the order of ranks. The ranks of a node are adjacent.
func partsOf(a *messages.AttemptRecord) (parts []part) {
	for i, p := range a.GetPlaces() {
		if i == 0 || a.Places[i-1].Node != p.Node {
			parts = append(parts, part{topology.NodeID(p.Node), true})
		}
		if p.Exit == nil {
			parts[len(parts)-1].gone = false
		}
	}
	return parts
}

// isGone reports whether all exits of an attempt on a node are on disk.
func isGone(a *messages.AttemptRecord, n topology.NodeID) bool {
	for _, p := range a.Places {
		if p.Node == string(n) && p.Exit == nil {
			return false
		}
	}
	return true
}

// swapTime returns how long the nodes keep the resources for a swap: until tasks on lost nodes have certainly stopped,
// and then as long as the job waits for other nodes.
func (j *Job) swapTime(rec *messages.JobRecord, a *messages.AttemptRecord, end *messages.End) time.Duration {
	if !maySwap(a) {
		return 0
	}
	wait := actors.Millis(rec.Spec.GetRestart().GetSwapWaitMs())
	if wait == 0 {
		wait = j.p.Constants.SwapWait
	}
	if rec.Spec.StopWhenLostMs > 0 {
		wait += fenceWait(rec.Spec, j.p.Constants)
	}
	if end.Cause == messages.Cause_CAUSE_DRAINED {
		wait += actors.GraceOf(rec.Spec, j.p.Constants)
	}
	return wait
}

// fences reports whether tasks on lost nodes may still run although the job asked that they are stopped. A timer then
// continues the restart.
func (j *Job) fences(ctx actor.Context) bool {
	until := max(j.fencedUntil(j.att), j.barredUntil())
	left := until.Since(j.p.Clock.Now())
	if left > 0 && j.heir.fenced != until {
		j.heir.fenced = until
		j.p.Clock.After(left, ctx.Self(), heirDue{From: j.heir.from})
	}
	return left > 0
}

// swap reserves the new nodes.
func (j *Job) swap(ctx actor.Context) {
	h := j.heir.next
	for _, t := range h.Targets {
		if t.Kept {
			continue
		}
		c := j.contact(t.Node, t.MachineID)
		c.drains, c.knows = ending{}, j.warning.number
		if !messages.SameIncarnation(c.incarnation, t.Incarnation) {
			c.version = 0 // versions restart with every start of an agent
		}
		c.machineID, c.incarnation, c.vocabulary, c.up = t.MachineID, t.Incarnation, t.Vocabulary, true
		c.keeps = topology.Token{}
	}
	j.coordinate(ctx, protocol.AttemptPlan{
		Job: j.id, Token: h.Token, Run: j.rec.Runs + 1, Spec: j.rec.Spec, UID: j.rec.Uid, Owner: j.rec.GetOwner(),
		Targets: h.Targets, Before: j.att, Meet: j.portOfHeir(j.att), Inherited: j.inherits(j.att),
	})
}

// inherits returns what the heir of an attempt knows of it.
func (j *Job) inherits(a *messages.AttemptRecord) *messages.Inherited {
	h := &messages.Inherited{
		From: a.Token, Generation: a.Inherited.GetGeneration() + 1, Cause: a.End.Detail, Rank: a.End.Rank,
	}
	before := partsOf(a)
	for i, t := range j.heir.next.Targets { // each target has the ranks of the part with this index
		if !t.Kept {
			h.Swapped = append(h.Swapped, &messages.Swapped{Node: string(before[i].node), By: string(t.Node)})
		}
	}
	return h
}

// showLack adds what a gang waits for that keeps some nodes and has none for the others yet.
func (j *Job) showLack(status *messages.JobStatus) {
	if h := &j.heir; j.states.In(jobStopping) && h.asked && h.next == nil && len(h.gone) > 0 {
		status.Because(messages.WaitResources.Because("no node is free to replace " + strings.Join(h.gone, ", ")))
	}
}

// isSwap reports whether a token is that of the heir whose new nodes reserve now.
func (j *Job) isSwap(t topology.Token) bool {
	return j.states.In(jobStopping) && j.heir.next != nil && len(j.heir.next.Targets) > 0 && j.heir.next.Token == t
}

// heirOpen reports whether there is an heir whose COMMIT is not on its way to disk.
func (j *Job) heirOpen() bool {
	return j.heir.next != nil && j.states.In(jobStopping) && !(j.writing && j.next.committed)
}

// heirReady reports whether COMMIT of the heir can be written. The new nodes of a swap must have reserved.
func (j *Job) heirReady() bool {
	return j.heir.next != nil && (len(j.heir.next.Targets) == 0 || j.heir.places != nil)
}

// dropHeir gives up an heir before COMMIT, or the request for one. The job may ask for another one.
func (j *Job) dropHeir(ctx actor.Context) {
	if j.heirOpen() {
		if j.isSwap(j.heir.next.Token) {
			j.halt(ctx)
		}
		j.heir.next, j.heir.places = nil, nil
	}
	if j.heir.next == nil {
		j.heir.asked = false
	}
}

// reviewHeir gives up an heir that must not be committed any more: a node does not keep the resources, reservations may
// have expired, or a lost node has returned and has not confirmed its exits.
func (j *Job) reviewHeir(ctx actor.Context) {
	if !j.heirOpen() || !j.heirReady() {
		return
	}
	expired := j.heir.places != nil && (j.p.Clock.Now() >= j.heir.places.DecideBy || j.owesReachable())
	if expired || j.cancel != nil || !j.heirFits() {
		j.dropHeir(ctx)
	}
}

// heirFits reports whether the nodes of the ended attempt are still as the heir needs them.
func (j *Job) heirFits() bool {
	targets := j.heir.next.Targets // in the same order, if nodes are replaced
	for i, p := range partsOf(j.att) {
		c, kept := j.contacts[p.node], len(targets) == 0 || targets[i].Kept
		if kept && (!c.up || c.keeps != j.heir.from) || c.up && !p.gone {
			return false
		}
	}
	return true
}

// passOn tells the Scheduler which nodes the heir has taken over, and lets the others forget the attempt before.
func (j *Job) passOn(ctx actor.Context, was *messages.AttemptRecord) {
	told := protocol.Inherited{Job: j.id, From: messages.FromToken(was.Token), Token: messages.FromToken(j.att.Token),
		Targets: j.planOf(j.att).Targets, Spares: j.att.Spares}
	for i, t := range told.Targets {
		told.Targets[i].Kept = j.contacts[t.Node].keeps == told.From
	}
	ctx.Send(j.peers.Scheduler, told)
	for _, p := range partsOf(was) {
		j.forgetAt(ctx, was, p.node)
	}
}
