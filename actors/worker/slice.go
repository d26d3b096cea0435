package worker

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns what the Node knows of a slice beside the ledger, and what a
// slice does next. A change that must survive a restart marks its slice as
// unsaved; until the disk has it, the slice is shown as it last was on disk, and nothing new is sent or done for it. So
// a fact can never be sent and then lost.

// nodeSlice belongs to a slice of the ledger.
type nodeSlice struct {
	page     *topology.Slice   // the ledger's own, to be read
	wire     *messages.Token   // its token, as a message
	spec     *messages.JobSpec // from Commit on
	uid      uint32            // of its tasks, from Commit on; 0: the leader gave none
	owner    string            // of the job, from Commit on
	proven   bool              // likewise, whether its name is proven
	cause    messages.Cause    // of the Stop
	grace    int64             // of the Stop, in ms
	reserved actors.Instant    // when, by the clock of this boot; 0: under an agent of an earlier version
	start    *messages.Start   // what this incarnation was told to spawn
	roster   roster            // what has arrived of its list
	despite  bool              // the leader wants it here though checks of the machine fail
	asked    bool              // the launcher was asked to check the machine before it is prepared …
	checked  bool              // … and has done so
	unwell   string            // which check failed, so that its ranks do not begin
	notice   notice            // what its tasks are to be told of their end
	ranks    []nodeRank        // as in the ledger
	grants   []*messages.Grant // of the ranks, as messages
	newer    []byte            // of its record, what a newer agent wrote
	fixed    []byte            // the part of its record that never changes

	unsaved      uint64              // the change that must be on disk before news are sent; 0: none
	shown        topology.SliceState // the state that was last sent, or could have been
	startedShown bool
}

// nodeRank is one member here.
type nodeRank struct {
	rank     topology.Rank
	id       *messages.TaskId // what the launcher calls it
	pid      *actor.PID       // its Task, from Commit until it is gone
	asked    bool             // its Task was told to prepare it
	adopting bool             // the launcher was asked whether it still runs
	prepared bool
	told     bool // its Task was told to start
	started  bool
	began    actors.Instant // of its process, by the clock of this boot; 0: not known, or it has not begun
	exit     *messages.Exit
	ended    actors.Instant // when the exit was learnt
	shown    bool           // the exit was sent, or could have been
	warned   bool           // its Task has been told what the notice says
}

func (n *Node) newSlice(s *topology.Slice) *nodeSlice {
	own := &nodeSlice{
		page: s, wire: n.wire(s.Token), shown: s.State,
		ranks: make([]nodeRank, len(s.Grants)), grants: messages.Many[messages.Grant](len(s.Grants)),
	}
	for i, g := range s.Grants {
		own.ranks[i] = nodeRank{rank: g.Rank, id: &messages.TaskId{Token: own.wire, Rank: int32(g.Rank)}}
		n.said.grant(g, own.grants[i])
	}
	return own
}

// lastSaid keeps the last amount and devices that were sent: a big gang takes machines whole, so the same devices are
// free, given away and free again. Receivers keep messages for long, so equal parts are shared.
type lastSaid struct {
	amount  topology.Resources
	sum     *messages.Resources // the same
	devices []topology.Share
	shares  []*messages.GpuShare // the same
}

// grant writes what a rank got.
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

func (s *nodeSlice) rank(r topology.Rank) *nodeRank {
	if i := slices.IndexFunc(s.ranks, func(k nodeRank) bool { return k.rank == r }); i >= 0 {
		return &s.ranks[i]
	}
	return nil
}

// exits returns the exits that may be sent, and for how long each has been known.
func (s *nodeSlice) exits(now actors.Instant) (all []*messages.Exit, agesMs []int64) {
	for i := range s.ranks {
		if r := &s.ranks[i]; r.exit != nil && r.shown {
			all, agesMs = append(all, r.exit), append(agesMs, r.age(now))
		}
	}
	return all, agesMs
}

// age is how many milliseconds the rank's exit has been known; less than that if an earlier start of this agent already
// knew it.
func (r *nodeRank) age(now actors.Instant) int64 { return now.Since(r.ended).Milliseconds() }

// waits reports whether a rank is yet to be prepared.
func (r *nodeRank) waits() bool { return r.exit == nil && !r.asked && !r.adopting && !r.started }

// waits reports whether one of a slice's ranks is.
func (s *nodeSlice) waits() bool {
	return slices.ContainsFunc(s.ranks, func(r nodeRank) bool { return r.waits() })
}

// allPrepared reports whether every rank could start at once, or has started.
func (s *nodeSlice) allPrepared() bool {
	return !slices.ContainsFunc(s.ranks, func(r nodeRank) bool { return !r.prepared && !r.started && !r.exit.Ran() })
}

// allStarted reports whether every rank has started.
func (s *nodeSlice) allStarted() bool {
	return !slices.ContainsFunc(s.ranks, func(r nodeRank) bool { return !r.started && !r.exit.Ran() })
}

// ran is how long all ranks have run, ended ones included: the barrier was passed when the last of all began, and
// counting only those that still run would get that moment wrong. 0: not known of one, or one has not begun.
func (s *nodeSlice) ran(now actors.Instant) time.Duration {
	last := lastBegan(s.ranks, func(*nodeRank) bool { return true })
	if last == 0 {
		return 0
	}
	return min(max(now.Since(last), time.Millisecond), actors.Millis(messages.MaxDurationMs))
}

// held is how long the machine has had it; 0: not known.
func (s *nodeSlice) held(now actors.Instant) time.Duration {
	if s.reserved == 0 {
		return 0
	}
	return min(max(now.Since(s.reserved), time.Millisecond), actors.Millis(messages.MaxDurationMs))
}

// goneBegan is when the last of the ranks that are over began; 0: not known of one.
func (s *nodeSlice) goneBegan() actors.Instant {
	return lastBegan(s.ranks, func(r *nodeRank) bool { return r.exit != nil })
}

// lastBegan is when the last of some ranks began; 0 where one of them did not begin, or its time is unknown.
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

// harmless reports whether all ranks that ended did so before they were started. Such an end may be sent without the
// disk: whatever a restart finds, nothing of it will run, because an incarnation spawns only for a Start that it
// received itself.
func (s *nodeSlice) harmless() bool {
	return !slices.ContainsFunc(s.ranks, func(r nodeRank) bool {
		switch r.exit.GetKind() {
		case messages.ExitKind_EXIT_KIND_NEVER_STARTED, messages.ExitKind_EXIT_KIND_PREPARE_FAILED:
			return false
		}
		return r.exit != nil
	})
}

// changed notes a change that must be on disk before the slice's news are sent.
func (n *Node) changed(s *nodeSlice) { s.unsaved = n.change() }

// settle is the one place where a slice goes on: it does what its state requires and sends what is new, unless that
// still waits for the disk.
func (n *Node) settle(ctx actor.Context, s *nodeSlice) {
	if s.unsaved != 0 {
		return
	}
	switch s.page.State {
	case topology.SliceCommitted:
		n.prepareRanks(ctx, s)
	case topology.SliceStarted:
		n.startRanks(ctx, s)
	}
	n.tellNews(ctx, s)
}

func (n *Node) prepareRanks(ctx actor.Context, s *nodeSlice) {
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

// startRanks spawns, past the barrier and with its mark on disk.
func (n *Node) startRanks(ctx actor.Context, s *nodeSlice) {
	for i := range s.ranks {
		if r := &s.ranks[i]; r.exit == nil && !r.started && !r.told {
			r.told = true
			ctx.Send(r.pid, taskStart{s.start})
		}
	}
}

// tellNews sends what is new since the slice was last shown.
func (n *Node) tellNews(ctx actor.Context, s *nodeSlice) {
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
	if state == topology.SliceOver {
		if before != state {
			n.tellEnded(ctx, s)
		}
		return
	}
	if state != topology.SliceStopping {
		if before < topology.SliceCommitted && state >= topology.SliceCommitted {
			n.tell(ctx, s.page.Job, &messages.Committed{Origin: n.origin(s.page.Token, s.page.Job)})
		}
		if before < topology.SlicePrepared && state >= topology.SlicePrepared {
			n.tell(ctx, s.page.Job, &messages.Prepared{Origin: n.origin(s.page.Token, s.page.Job)})
		}
		if state == topology.SliceStarted && !s.startedShown && s.allStarted() {
			s.startedShown = true
			n.tellStarted(ctx, s)
		}
	}
	if len(fresh) > 0 {
		n.tell(ctx, s.page.Job, &messages.Exited{Origin: n.origin(s.page.Token, s.page.Job), Exits: fresh, AgesMs: ages})
	}
}

func (n *Node) tellStarted(ctx actor.Context, s *nodeSlice) {
	n.tell(ctx, s.page.Job, &messages.Started{Origin: n.origin(s.page.Token, s.page.Job)})
}

func (n *Node) tellEnded(ctx actor.Context, s *nodeSlice) {
	exits, ages := s.exits(n.p.Clock.Now())
	n.tell(ctx, s.page.Job, &messages.Ended{Origin: n.origin(s.page.Token, s.page.Job), Exits: exits, AgesMs: ages})
}

// answer sends again all that a slice has reached. What still waits for the disk is sent once it is there.
func (n *Node) answer(ctx actor.Context, s *nodeSlice) {
	switch s.shown {
	case topology.SliceReserved:
		if s.page.State == topology.SliceReserved {
			n.tellReserved(ctx, s)
		}
		return
	case topology.SliceOver:
		n.tellEnded(ctx, s)
		return
	case topology.SliceCommitted, topology.SlicePrepared, topology.SliceStarted:
		n.tell(ctx, s.page.Job, &messages.Committed{Origin: n.origin(s.page.Token, s.page.Job)})
		if s.shown >= topology.SlicePrepared {
			n.tell(ctx, s.page.Job, &messages.Prepared{Origin: n.origin(s.page.Token, s.page.Job)})
		}
		if s.startedShown {
			n.tellStarted(ctx, s)
		}
	}
	n.tellExits(ctx, s)
}

// tellExits sends again which ranks are gone.
func (n *Node) tellExits(ctx actor.Context, s *nodeSlice) {
	if exits, ages := s.exits(n.p.Clock.Now()); len(exits) > 0 {
		n.tell(ctx, s.page.Job, &messages.Exited{Origin: n.origin(s.page.Token, s.page.Job), Exits: exits, AgesMs: ages})
	}
}
