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

// This file owns when the leader closes a machine by itself: for what is the
// machine's fault, and never for what a job named.

const (
	// closer is in whose name a machine is closed that closes itself.
	closer = "synapse"
	// poolShare: of so many machines with one GPU type, one may be closed by the leader; and one in any case. When more of
	// them fail it is hardly the machines, and their jobs are told.
	poolShare = 10
	// maxDoubts bounds what is kept of one machine.
	maxDoubts = 32
)

// doubt is a job's failure on a machine that may be the fault of either.
type doubt struct{ spec, owner string }

// avoided is a machine on which a job failed, by a fault that may be the job's:
// that job looks elsewhere until then, and everyone else may use the machine.
type avoided struct {
	node  topology.NodeID
	until actors.Instant
}

// onLaunchFailed leaves the machine out, and after some failures closes it.
// Failures in a row that are the machine's fault close it as they did before
// machines said whose fault a failure is. Where the fault is not known the machine
// is left out for that job alone, and what closes it must be failures of different
// jobs, and of different owners where there are several: one job's mistyped path
// fails everywhere, and so do all of one person's.
func (s *capacity) onLaunchFailed(ctx actor.Context, m protocol.LaunchFailed) {
	who := s.machines[m.Node]
	if who == nil {
		return
	}
	broken := false
	if m.Fault == messages.Fault_FAULT_MACHINE {
		broken = who.fails(m.Detail, s.p.Constants.LaunchFailures)
		s.bench(ctx, who, m.Detail)
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

// fails counts a failure that is the machine's own fault, and reports whether it was the last that closes it. A disk
// that is full is not counted: the machine is left out for longer each time, and takes work again when there is space.
// It is known by the kernel's words, which agents of all versions report.
func (m *machine) fails(detail string, most int) bool {
	if strings.Contains(detail, noSpace) {
		return false
	}
	m.launchFailed++
	return m.launchFailed >= most
}

// noSpace is ENOSPC in words.
const noSpace = "no space left on device"

// avoid has a job look elsewhere for a while.
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
	gang, now := intake.GangFor(s.view.Fabric(), e.rec.GetOwner(), spec), s.p.Clock.Now()
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
	if possible, _ := topology.Feasible(s.view.Fabric(), less); !possible {
		return gang, 0
	}
	return less, next.Since(now)
}

// onLookAgain has a job that still waits look at a machine again that it avoided, or
// leave one out that closes.
func (s *drains) onLookAgain(ctx actor.Context, m lookAgain) {
	if e := s.jobs[m.Job]; e != nil && e.looks == m.Seq {
		s.lookAgain(ctx, e)
	}
}

// doubt notes a failure on a machine. What fails in the same words on a second
// one is the fault of the job, and counts against neither.
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

// convicted reports whether doubts enough of different kinds have met on a machine.
func (s *jobTable) convicted(who *machine) bool {
	if len(who.doubts) < s.p.Constants.LaunchFailures {
		return false
	}
	first := who.doubts[0].owner
	return !s.owners.several || slices.ContainsFunc(who.doubts, func(d doubt) bool { return d.owner != first })
}

// owners is whether jobs of more than one owner have been seen: those that live at
// the moment may all be of the one whose mistakes are being judged.
type owners struct {
	last    string
	some    bool
	several bool
}

func (o *owners) see(owner string) {
	o.several = o.several || o.some && o.last != owner
	o.last, o.some = owner, true
}

// mayClose reports whether the pool can do without one more machine.
func (s *nodeTable) mayClose(who *machine) bool {
	closed, pool := s.countLike(who, func(m *machine) bool { return m.record.Cordoned.GetBy().GetName() == closer })
	return closed < max(pool/poolShare, 1)
}

// countLike counts the machines with a machine's type of GPU, and those of them that are of some kind.
func (s *nodeTable) countLike(who *machine, is func(*machine) bool) (some, all int) {
	kind := gpuTypeOf(who)
	for _, m := range s.order {
		if m.record == nil || m.record.Removed != nil || gpuTypeOf(m) != kind { // one that was only seen does not count yet
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

// What follows owns how many machines may be closed by the checks of their own health. A machine says that a check
// failed, and is closed until it says that it is well: nobody has to open it again, and a next leader is told the
// same. But a check can be wrong, and a wrong one is wrong everywhere at once: whoever installs it would have drained
// the fleet. So of machines with one GPU type only a twentieth are closed by checks at one time. Beyond that the
// leader says so, and goes on placing gangs there, despite what the machines say.

// unwellShare: of so many machines with one GPU type, one may be closed by its checks; and one in any case.
const unwellShare = 20

// health says what the checks of a node mean for it.
type health uint8

const (
	healthFine    health = iota // no check has failed, as far as it says
	healthClosed                // nothing new goes there
	healthExcused               // too many others say the same: gangs are placed there all the same
)

// CountUnwell counts machines that were closed by their checks, and CountExcused those that too many others kept open.
const (
	CountUnwell  = "scheduler.unwell"
	CountExcused = "scheduler.unwell_excused"
)

// weighHealth looks at what a machine says of its health. When one is well again, one that was excused may be closed in
// its stead.
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

// sentence closes a machine whose check failed, or excuses it.
func (s *nodeTable) sentence(m *machine) {
	words := m.ledger.GetUnwell()
	if s.mayHoldUnwell(m) {
		m.health = healthClosed
		s.p.Host.Count(CountUnwell, 1)
		s.p.Log.Info("UNHEALTHY: %s takes no new work: %s", m.id, words)
		return
	}
	if m.health != healthExcused {
		m.health = healthExcused
		s.p.Host.Count(CountExcused, 1)
		s.p.Log.Info("UNHEALTHY: %s stays schedulable, because checks fail on more than 1 of %d nodes with "+
			"its GPU type; drain it if the check is right: %s", m.id, unwellShare, words)
	}
}

// weighOthers closes the first of the machines like one that is well again, if a check fails there.
func (s *capacity) weighOthers(ctx actor.Context, well *machine) {
	for _, m := range s.order {
		if m.health != healthExcused || !m.up || gpuTypeOf(m) != gpuTypeOf(well) {
			continue
		}
		if !s.mayHoldUnwell(m) {
			return
		}
		s.sentence(m)
		s.refresh(ctx, m)
	}
}

// forgetHealth: a machine that cannot be reached holds no place among those that are closed. It says what it has found
// when it returns.
func (s *capacity) forgetHealth(ctx actor.Context, m *machine) {
	before := m.health
	if m.health = healthFine; before == healthClosed {
		s.weighOthers(ctx, m)
	}
}

// mayHoldUnwell reports whether the pool can do without one more machine.
func (s *nodeTable) mayHoldUnwell(who *machine) bool {
	closed, pool := s.countLike(who, func(m *machine) bool { return m.health == healthClosed })
	return closed < max(pool/unwellShare, 1)
}
