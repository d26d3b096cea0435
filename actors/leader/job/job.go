// Package job holds the Job, the actor of one job from its submit until nothing of it is left to do. The Job decides
// the effect of each attempt's end, and it writes the job's record.
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

// Job owns one job's life across its attempts: retries, cancel, time limit and final state. It is the only writer of
// the job's records. It keeps the records on disk and, separately, the changes that must be written. Every event adds
// to the changes. When no write is in flight, the next write carries all of them (write.go). External effects, such as
// Stop, Forget and the client's answer, follow only after the write that allows them is on disk.
//
// A Job sends messages to Nodes (Stop, Forget, Abort), to the Scheduler (Waits, Rests, Withdraws, HeldBack, Declined,
// PromiseWritten, Redeemed, Vacated, LaunchFailed, Foreseen, AttemptEnded, Settled, Stale), to the Mirror (JobShown),
// to its Coordinator and to clients. It sends requests to the Journal (Write → Written, Unwritten).
type Job struct {
	p      *protocol.Ports
	states actors.States[jobState]
	id     topology.JobID
	peers  protocol.JobPeers
	makes  coordinatorMaker

	// These fields are on disk. Records are replaced and never changed in place, because other actors may hold them.
	rec  *messages.JobRecord
	att  *messages.AttemptRecord   // the committed attempt that is not closed
	last *messages.AttemptRecord   // the latest committed attempt, for display
	owed []*messages.AttemptRecord // earlier attempts with unconfirmed allocations

	// These fields must be written.
	writing    bool
	next       draft
	exits      map[topology.Token]map[int32]notedExit
	failed     failedExits    // of the latest attempt
	judged     topology.Token // the latest attempt whose verdict was counted
	accused    accusation     // as reported to the Scheduler
	end        *messages.End
	cancel     *messages.Deed
	wish       *protocol.HoldWish     // the last hold or release; nil: as on disk
	respec     *protocol.SpecWish     // the last changed spec; nil: as on disk
	firm       *firmWish              // the last start guarantee to write; nil: as on disk
	aged       agedPromise            // the last drafted guarantee with less time left than requested
	foregone   []*messages.AfterKnown // starts and ends of jobs that this one depends on
	started    int64                  // wall clock time of the barrier, to be written
	prepared   time.Duration          // time from COMMIT until all were prepared, to be written
	decide     *protocol.Granted
	moved      *protocol.MoveOff    // a node of the attempt before COMMIT is being drained
	preemption *messages.Preemption // the job for which this one is stopped, if that is the cause
	askers     []protocol.Asker

	// These fields hold the attempt before COMMIT, and the nodes of all attempts.
	coordinator     *actor.PID
	token           topology.Token
	targets         []protocol.Target  // its planned nodes
	spares          []*messages.Spare  // other nodes that it holds
	told            *messages.Told     // the first estimate of its start
	promised        bool               // it had a start guarantee
	victims         []*messages.Victim // that were preempted for it
	numbering       *numbering         // it starts when the job's UID is on disk
	lacks           string             // why the job waits for a UID; empty: it does not
	contacts        map[topology.NodeID]*contact
	resend          actors.Resend
	timers          uint64         // number of the state's timer: older ones are stale
	met             topology.Token // the last admission received, accepted or not
	seq             uint64
	backedOff       actors.Instant // end of the backoff after the last attempt
	begunBefore     bool           // the attempt may have passed its barrier under an earlier leader
	ranBefore       bool           // it has, according to the record on disk
	begun           actors.Instant // start of its last node, as nodes report it; 0: none reports it
	watchesDeadline int64          // the latest start for which a deadlineDue will come; 0: none will come
	startBy         actors.Instant // start deadline of a backfilled attempt; 0: none
	ready           time.Duration  // how much time it had until then
	lent            time.Duration  // the longest time that was too short
	noOther         bool           // the gang cannot be placed without the node where it never ran
	limitTimer      uint64         // number of the time limit's timer
	limitFrom       actors.Instant // start of the time limit
	placeFrom       actors.Instant // the same, set by the attempt in this place before; 0: none, or not under this leader
	before          time.Duration  // time from there to the barrier of this attempt
	heir            heirship
	restartFrom     actors.Instant // the recorded end before an heir that has not started yet; 0: none under this leader
	decided         actors.Instant // when the heir was decided
	warning         warning
	saving          saving
	quiet           quiet
	idle            idle
	life            uint64 // number of this actor of the job in this epoch, which identifies its writes
	writes          uint32
	unwritten       string // why the write in flight is not on disk yet; empty: no problem
}

// contact holds the job's knowledge of one node.
type contact struct {
	incarnation *messages.Incarnation
	machineID   string
	version     uint64 // of its ledger, from the newest fact of this incarnation
	vocabulary  int32  // features of its agent
	up          bool
	since       actors.Instant // when it was last heard, if not up
	drains      ending         // when it will be drained; zero: no drain with a deadline
	knows       uint64         // number of the last warning to the tasks on it
	keeps       topology.Token // the ended attempt whose resources it keeps; zero: none
	port        int32          // rendezvous port of that attempt's heir
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

// coordinatorMaker creates the Coordinator of one attempt.
type coordinatorMaker func(p *protocol.Ports, job, scheduler *actor.PID, plan protocol.AttemptPlan) actor.Actor

func New(p *protocol.Ports, peers protocol.JobPeers, life uint64, rec *messages.JobRecord,
	attempts []*messages.AttemptRecord, makes coordinatorMaker) actor.Actor {
	j := &Job{
		p: p, makes: makes, id: topology.JobID(rec.Id), peers: peers, life: life, rec: rec,
		states: actors.NewStates(&Table, p.Host),
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

// contactsOf adds the nodes of an attempt as reachable. Only the reaper reports that a node is not.
func (j *Job) contactsOf(a *messages.AttemptRecord) {
	for _, p := range a.Places {
		j.contact(topology.NodeID(p.Node), p.MachineId)
	}
}

func (j *Job) contact(n topology.NodeID, machineID string) *contact {
	s := j.contacts[n]
	if s == nil {
		if j.contacts == nil { // a waiting job has none
			j.contacts = map[topology.NodeID]*contact{}
		}
		s = &contact{machineID: machineID, up: true}
		j.contacts[n] = s
	}
	return s
}

// Receive dispatches a message: first those of this process, then those of nodes.
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
	case protocol.Heir:
		j.onHeir(ctx, m)
	case heirDue:
		j.onHeirDue(ctx, m)
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
	case *messages.Checkpoint:
		j.onCheckpoint(ctx, m)
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
	case protocol.ProgressHeard, protocol.SignalIdle:
		j.onActivity(ctx, m)
	case protocol.Claim:
		j.onClaim(ctx, m)
	case protocol.Doubted:
		j.onDoubted(ctx, m)
	case protocol.LacksUID:
		j.onLacksUID(ctx, m)
	case actors.ResendDue:
		j.onResend(ctx, m)
	case backoffOver, timeUp, graceOver, warnDue, hangDue, deadlineDue:
		j.onTimer(ctx, m)
	case *actor.Terminated:
		j.advance(ctx) // a Coordinator has finished its cleanup: the job may be complete
	default:
		j.onFact(ctx, m)
	}
}

// onBorn continues from the records on disk, for a new submit and after a takeover alike.
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
	j.tellStart(ctx)
	j.show(ctx)
	j.settleIn(ctx)
}

// settleIn runs the entry actions of the present state.
func (j *Job) settleIn(ctx actor.Context) {
	switch j.states.At() {
	case jobQueued:
		j.wait(ctx)
	case jobStarting:
		j.advance(ctx) // a cancel may be on disk that the last leader did not execute
	case jobStopping, jobSettling:
		j.expectHeir(ctx)
		j.stopAll(ctx)
		j.resend.Begin(ctx, &j.p.Ports)
		j.advance(ctx)
	}
}

func (j *Job) coordinate(ctx actor.Context, plan protocol.AttemptPlan) {
	j.token = plan.Token
	j.coordinator = actors.Spawn(ctx, &j.p.Ports, actors.KindCoordinator, actors.AttemptName(plan.Token),
		func() actor.Actor {
			return j.makes(j.p, ctx.Self(), j.peers.Scheduler, plan)
		})
}

// wait puts the job into the queue. It does not if the job is held, must back off, begins later or depends on other
// jobs. It also waits while tasks of an earlier attempt may still run.
func (j *Job) wait(ctx actor.Context) {
	j.holdsBack(ctx)
	j.watchDeadline(ctx)
	if j.cancel != nil || j.kept() || j.owesReachable() || len(j.rec.Awaits()) > 0 {
		return
	}
	if j.rec.NeverMet() != "" || j.misses() != "" { // it may have been impossible when the job was submitted
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

// owesReachable reports whether a reachable node still lacks evidence. No attempt commits before that.
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
	// The begin time may have changed in the meantime, or the clock was set back.
	if !j.states.In(jobQueued) || j.writing || j.cancel != nil || j.kept() || j.barred() || j.beginsIn() > 0 ||
		j.rec.UidToCome && m.UID == 0 {
		j.decline(ctx, m.Token, m.Targets)
		if j.states.In(jobQueued) && !j.writing { // the Job sends Waits after its write is on disk
			j.wait(ctx) // a Waits that crossed this message was ignored
		}
		return
	}
	j.targets, j.spares, j.told, j.promised, j.victims = m.Targets, m.Spares, m.Told, m.Promised, m.Victims
	j.states.Become("admitted", jobReserving)
	j.moved, j.begunBefore, j.ranBefore, j.begun, j.noOther = nil, false, false, 0, m.NoOther
	j.placeFrom = 0
	j.startBy, j.ready = m.StartBy, m.Ready
	if len(j.contacts) == 0 {
		j.contacts = make(map[topology.NodeID]*contact, len(m.Targets))
	}
	j.beginWatch(false)
	for _, t := range m.Targets {
		s := j.contact(t.Node, t.MachineID)
		s.drains, s.knows = ending{}, j.warning.number // it was schedulable when the attempt was planned, and no end is near
		if !messages.SameIncarnation(s.incarnation, t.Incarnation) {
			s.version = 0 // versions restart with every start of an agent
		}
		s.machineID, s.incarnation, s.vocabulary, s.up = t.MachineID, t.Incarnation, t.Vocabulary, true
	}
	plan := protocol.AttemptPlan{
		Job: j.id, Token: m.Token, Run: j.rec.Runs + 1, Spec: j.rec.Spec, UID: j.rec.Uid,
		Owner: j.rec.GetOwner(), Targets: m.Targets, StartBy: m.StartBy, Ready: m.Ready,
	}
	if j.rec.UidToCome { // a UID must be on disk before use, so that a takeover knows it
		j.token, j.numbering = plan.Token, &numbering{m.UID, m.UIDTurn, j.p.Clock.Now(), plan}
		j.advance(ctx)
	} else {
		j.coordinate(ctx, plan)
	}
	j.show(ctx)
}

func (j *Job) onGranted(ctx actor.Context, m protocol.Granted) {
	if j.isSwap(m.Token) {
		j.heir.places = &m
		j.advance(ctx)
		return
	}
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
	j.show(ctx) // before Waits: the Mirror must know that the job is queued when it gets the job's group
	j.wait(ctx)
}

func (j *Job) halt(ctx actor.Context) {
	if n := j.numbering; n != nil { // it has no Coordinator yet
		j.decline(ctx, n.plan.Token, n.plan.Targets)
		j.numbering = nil
	}
	if j.coordinator != nil {
		ctx.Send(j.coordinator, protocol.Halt{})
		j.coordinator = nil
	}
}

func (j *Job) onAborted(ctx actor.Context, m protocol.Aborted) {
	if j.isSwap(m.Token) {
		j.coordinator = nil
		j.dropHeir(ctx)
		j.advance(ctx)
		return
	}
	if !j.states.In(jobReserving) || m.Token != j.token {
		return
	}
	j.coordinator, j.targets = nil, nil
	j.noteTooShort()
	j.states.Become("aborted", jobQueued)
	j.show(ctx) // first, for the same reason
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
		j.tookRestart(j.p.Clock.Now())
	}
	passed := j.passedBarrier()
	j.armTimeLimit(ctx, j.countedFrom(passed))
	j.before = passed.Since(j.limitFrom)
	j.recallSaved()
	j.foretell(ctx, j.limitFrom)
	j.show(ctx)
	j.advance(ctx)
}

func (j *Job) onFaltered(ctx actor.Context, m protocol.Faltered) {
	if m.Token == j.token && j.states.In(jobStarting) {
		j.finish(ctx, m.Cause, m.Detail, m.Node)
	}
}

// finish requests the end of the attempt. The first cause counts.
func (j *Job) finish(ctx actor.Context, cause messages.Cause, detail string, node topology.NodeID) {
	if j.att == nil || j.att.End != nil || j.end != nil {
		return
	}
	end := &messages.End{Cause: cause, Detail: detail, Rank: -1, Node: string(node)}
	if cause == messages.Cause_CAUSE_PREEMPTED {
		end.Preemption = j.preemption
	}
	j.endWith(ctx, end)
}

// endWith does the same with a complete end.
func (j *Job) endWith(ctx actor.Context, end *messages.End) {
	if j.att == nil || j.att.End != nil || j.end != nil {
		return
	}
	end.AtUnixMs = j.p.Clock.WallMs()
	j.end = end
	j.advance(ctx)
}

// lacking returns why the job waits for a UID. It returns the zero value if it does not.
func (j *Job) lacking() messages.Reason {
	if j.lacks == "" {
		return messages.Reason{}
	}
	return messages.WaitUserID.Because(j.lacks)
}

// show sends the job's status to the Mirror.
func (j *Job) show(ctx actor.Context) {
	status := &messages.JobStatus{Record: j.rec.Unsealed(), Phase: j.phase(), Attempt: j.last}
	for _, a := range j.owed {
		status.Debts = append(status.Debts, protocol.Debtors(a)...)
	}
	if j.states.In(jobQueued) {
		status.Because(j.lacking())
	}
	j.showLack(status)
	if j.rec.State.Terminal() {
		status.Reason = j.rec.Outcome
	} else if j.unwritten != "" {
		status.Because(messages.WaitStore.Because("not written yet, " + j.unwritten))
	}
	j.showStall(status)
	if j.warns() {
		status.Warned, status.Saving = j.warning.shown, j.savingShown()
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
		return messages.PhaseRunning // it started under an earlier leader, and continues while this one checks
	}
	return string(j.states.At())
}
