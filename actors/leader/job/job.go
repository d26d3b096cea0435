// Package job holds the Job, the actor of one job from its submit until nothing of it is left to do. It decides what
// each
// attempt's end means for the job, and has its record written.
package job

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// Job owns one job's life across its attempts: retries, cancel, time limit and
// the final word. It is the sole writer of the job's records. It holds what is
// on disk, and beside it what should be: every event adds to the latter, and
// whenever no write is in flight the next one carries all of it (write.go).
// What happens outside — Stop, Forget, the client's answer — happens only once
// the write that allows it is on disk.
//
// It tells: Nodes (Stop, Forget, Abort), the Scheduler (Waits, Rests, Withdraws, HeldBack,
// Declined, PromiseWritten, Redeemed, Vacated, LaunchFailed, Foreseen, AttemptEnded, Settled, Stale), the Mirror
// (JobShown), its Coordinator, clients. It asks: the Journal (Write → Written, Unwritten).
type Job struct {
	p      *protocol.Ports
	states actors.States[jobState]
	id     topology.JobID
	peers  protocol.JobPeers
	makes  coordinatorMaker

	// On disk. Records are replaced, never changed in place: others may hold them.
	rec  *messages.JobRecord
	att  *messages.AttemptRecord   // the one that is committed and not closed
	last *messages.AttemptRecord   // the latest ever committed, for people
	owed []*messages.AttemptRecord // earlier ones that lack evidence: debts

	// To be on disk.
	writing    bool
	next       draft
	exits      map[topology.Token]map[int32]notedExit
	end        *messages.End
	cancel     *messages.Deed
	wish       *protocol.HoldWish     // what was wanted last of hold and release; nil: what is on disk
	respec     *protocol.SpecWish     // another spec that is wanted; nil: what is on disk
	firm       *firmWish              // another firm promise that is to be; nil: what is on disk
	aged       agedPromise            // the last that was drafted with less time left than was asked for
	foregone   []*messages.AfterKnown // how jobs ended that this one waits for
	started    int64                  // wall time of the barrier, to be noted
	prepared   time.Duration          // how long after COMMIT all were, likewise
	decide     *protocol.Granted
	moved      *protocol.MoveOff    // a machine of the attempt in the making is being emptied
	preemption *messages.Preemption // for whom it is to be stopped, where that is the cause
	askers     []protocol.Asker

	// The attempt in the making, and the machines of all attempts.
	coordinator *actor.PID
	token       topology.Token
	targets     []protocol.Target  // where it is to go
	told        *messages.Told     // first, of what waited for it
	promised    bool               // by a firm promise
	victims     []*messages.Victim // that were stopped for it
	numbering   *numbering         // it begins when the job's uid is on disk
	lacks       string             // why the job waits for a uid; empty: it does not
	contacts    map[topology.NodeID]*contact
	resend      actors.Resend
	timers      uint64         // numbers the timers of a state: older ones are stale
	met         topology.Token // the last admission that came, taken or not
	seq         uint64
	backedOff   actors.Instant // until then the job waits after its last attempt
	begunBefore bool           // the attempt may have passed its barrier under an earlier leader
	ranBefore   bool           // it has, by what is on disk
	begun       actors.Instant // when its last machine began, by what they say; 0: none says
	startBy     actors.Instant // by then it passes its barrier, or not at all; 0: whenever it is ready
	ready       time.Duration  // how long it had for that
	lent        time.Duration  // the longest that was too short
	noOther     bool           // than the machine where it never ran: the gang cannot do without it
	limitTimer  uint64         // of the time limit
	limitFrom   actors.Instant // from when it counts
	warning     warning
	life        uint64 // which actor of this job in this epoch: its writes are told apart by it
	writes      uint32
	unwritten   string // why the write in flight is not on disk yet; empty: nothing is wrong with it
}

// contact is a machine as the job knows it.
type contact struct {
	incarnation *messages.Incarnation
	machineID   string
	version     uint64 // of its ledger, by the newest fact of this incarnation
	vocabulary  int32  // what its agent understands
	up          bool
	since       actors.Instant // when it was last heard, if not up
	drains      ending         // when it is emptied; zero: it is not, or has no deadline
	knows       uint64         // what was said last to the tasks on it
}

type (
	backoffOver struct{ Seq uint64 }
	timeUp      struct {
		Token topology.Token
		Seq   uint64
	}
	graceOver struct {
		Token topology.Token
		Node  topology.NodeID
		Since actors.Instant
	}
)

// coordinatorMaker makes the Coordinator of one attempt.
type coordinatorMaker func(p *protocol.Ports, job, scheduler *actor.PID, plan protocol.AttemptPlan) actor.Actor

func New(p *protocol.Ports, peers protocol.JobPeers, life uint64, rec *messages.JobRecord,
	attempts []*messages.AttemptRecord, makes coordinatorMaker) actor.Actor {
	j := &Job{
		p: p, makes: makes, id: topology.JobID(rec.Id), peers: peers, life: life, rec: rec,
		states:   actors.NewStates(&Table, p.Host),
		exits:    map[topology.Token]map[int32]notedExit{},
		contacts: map[topology.NodeID]*contact{},
	}
	current := messages.FromToken(rec.Attempt)
	for _, a := range attempts {
		j.contactsOf(a)
		switch {
		case messages.FromToken(a.Token) == current && rec.State == messages.JobState_JOB_STATE_ACTIVE:
			j.att = a
		case a.Owes():
			j.owed = append(j.owed, a)
		}
		if messages.FromToken(a.Token) == current {
			j.last, j.lent = a, lentBefore(a)
		}
	}
	return j
}

// contactsOf begins with every machine taken for reachable: only the reaper can say
// that one is not.
func (j *Job) contactsOf(a *messages.AttemptRecord) {
	for _, p := range a.Places {
		j.contact(topology.NodeID(p.Node), p.MachineId)
	}
}

func (j *Job) contact(n topology.NodeID, machineID string) *contact {
	s := j.contacts[n]
	if s == nil {
		s = &contact{machineID: machineID, up: true}
		j.contacts[n] = s
	}
	return s
}

// Receive dispatches: first what the process says, then what machines say.
func (j *Job) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		j.onBorn(ctx)
	case protocol.Acknowledge:
		m.Say(ctx)
	case protocol.Admit:
		j.onAdmit(ctx, m)
	case protocol.Promised:
		j.onPromised(ctx, m)
	case protocol.Granted:
		j.onGranted(ctx, m)
	case protocol.Aborted:
		j.onAborted(ctx, m)
	case protocol.BarrierPassed:
		j.onBarrierPassed(ctx, m)
	case protocol.Faltered:
		j.onFaltered(ctx, m)
	case protocol.Written:
		j.onWritten(ctx, m)
	case protocol.Unwritten:
		j.onUnwritten(ctx, m)
	case *messages.Cancel:
		j.onCancel(ctx, m)
	case *messages.Hold:
		j.onHold(ctx, m)
	case *messages.Requeue:
		j.onRequeue(ctx, m)
	case *messages.Update:
		j.onUpdate(ctx, m)
	case protocol.Foregone:
		j.onForegone(ctx, m)
	case protocol.Sighted:
		j.onSighted(ctx, m)
	case protocol.NodeLost:
		j.onNodeLost(ctx, m)
	case protocol.NodeGone:
		j.onNodeGone(ctx, m)
	case protocol.Preempt:
		j.onPreempt(ctx, m)
	case protocol.Spared:
		j.onSpared(ctx, m)
	case protocol.MoveOff:
		j.onMoveOff(ctx, m)
	case protocol.Drains:
		j.onDrains(ctx, m)
	case protocol.Claim:
		j.onClaim(ctx, m)
	case protocol.Doubted:
		j.onDoubted(ctx, m)
	case protocol.LacksUID:
		j.onLacksUID(ctx, m)
	case actors.ResendDue:
		j.onResend(ctx, m)
	case backoffOver, timeUp, graceOver, warnDue:
		j.onTimer(ctx, m)
	case *actor.Terminated:
		j.advance(ctx) // a Coordinator has cleaned up: perhaps nothing is left to do
	default:
		j.onFact(ctx, m)
	}
}

// onBorn goes on from what is on disk: a fresh submit and a takeover alike.
func (j *Job) onBorn(ctx actor.Context) {
	switch {
	case j.rec.State.Terminal():
		j.states.Become("finished", jobSettling)
	case j.att == nil:
		j.states.Become("queued", jobQueued)
		j.backOff()
	case j.att.End != nil:
		j.states.Become("ended", jobStopping)
	default:
		j.states.Become("resumed", jobStarting)
		j.resume(ctx)
	}
	j.show(ctx)
	j.settleIn(ctx)
}

// settleIn runs the actions of entering the present state.
func (j *Job) settleIn(ctx actor.Context) {
	switch j.states.At() {
	case jobQueued:
		j.wait(ctx)
	case jobStarting:
		j.advance(ctx) // a cancel may be on disk that the last leader did not act on
	case jobStopping, jobSettling:
		j.stopAll(ctx)
		j.resend.Begin(ctx, &j.p.Ports)
		j.advance(ctx)
	}
}

// resume makes a Coordinator for an attempt that an earlier leader committed. A
// member with its end on disk is neither sent Commit nor missed.
func (j *Job) resume(ctx actor.Context) {
	plan := protocol.AttemptPlan{
		Job: j.id, Token: messages.FromToken(j.att.Token), Run: j.att.Run, Spec: j.rec.Spec, UID: j.rec.Uid,
		Owner: j.rec.GetOwner(), Resumed: j.att,
	}
	at := map[string]int{}
	for _, p := range j.att.Places {
		if p.Exit != nil {
			continue
		}
		i, ok := at[p.Node]
		if !ok {
			i = len(plan.Targets)
			at[p.Node] = i
			plan.Targets = append(plan.Targets, protocol.Target{Node: topology.NodeID(p.Node), MachineID: p.MachineId})
		}
		plan.Targets[i].Members = append(plan.Targets[i].Members, &messages.Member{Rank: p.Rank, Amount: p.Grant.Amount})
	}
	j.begunBefore, j.ranBefore = true, j.att.StartedUnixMs != 0
	j.warning.begin(j.life, j.ranBefore)
	j.ready = actors.Millis(j.att.StartByLeftMs)
	j.coordinate(ctx, plan)
	j.foretellResumed(ctx)
	if j.att.StartedUnixMs != 0 {
		j.armTimeLimit(ctx, j.p.Clock.Now()) // in full, until its machines have been heard
	}
}

func (j *Job) coordinate(ctx actor.Context, plan protocol.AttemptPlan) {
	j.token = plan.Token
	j.coordinator = actors.Spawn(ctx, &j.p.Ports, actors.KindCoordinator, actors.AttemptName(plan.Token),
		func() actor.Actor {
			return j.makes(j.p, ctx.Self(), j.peers.Scheduler, plan)
		})
}

// wait puts the job into the queue, unless it is held, must back off, begins later, waits for other jobs, or tasks
// of an earlier attempt may still run.
func (j *Job) wait(ctx actor.Context) {
	j.holdsBack(ctx)
	if j.cancel != nil || j.kept() || j.owesReachable() || len(j.rec.Awaits()) > 0 {
		return
	}
	if j.rec.NeverMet() != "" { // it came in when that was known
		j.advance(ctx)
		return
	}
	j.timers++
	if left := max(j.barredUntil().Since(j.p.Clock.Now()), j.beginsIn()); left > 0 {
		j.p.Clock.After(left, ctx.Self(), backoffOver{j.timers})
		if !j.met.IsZero() {
			ctx.Send(j.peers.Scheduler, protocol.Rests{Job: j.id, Met: j.met})
		}
		return
	}
	ctx.Send(j.peers.Scheduler, protocol.Waits{Record: j.rec, Lent: j.lent, Met: j.met})
}

// owesReachable reports whether a machine that can be reached has yet to give
// evidence: no attempt commits before it has.
func (j *Job) owesReachable() bool {
	for _, a := range j.owed {
		for _, p := range a.Places {
			if p.Exit == nil && j.contacts[topology.NodeID(p.Node)].up {
				return true
			}
		}
	}
	return false
}

func (j *Job) onAdmit(ctx actor.Context, m protocol.Admit) {
	j.met = m.Token
	// When it begins may have been changed as this came, or the clock was set back.
	if !j.states.In(jobQueued) || j.writing || j.cancel != nil || j.kept() || j.barred() || j.beginsIn() > 0 ||
		j.rec.UidToCome && m.UID == 0 {
		ctx.Send(j.peers.Scheduler, protocol.Declined{Token: m.Token, Targets: m.Targets})
		if j.states.In(jobQueued) && !j.writing { // who writes says that it waits once that is on disk
			j.wait(ctx) // a wish that crossed with this was passed over
		}
		return
	}
	j.targets, j.told, j.promised, j.victims = m.Targets, m.Told, m.Promised, m.Victims
	j.states.Become("admitted", jobReserving)
	j.moved, j.begunBefore, j.ranBefore, j.begun, j.noOther = nil, false, false, 0, m.NoOther
	j.startBy, j.ready = m.StartBy, m.Ready
	if len(j.contacts) == 0 {
		j.contacts = make(map[topology.NodeID]*contact, len(m.Targets))
	}
	j.warning.begin(j.life, false)
	for _, t := range m.Targets {
		s := j.contact(t.Node, t.MachineID)
		s.drains, s.knows = ending{}, j.warning.number // it was open when the attempt was planned, and no end is near
		if !messages.SameIncarnation(s.incarnation, t.Incarnation) {
			s.version = 0 // versions begin again with every start of an agent
		}
		s.machineID, s.incarnation, s.vocabulary, s.up = t.MachineID, t.Incarnation, t.Vocabulary, true
	}
	plan := protocol.AttemptPlan{
		Job: j.id, Token: m.Token, Run: j.rec.Runs + 1, Spec: j.rec.Spec, UID: j.rec.Uid,
		Owner: j.rec.GetOwner(), Targets: m.Targets, StartBy: m.StartBy, Ready: m.Ready,
	}
	if j.rec.UidToCome { // nothing is done under a uid that a takeover would not know
		j.token, j.numbering = plan.Token, &numbering{m.UID, m.UIDTurn, j.p.Clock.Now(), plan}
		j.advance(ctx)
	} else {
		j.coordinate(ctx, plan)
	}
	j.show(ctx)
}

func (j *Job) onGranted(ctx actor.Context, m protocol.Granted) {
	if !j.states.In(jobReserving) || m.Token != j.token {
		return
	}
	j.states.Become("granted", jobDeciding)
	j.decide = &m
	j.advance(ctx)
}

// withdraw gives up an attempt before COMMIT.
func (j *Job) withdraw(ctx actor.Context) {
	j.decide, j.targets = nil, nil
	j.noteTooShort()
	j.halt(ctx)
	j.states.Become("withdrawn", jobQueued)
	j.show(ctx) // first: the Mirror is told with whom it waits, and must know by then that it does
	j.wait(ctx)
}

func (j *Job) halt(ctx actor.Context) {
	if n := j.numbering; n != nil { // it has no Coordinator yet
		ctx.Send(j.peers.Scheduler, protocol.Declined{Token: n.plan.Token, Targets: n.plan.Targets})
		j.numbering = nil
	}
	if j.coordinator != nil {
		ctx.Send(j.coordinator, protocol.Halt{})
		j.coordinator = nil
	}
}

func (j *Job) onAborted(ctx actor.Context, m protocol.Aborted) {
	if !j.states.In(jobReserving) || m.Token != j.token {
		return
	}
	j.coordinator, j.targets = nil, nil
	j.noteTooShort()
	j.states.Become("aborted", jobQueued)
	j.show(ctx) // first, as there
	j.wait(ctx)
	j.advance(ctx)
}

func (j *Job) onBarrierPassed(ctx actor.Context, m protocol.BarrierPassed) {
	if !j.states.In(jobStarting) || m.Token != j.token {
		return
	}
	j.coordinator, j.lent = nil, 0
	j.states.Become("started", jobRunning)
	if j.att.StartedUnixMs == 0 {
		j.started, j.prepared = j.p.Clock.WallMs(), m.Prepared
	}
	j.armTimeLimit(ctx, j.passedBarrier())
	j.foretell(ctx, j.limitFrom)
	j.show(ctx)
	j.advance(ctx)
}

func (j *Job) onFaltered(ctx actor.Context, m protocol.Faltered) {
	if m.Token == j.token && j.states.In(jobStarting) {
		j.finish(ctx, m.Cause, m.Detail, m.Node)
	}
}

// finish asks for the attempt's end. The first cause stands.
func (j *Job) finish(ctx actor.Context, cause messages.Cause, detail string, node topology.NodeID) {
	if j.att == nil || j.att.End != nil || j.end != nil {
		return
	}
	j.end = &messages.End{Cause: cause, Detail: detail, Rank: -1, Node: string(node), AtUnixMs: j.p.Clock.WallMs()}
	if cause == messages.Cause_CAUSE_PREEMPTED {
		j.end.Preemption = j.preemption
	}
	j.advance(ctx)
}

// lacking is why the job waits for a uid; the zero value: it does not.
func (j *Job) lacking() messages.Reason {
	if j.lacks == "" {
		return messages.Reason{}
	}
	return messages.WaitUserID.Because(j.lacks)
}

// show tells the Mirror what people may see.
func (j *Job) show(ctx actor.Context) {
	status := &messages.JobStatus{Record: j.rec.Unsealed(), Phase: j.phase(), Attempt: j.last}
	for _, a := range j.owed {
		status.Debts = append(status.Debts, protocol.Debtors(a)...)
	}
	if j.states.In(jobQueued) {
		status.Because(j.lacking())
	}
	if j.rec.State.Terminal() {
		status.Reason = j.rec.Outcome
	} else if j.unwritten != "" {
		status.Because(messages.WaitStore.Because("not written yet, " + j.unwritten))
	}
	if j.warns() {
		status.Warned = j.warning.shown
	}
	ctx.Send(j.peers.Mirror, mirror.JobShown{Status: status})
}

func (j *Job) phase() string {
	switch {
	case j.states.In(jobQueued) && j.rec.Hold != nil:
		return messages.PhaseHeld
	case j.states.In(jobSettling, jobOver):
		return messages.EndPhase(j.rec.State)
	case j.states.In(jobStarting) && j.att.GetStartedUnixMs() != 0:
		return messages.PhaseRunning // it started under an earlier leader, and goes on while this one looks
	}
	return string(j.states.At())
}
