package scheduler

import (
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/intake"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns when the leader closes a node by itself: for the node's own faults, and never for faults of a job.

const (
	// closer is the name under which the leader closes nodes.
	closer = "synapse"
	// poolShare limits the nodes that the leader may close: one in ten nodes of a GPU type, and at least one. If more
	// nodes fail, the nodes are probably not the cause, and the jobs get the failure.
	poolShare = 10
	// maxDoubts limits the failures that are kept for one node.
	maxDoubts = 32
)

// doubt is a job's failure on a node, caused by either of them.
type doubt struct{ spec, owner string }

// avoided is a node on which a job failed, possibly by the job's fault. The job avoids the node until then, and other
// jobs may use it.
type avoided struct {
	node  topology.NodeID
	until actors.Instant
}

// onLaunchFailed backs off the node, and closes it after several failures. Consecutive failures by the node's fault
// close it. If the fault is unknown, only this job avoids the node. Such failures close the node only if they come from
// different jobs, and from different owners if there are several. A mistyped path of one job fails on every node, and
// so do all jobs of one user with that path.
func (s *capacity) onLaunchFailed(ctx actor.Context, m protocol.LaunchFailed) {
	who := s.machines[m.Node]
	if who == nil {
		return
	}
	broken := false
	if m.Fault == messages.Fault_FAULT_MACHINE {
		broken = who.fails(m.Detail, s.p.Constants.LaunchFailures)
		s.backOff(ctx, who, m.Detail)
		s.refresh(ctx, who)
	} else {
		s.doubt(who, doubt{m.Spec, m.Owner})
		broken = s.convicted(who)
		s.avoid(m)
	}
	if broken && s.mayClose(who) {
		s.close(ctx, who, "launches fail: "+m.Detail)
	}
}

// fails counts a failure by the node's fault, and reports whether it is the last one before the node is closed. A full
// disk does not count: the node is backed off for longer each time, and works again when there is space. The kernel's
// error text identifies this case, because agents of all versions report it.
func (m *machine) fails(detail string, most int) bool {
	if strings.Contains(detail, noSpace) {
		return false
	}
	m.launchFailed++
	return m.launchFailed >= most
}

// noSpace is the text of ENOSPC.
const noSpace = "no space left on device"

// avoid makes a job avoid a node for a while.
func (s *jobTable) avoid(m protocol.LaunchFailed) {
	if e := s.jobs[m.Job]; e != nil {
		e.avoids = slices.DeleteFunc(e.avoids, func(a avoided) bool { return a.node == m.Node })
		e.avoids = append(e.avoids, avoided{m.Node, s.p.Clock.Now().Plus(m.Rest)})
	}
}

// gangOf returns the request of a job, with the nodes that it avoids and those that close too early for it. It computes
// the request again if one of these nodes has changed.
func (s *drains) gangOf(ctx actor.Context, e *livingJob, spec *messages.JobSpec) topology.Gang {
	gang, next := s.avoiding(e, spec)
	closing, later := s.closingFor(spec)
	gang.Closing = closing
	if later > 0 && (next == 0 || later < next) {
		next = later
	}
	if e.looks++; next > 0 {
		s.p.Clock.After(next, ctx.Self(), lookAgain{e.id, e.looks})
	}
	return gang
}

// avoiding returns the request of a job without the nodes that it avoids, and for how long that holds. If the job could
// never be placed without them, it avoids none.
func (s *nodeTable) avoiding(e *livingJob, spec *messages.JobSpec) (topology.Gang, time.Duration) {
	gang, now := intake.GangFor(s.view.Tree(), e.rec.GetOwner(), spec), s.p.Clock.Now()
	e.avoids = slices.DeleteFunc(e.avoids, func(a avoided) bool { return a.until <= now })
	if len(e.avoids) == 0 {
		return gang, 0
	}
	less := gang
	next := e.avoids[0].until
	for _, a := range e.avoids {
		less.Avoid = append(less.Avoid, a.node)
		next = min(next, a.until)
	}
	if possible, _ := topology.Feasible(s.view.Tree(), less); !possible {
		return gang, 0
	}
	return less, next.Since(now)
}

// onLookAgain updates the avoided nodes of a waiting job: an avoidance has ended, or a node closes too early for it by
// now.
func (s *drains) onLookAgain(ctx actor.Context, m lookAgain) {
	if e := s.jobs[m.Job]; e != nil && e.looks == m.Seq {
		s.lookAgain(ctx, e)
	}
}

// doubt records a failure on a node. If the same failure occurs on a second node, it is the job's fault and counts
// against neither node.
func (s *nodeTable) doubt(who *machine, d doubt) {
	elsewhere := false
	for _, other := range s.machines { //order: each is looked at for itself
		if i := slices.Index(other.doubts, d); i >= 0 && other != who {
			other.doubts = slices.Delete(other.doubts, i, i+1)
			elsewhere = true
		}
	}
	if !elsewhere && !slices.Contains(who.doubts, d) && len(who.doubts) < maxDoubts {
		who.doubts = append(who.doubts, d)
	}
}

// convicted reports whether enough different failures have occurred on a node.
func (s *jobTable) convicted(who *machine) bool {
	if len(who.doubts) < s.p.Constants.LaunchFailures {
		return false
	}
	first := who.doubts[0].owner
	return !s.owners.several || slices.ContainsFunc(who.doubts, func(d doubt) bool { return d.owner != first })
}

// owners records whether jobs of more than one owner have been seen. The present jobs alone could all belong to the
// owner whose mistakes are being judged.
type owners struct {
	last    string
	some    bool
	several bool
}

func (o *owners) see(owner string) {
	o.several = o.several || o.some && o.last != owner
	o.last, o.some = owner, true
}

// mayClose reports whether the pool can lose one more node.
func (s *nodeTable) mayClose(who *machine) bool {
	closed, pool := s.countLike(who, func(m *machine) bool { return m.record.Cordoned.GetBy().GetName() == closer })
	return closed < max(pool/poolShare, 1)
}

// countLike counts the nodes with the same GPU type as a node, and those among them for which the function returns
// true.
func (s *nodeTable) countLike(who *machine, is func(*machine) bool) (some, all int) {
	kind := gpuTypeOf(who)
	for _, m := range s.order {
		if m.record == nil || m.record.Removed != nil || gpuTypeOf(m) != kind { // a node that was only seen does not count
			continue
		}
		if all++; is(m) {
			some++
		}
	}
	return some, all
}

func gpuTypeOf(m *machine) string {
	if gpus := m.record.GetAnnouncement().GetGpus(); len(gpus) > 0 {
		return gpus[0].Type
	}
	return ""
}

// The rest of this file owns how many nodes may be closed by their own health checks. A node that reports a failed
// check is closed until it reports success. No operator action is needed, and the next leader gets the same report. A
// wrong check, however, fails on all nodes at once and would drain the entire cluster. Therefore at most one node in
// twenty of a GPU type is closed by checks at a time. Beyond that, the leader logs the problem and continues to place
// gangs on these nodes despite their reports.

// unhealthyShare limits the nodes that their checks may close: one in twenty nodes of a GPU type, and at least one.
const unhealthyShare = 20

// health is the effect of a node's health checks.
type health uint8

const (
	healthFine    health = iota // no check has failed, according to the node
	healthClosed                // the node gets no new work
	healthExcused               // too many others fail too: the node gets work anyway
)

// CountUnhealthy counts nodes that their checks closed. CountExcused counts those that stayed open because too many
// others failed too.
const (
	CountUnhealthy = "scheduler.unwell"
	CountExcused   = "scheduler.unwell_excused"
)

// weighHealth applies a node's report of its health. When a node is healthy again, an excused one may be closed
// instead.
func (s *capacity) weighHealth(ctx actor.Context, m *machine) {
	words, before := m.ledger.GetUnwell(), m.health
	switch {
	case words == "":
		m.health = healthFine
		if before == healthClosed {
			s.p.Log.Info("%s is healthy again", m.id)
			s.weighOthers(ctx, m)
		}
	case before == healthFine:
		s.sentence(m)
	}
}

// sentence closes a node with a failed check, or excuses it.
func (s *nodeTable) sentence(m *machine) {
	words := m.ledger.GetUnwell()
	if s.mayHoldUnhealthy(m) {
		m.health = healthClosed
		s.p.Host.Count(CountUnhealthy, 1)
		s.p.Log.Info("UNHEALTHY: %s takes no new work: %s", m.id, words)
		return
	}
	if m.health != healthExcused {
		m.health = healthExcused
		s.p.Host.Count(CountExcused, 1)
		s.p.Log.Info("UNHEALTHY: %s stays schedulable, because checks fail on more than 1 of %d nodes with "+
			"its GPU type; drain it if the check is right: %s", m.id, unhealthyShare, words)
	}
}

// weighOthers closes the first excused node with the same GPU type as a node that is healthy again.
func (s *capacity) weighOthers(ctx actor.Context, well *machine) {
	for _, m := range s.order {
		if m.health != healthExcused || !m.up || gpuTypeOf(m) != gpuTypeOf(well) {
			continue
		}
		if !s.mayHoldUnhealthy(m) {
			return
		}
		s.sentence(m)
		s.refresh(ctx, m)
	}
}

// forgetHealth removes an unreachable node from the closed ones. The node reports its checks when it returns.
func (s *capacity) forgetHealth(ctx actor.Context, m *machine) {
	before := m.health
	if m.health = healthFine; before == healthClosed {
		s.weighOthers(ctx, m)
	}
}

// mayHoldUnhealthy reports whether the pool can lose one more node.
func (s *nodeTable) mayHoldUnhealthy(who *machine) bool {
	closed, pool := s.countLike(who, func(m *machine) bool { return m.health == healthClosed })
	return closed < max(pool/unhealthyShare, 1)
}
