package worker

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the Node's data of an allocation in addition to the ledger, and the allocation's next step. A change
// that must survive a restart marks its allocation as unsaved. Until the change is on disk, the allocation is shown in
// its last saved state, and nothing new is sent or done for it. A fact therefore cannot be sent and then lost.

// nodeAllocation holds the Node's data of one allocation in the ledger.
type nodeAllocation struct {
	page      *topology.Allocation // the ledger's entry, read only
	wire      *messages.Token      // its token as a message
	spec      *messages.JobSpec    // set at Commit
	uid       uint32               // of its tasks, set at Commit; 0: the leader gave none
	owner     string               // of the job, set at Commit
	proven    bool                 // set at Commit: the owner's name is authenticated
	cause     messages.Cause       // of the Stop
	grace     int64                // of the Stop, in ms
	reserved  actors.Instant       // reservation time by the clock of this boot; 0: an older agent reserved it
	start     *messages.Start      // the Start that this incarnation received
	roster    roster               // the received part of its list
	hold      keeping              // for the job's next attempt
	inherited *messages.Inherited  // the attempt that it continues in place, set at Commit; nil: none
	despite   bool                 // the leader wants it here although checks of the node fail
	asked     bool                 // the launcher was asked to check the node before the preparation …
	checked   bool                 // … and has done so
	unhealthy string               // the failed check because of which its ranks do not start
	notice    notice               // the warning for its tasks
	progress  progressSent         // the progress of its ranks that the leader has
	ranks     []nodeRank           // as in the ledger
	grants    []*messages.Grant    // of the ranks, as messages
	newer     []byte               // fields of its record that a newer agent wrote
	fixed     []byte               // the part of its record that never changes

	unsaved      uint64                   // the change that must be on disk before news are sent; 0: none
	shown        topology.AllocationState // the state that was last sent, or may have been
	startedShown bool
}

// nodeRank holds the Node's data of one rank.
type nodeRank struct {
	rank     topology.Rank
	id       *messages.TaskId // the launcher's name of the task
	pid      *actor.PID       // its Task, from Commit until its exit
	asked    bool             // its Task was asked to prepare it
	adopting bool             // the launcher was asked whether it still runs
	prepared bool
	told     bool // its Task was asked to start it
	started  bool
	began    actors.Instant         // start of its process, by the clock of this boot; 0: unknown or not started
	progress *messages.TaskProgress // last progress from its Task; nil: none
	exit     *messages.Exit
	ended    actors.Instant      // when the Node received the exit
	shown    bool                // the exit was sent, or may have been
	warned   bool                // its Task has received the warning
	saved    *messages.RankSaved // its acknowledgement of the last request to save; nil: none
}

func (n *Node) newAllocation(s *topology.Allocation) *nodeAllocation {
	own := &nodeAllocation{
		page: s, wire: n.wire(s.Token), shown: s.State,
		ranks: make([]nodeRank, len(s.Grants)), grants: messages.Many[messages.Grant](len(s.Grants)),
	}
	for i, g := range s.Grants {
		own.ranks[i] = nodeRank{rank: g.Rank, id: &messages.TaskId{Token: own.wire, Rank: int32(g.Rank)}}
		n.said.grant(g, own.grants[i])
	}
	return own
}

// lastSaid keeps the last amount and devices that were sent. Large gangs use entire nodes, so the same devices are
// repeatedly allocated and freed. Receivers keep messages for a long time, so equal parts are shared.
type lastSaid struct {
	amount  topology.Resources
	sum     *messages.Resources // the same
	devices []topology.Share
	shares  []*messages.GpuShare // the same
}

// grant fills in the resources of a rank.
func (s *lastSaid) grant(g topology.Grant, to *messages.Grant) {
	if s.sum == nil || s.amount != g.Amount {
		s.amount, s.sum = g.Amount, messages.ToResources(g.Amount)
	}
	to.Rank, to.Amount, to.Gpus = int32(g.Rank), s.sum, s.gpus(g.GPUs)
}

func (s *lastSaid) gpus(devices []topology.Share) []*messages.GpuShare {
	if len(devices) == 0 {
		return nil
	}
	if !slices.Equal(s.devices, devices) {
		s.devices, s.shares = devices, messages.ToShares(devices)
	}
	return s.shares
}

func (s *nodeAllocation) rank(r topology.Rank) *nodeRank {
	if i := slices.IndexFunc(s.ranks, func(k nodeRank) bool { return k.rank == r }); i >= 0 {
		return &s.ranks[i]
	}
	return nil
}

// exits returns the exits that may be sent, and the age of each.
func (s *nodeAllocation) exits(now actors.Instant) (all []*messages.Exit, agesMs []int64) {
	for i := range s.ranks {
		if r := &s.ranks[i]; r.exit != nil && r.shown {
			all, agesMs = append(all, r.exit), append(agesMs, r.age(now))
		}
	}
	return all, agesMs
}

// age returns for how many milliseconds the rank's exit has been known. The value is too small if an earlier start of
// this agent already knew the exit.
func (r *nodeRank) age(now actors.Instant) int64 { return now.Since(r.ended).Milliseconds() }

// waits reports whether the rank still has to be prepared.
func (r *nodeRank) waits() bool { return r.exit == nil && !r.asked && !r.adopting && !r.started }

// waits reports whether a rank of the allocation still has to be prepared.
func (s *nodeAllocation) waits() bool {
	return slices.ContainsFunc(s.ranks, func(r nodeRank) bool { return r.waits() })
}

// allPrepared reports whether every rank could start at once, or has started.
func (s *nodeAllocation) allPrepared() bool {
	return !slices.ContainsFunc(s.ranks, func(r nodeRank) bool { return !r.prepared && !r.started && !r.exit.Ran() })
}

// allStarted reports whether every rank has started.
func (s *nodeAllocation) allStarted() bool {
	return !slices.ContainsFunc(s.ranks, func(r nodeRank) bool { return !r.started && !r.exit.Ran() })
}

// ran returns how long all ranks have run, including ended ones. The barrier was passed when the last rank started;
// without the ended ranks, that moment would be wrong. It returns 0 if a start is unknown or a rank has not started.
func (s *nodeAllocation) ran(now actors.Instant) time.Duration {
	last := lastBegan(s.ranks, func(*nodeRank) bool { return true })
	if last == 0 {
		return 0
	}
	return min(max(now.Since(last), time.Millisecond), actors.Millis(messages.MaxDurationMs))
}

// held returns how long the node has held the allocation. It returns 0 if that is unknown.
func (s *nodeAllocation) held(now actors.Instant) time.Duration {
	if s.reserved == 0 {
		return 0
	}
	return min(max(now.Since(s.reserved), time.Millisecond), actors.Millis(messages.MaxDurationMs))
}

// goneBegan returns the last start among the ended ranks. It returns 0 if one of these starts is unknown.
func (s *nodeAllocation) goneBegan() actors.Instant {
	return lastBegan(s.ranks, func(r *nodeRank) bool { return r.exit != nil })
}

// lastBegan returns the last start among some ranks. It returns 0 if one of them did not start or if its start is
// unknown.
func lastBegan(ranks []nodeRank, counts func(*nodeRank) bool) (last actors.Instant) {
	for i := range ranks {
		if r := &ranks[i]; counts(r) {
			if r.began == 0 {
				return 0
			}
			last = max(last, r.began)
		}
	}
	return last
}

// harmless reports whether all ended ranks ended before they were started. Such an end may be sent before it is on
// disk. After a restart none of these ranks runs, because an incarnation starts tasks only for a Start that it received
// itself.
func (s *nodeAllocation) harmless() bool {
	return !slices.ContainsFunc(s.ranks, func(r nodeRank) bool {
		switch r.exit.GetKind() {
		case messages.ExitKind_EXIT_KIND_NEVER_STARTED, messages.ExitKind_EXIT_KIND_PREPARE_FAILED:
			return false
		}
		return r.exit != nil
	})
}

// changed records a change that must be on disk before the allocation's news are sent.
func (n *Node) changed(s *nodeAllocation) { s.unsaved = n.change() }

// settle is the only function that advances an allocation. It does the work of the present state and sends news, unless
// these still wait for the disk.
func (n *Node) settle(ctx actor.Context, s *nodeAllocation) {
	n.awaitHeir(ctx, s)
	if s.unsaved != 0 {
		return
	}
	switch s.page.State {
	case topology.AllocationCommitted:
		n.prepareRanks(ctx, s)
	case topology.AllocationStarted:
		n.startRanks(ctx, s)
	}
	n.tellNews(ctx, s)
}

func (n *Node) prepareRanks(ctx actor.Context, s *nodeAllocation) {
	for i := range s.ranks {
		if r := &s.ranks[i]; r.pid == nil && r.exit == nil {
			n.spawnTask(ctx, s, i, false)
		}
	}
	if !s.waits() || n.awaitsCheck(ctx, s) {
		return
	}
	if n.health.GetUnwell() != "" && !s.despite {
		n.spoil(ctx, s)
		return
	}
	for i := range s.ranks {
		if r := &s.ranks[i]; r.waits() {
			r.asked = true
			ctx.Send(r.pid, taskPrepare{})
		}
	}
}

// startRanks starts the ranks after the barrier, whose record is on disk.
func (n *Node) startRanks(ctx actor.Context, s *nodeAllocation) {
	for i := range s.ranks {
		if r := &s.ranks[i]; r.exit == nil && !r.started && !r.told {
			r.told = true
			ctx.Send(r.pid, taskStart{s.start})
		}
	}
}

// tellNews sends the changes after the state that was last shown.
func (n *Node) tellNews(ctx actor.Context, s *nodeAllocation) {
	state, before := s.page.State, s.shown
	s.shown = state
	var fresh []*messages.Exit
	var ages []int64
	for i := range s.ranks {
		if r := &s.ranks[i]; r.exit != nil && !r.shown {
			r.shown = true
			fresh, ages = append(fresh, r.exit), append(ages, r.age(n.p.Clock.Now()))
		}
	}
	if s.kept() {
		if !s.hold.shown {
			s.hold.shown = true
			n.tellEnded(ctx, s)
		}
		return
	}
	if state == topology.AllocationEnded {
		if before != state {
			n.tellEnded(ctx, s)
		}
		return
	}
	if state != topology.AllocationStopping {
		if before < topology.AllocationCommitted && state >= topology.AllocationCommitted {
			n.tell(ctx, s.page.Job, &messages.Committed{Origin: n.origin(s.page.Token, s.page.Job)})
		}
		if before < topology.AllocationPrepared && state >= topology.AllocationPrepared {
			n.tell(ctx, s.page.Job, &messages.Prepared{Origin: n.origin(s.page.Token, s.page.Job)})
		}
		if state == topology.AllocationStarted && !s.startedShown && s.allStarted() {
			s.startedShown = true
			n.tellStarted(ctx, s)
		}
	}
	if len(fresh) > 0 {
		n.tell(ctx, s.page.Job, &messages.Exited{Origin: n.origin(s.page.Token, s.page.Job), Exits: fresh, AgesMs: ages})
	}
}

func (n *Node) tellStarted(ctx actor.Context, s *nodeAllocation) {
	n.tell(ctx, s.page.Job, &messages.Started{Origin: n.origin(s.page.Token, s.page.Job)})
}

func (n *Node) tellEnded(ctx actor.Context, s *nodeAllocation) {
	exits, ages := s.exits(n.p.Clock.Now())
	ended := &messages.Ended{Origin: n.origin(s.page.Token, s.page.Job), Exits: exits, AgesMs: ages}
	if s.kept() {
		ended.Held, ended.NextPort = true, s.page.Port
	}
	n.tell(ctx, s.page.Job, ended)
}

// answer sends all reached states of an allocation again. States that wait for the disk are sent later.
func (n *Node) answer(ctx actor.Context, s *nodeAllocation) {
	if s.hold.shown {
		n.tellEnded(ctx, s)
		return
	}
	switch s.shown {
	case topology.AllocationReserved:
		if s.page.State == topology.AllocationReserved {
			n.tellReserved(ctx, s)
		}
		return
	case topology.AllocationEnded:
		n.tellEnded(ctx, s)
		return
	case topology.AllocationCommitted, topology.AllocationPrepared, topology.AllocationStarted:
		n.tell(ctx, s.page.Job, &messages.Committed{Origin: n.origin(s.page.Token, s.page.Job)})
		if s.shown >= topology.AllocationPrepared {
			n.tell(ctx, s.page.Job, &messages.Prepared{Origin: n.origin(s.page.Token, s.page.Job)})
		}
		if s.startedShown {
			n.tellStarted(ctx, s)
		}
	}
	n.tellExits(ctx, s)
}

// tellExits sends the exits of the ranks again.
func (n *Node) tellExits(ctx actor.Context, s *nodeAllocation) {
	if exits, ages := s.exits(n.p.Clock.Now()); len(exits) > 0 {
		n.tell(ctx, s.page.Job, &messages.Exited{Origin: n.origin(s.page.Token, s.page.Job), Exits: exits, AgesMs: ages})
	}
}
