package job

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the messages between a Job and the nodes of its attempts.

// fact is a message of a node about an attempt.
type fact interface{ GetOrigin() *messages.Origin }

// onFact fences the message of a node. It must come from the known machine under that name, in its current incarnation.
// Other facts come again in the node's Hello.
func (j *Job) onFact(ctx actor.Context, m any) {
	f, ok := m.(fact)
	if !ok || f.GetOrigin() == nil {
		return
	}
	o := f.GetOrigin()
	s := j.contacts[topology.NodeID(o.Node)]
	if s == nil || s.machineID != o.MachineId || !messages.SameIncarnation(s.incarnation, o.Incarnation) {
		j.p.Host.Count("job.foreign_fact", 1)
		return
	}
	token := messages.FromToken(o.Token)
	if newest := messages.FromToken(j.rec.Attempt); newest.Less(token) && j.token.Less(token) || o.Job != string(j.id) {
		ctx.Send(j.peers.Scheduler, protocol.StrangeToken{Node: topology.NodeID(o.Node), Incarnation: o.Incarnation,
			Token: token})
		return
	}
	s.version = max(s.version, o.LedgerVersion)
	switch m := m.(type) {
	case *messages.Exited:
		j.noteExits(ctx, token, topology.NodeID(o.Node), protocol.ToldExits{Exits: m.Exits, AgesMs: m.AgesMs,
			At: j.p.Clock.Now()}, false)
	case *messages.Warned:
		if j.att != nil && messages.FromToken(j.att.Token) == token {
			j.onWarned(ctx, s, m)
		}
	case *messages.Ended:
		j.noteKept(ctx, token, topology.NodeID(o.Node), m.Held, m.NextPort)
		j.noteExits(ctx, token, topology.NodeID(o.Node), protocol.ToldExits{Exits: m.Exits, AgesMs: m.AgesMs,
			At: j.p.Clock.Now()}, true)
	default:
		ctx.Send(j.coordinatorOf(ctx, token), m)
	}
}

func (j *Job) coordinatorOf(ctx actor.Context, t topology.Token) *actor.PID {
	if j.coordinator != nil && t == j.token {
		return j.coordinator
	}
	return actor.NewPID(ctx.Self().Address, ctx.Self().Id+"/"+actors.AttemptName(t))
}

// attempt finds the record of a token that still lacks evidence.
func (j *Job) attempt(t topology.Token) *messages.AttemptRecord {
	if j.att != nil && messages.FromToken(j.att.Token) == t {
		return j.att
	}
	for _, a := range j.owed {
		if messages.FromToken(a.Token) == t {
			return a
		}
	}
	return nil
}

// notedExit is exit evidence on its way to disk.
type notedExit struct {
	*messages.Exit
	ended actors.Instant // by this process's clock
}

// noteExits keeps exit evidence until it is on disk. The argument over reports that the node holds nothing of the
// token. Members without an exit then never ran, or their exit was not observed.
func (j *Job) noteExits(ctx actor.Context, t topology.Token, n topology.NodeID, told protocol.ToldExits, over bool) {
	a := j.attempt(t)
	if a == nil {
		return
	}
	j.adoptSaved(ctx, t, told.Exits)
	exits := map[int32]notedExit{}
	for i, e := range told.Exits {
		exits[e.Rank] = notedExit{j.noteSavedExit(t, e), told.Ended(i)}
	}
	var gone []int32
	news := false
	for _, p := range a.Places {
		e := exits[p.Rank]
		if p.Node != string(n) || (e.Exit == nil && !over) {
			continue
		}
		switch noted := j.exits[t][p.Rank]; {
		case p.Exit == nil && noted.Exit == nil:
			if e.Exit == nil {
				e = notedExit{j.exitMissing(a, p.Rank), told.At}
			}
			j.addExit(t, p.Rank, e)
			news = true
		case p.Exit == nil && e.Exit != nil && e.ended < noted.ended: // the first report was delayed longer
			j.addExit(t, p.Rank, notedExit{noted.Exit, e.ended})
		}
		if p.Exit.Ran() || p.Exit == nil && j.exits[t][p.Rank].Ran() {
			gone = append(gone, p.Rank)
		}
	}
	if j.coordinator != nil && t == j.token && len(gone) > 0 {
		ctx.Send(j.coordinator, protocol.RanksGone{Node: n, Ranks: gone})
	}
	if !news {
		j.forgetAt(ctx, a, n) // the node repeats exits that are on disk, so the Forget was lost
	}
	j.look(ctx)
	j.advance(ctx)
}

func (j *Job) addExit(t topology.Token, rank int32, e notedExit) {
	if j.exits == nil { // no process of a waiting job has ended
		j.exits = map[topology.Token]map[int32]notedExit{}
	}
	if j.exits[t] == nil {
		j.exits[t] = map[int32]notedExit{}
	}
	j.exits[t][rank] = e
	if t == messages.FromToken(j.rec.Attempt) {
		j.failed.note(t, rank, e)
	}
}

// exitMissing returns the exit of a member for which there is no report.
func (j *Job) exitMissing(a *messages.AttemptRecord, rank int32) *messages.Exit {
	kind := messages.ExitKind_EXIT_KIND_NEVER_STARTED
	if a.StartedUnixMs != 0 || a == j.att && j.started != 0 { // another attempt may be running by now
		kind = messages.ExitKind_EXIT_KIND_SUPERVISOR_LOST
	}
	return &messages.Exit{Rank: rank, Kind: kind, AtUnixMs: j.p.Clock.WallMs(), Detail: "node has no task of it"}
}

// goneAt is a node on which a write completed the evidence of an attempt.
type goneAt struct {
	attempt *messages.AttemptRecord
	node    topology.NodeID
}

// newlyGone returns the nodes whose evidence is complete after a write and was not before.
func (j *Job) newlyGone(touched []*messages.AttemptRecord) []goneAt {
	var news []goneAt
	for _, a := range touched {
		before := j.attempt(messages.FromToken(a.Token))
		for i, p := range a.Places {
			fresh := p.Exit != nil && before != nil && before.Places[i].Exit == nil
			last := len(news) - 1
			if fresh && (last < 0 || string(news[last].node) != p.Node || news[last].attempt != a) {
				news = append(news, goneAt{a, topology.NodeID(p.Node)})
			}
		}
	}
	return news
}

// forgetAt allows a node to drop exits that are on disk here, and reports to the Scheduler that the attempt holds
// nothing there.
func (j *Job) forgetAt(ctx actor.Context, a *messages.AttemptRecord, n topology.NodeID) {
	if !isGone(a, n) {
		return
	}
	s := j.contacts[n]
	token := messages.FromToken(a.Token)
	if s.keeps == token && j.keepsExits(a, n) {
		return
	}
	version := s.version
	if s.keeps == token { // the node frees the resources now
		version++
	}
	ctx.Send(j.peers.Scheduler, protocol.Vacated{Token: token, Answers: []protocol.Answer{{Node: n,
		Incarnation: s.incarnation, Version: version}}})
	if s.up && s.incarnation != nil {
		ctx.Request(j.p.Peers.Node(n), &messages.Forget{Order: j.order(token, n, s)})
	}
}

func (j *Job) order(t topology.Token, n topology.NodeID, s *contact) *messages.Order {
	j.seq++
	return &messages.Order{
		Epoch: j.p.Epoch, Token: messages.ToToken(t), Job: string(j.id),
		Node: string(n), Incarnation: s.incarnation, Seq: j.seq,
	}
}

// stopAll sends Stop to every reachable node that lacks evidence of an ended attempt. It reports whether there was such
// a node.
func (j *Job) stopAll(ctx actor.Context) bool {
	any := false
	stop := func(a *messages.AttemptRecord) {
		if a == nil || a.End == nil {
			return
		}
		for _, n := range protocol.Debtors(a) {
			any = j.stopAt(ctx, a, topology.NodeID(n)) || any
		}
	}
	stop(j.att)
	for _, a := range j.owed {
		stop(a)
	}
	return any
}

func (j *Job) stopAt(ctx actor.Context, a *messages.AttemptRecord, n topology.NodeID) bool {
	s := j.contacts[n]
	if !s.up {
		return false // unconfirmed allocation: the node gets a Stop after its next Hello
	}
	if s.incarnation != nil {
		ctx.Request(j.p.Peers.Node(n), &messages.Stop{
			Order: j.order(messages.FromToken(a.Token), n, s), Cause: causeToldTo(s, a.End.Cause),
			Signal: j.rec.Spec.GetStop().GetSignal(), GraceMs: j.graceOf(a).Milliseconds(),
			HoldMs: j.holdLeft(a, n),
		})
	}
	return true
}

func (j *Job) onResend(ctx actor.Context, m actors.ResendDue) {
	if j.resend.Due(m) && j.stopAll(ctx) {
		j.resend.Again(ctx, &j.p.Ports, m)
	}
}

// onSighted handles a node's report about an attempt. It is called after every Hello, and if a ledger report requires
// an action.
func (j *Job) onSighted(ctx actor.Context, m protocol.Sighted) {
	s := j.contact(m.Node, m.MachineID)
	if s.machineID != m.MachineID {
		return // another machine with this name: its ledger does not concern this job
	}
	if !messages.SameIncarnation(s.incarnation, m.Incarnation) {
		s.incarnation, s.version = m.Incarnation, 0
	}
	overtaken := m.Version < s.version
	s.version = max(s.version, m.Version)
	s.vocabulary, s.up = m.Vocabulary, true
	ctx.Send(j.coordinatorOf(ctx, m.Token), m)
	a := j.attempt(m.Token)
	switch {
	case a == nil:
		j.sightUnknown(ctx, m, s)
	case j.passedOn(m.Token, m.Node):
		// A Stop without a hold would free what the heir takes over.
	case m.Allocation == nil && overtaken:
		// The node has sent newer facts about the attempt.
	case m.Allocation == nil:
		j.noteKept(ctx, m.Token, m.Node, false, 0)
		j.sightMissing(ctx, a, m)
	case m.Allocation.State == messages.SliceState_SLICE_STATE_OVER:
		j.noteKept(ctx, m.Token, m.Node, false, 0)
		j.noteBegun(m)
		j.noteExits(ctx, m.Token, m.Node, m.Told(), true)
	default:
		if m.Allocation.Held {
			j.noteKept(ctx, m.Token, m.Node, true, m.Allocation.RendezvousPort)
		}
		if len(m.Allocation.Exits) > 0 {
			j.noteExits(ctx, m.Token, m.Node, m.Told(), false)
		}
		j.sightAlive(ctx, a, m, overtaken)
		j.warnReturned(ctx, m.Node)
	}
	if j.states.In(jobQueued) {
		j.wait(ctx)
	}
}

// sightUnknown handles a token that was never committed, or whose evidence is complete on disk.
func (j *Job) sightUnknown(ctx actor.Context, m protocol.Sighted, s *contact) {
	if m.Allocation == nil || m.Token == j.token && !j.states.In(jobQueued, jobClosing, jobSettling, jobOver) {
		return // the attempt before COMMIT: its Coordinator handles it
	}
	switch {
	case j.passedOn(m.Token, m.Node):
		// The heir's Commit is on its way, and this report may be older than the exits on disk.
	case m.Allocation.State == messages.SliceState_SLICE_STATE_RESERVED:
		ctx.Request(j.p.Peers.Node(m.Node), &messages.Abort{Order: j.order(m.Token, m.Node, s)})
	case m.Allocation.State == messages.SliceState_SLICE_STATE_OVER:
		ctx.Request(j.p.Peers.Node(m.Node), &messages.Forget{Order: j.order(m.Token, m.Node, s)})
	default:
		// The node's disk failed while the end was reported, and a restart of the agent restored the allocation. COMMIT, the
		// end and all evidence are on disk. Or the node reports an attempt that was never committed. In both cases a Stop is
		// harmless.
		j.p.Host.Count("job.unknown_slice", 1)
		ctx.Request(j.p.Peers.Node(m.Node), &messages.Stop{
			Order: j.order(m.Token, m.Node, s), Cause: messages.Cause_CAUSE_MACHINE_LOST,
			GraceMs: actors.GraceOf(j.rec.Spec, j.p.Constants).Milliseconds(),
		})
	}
}

// sightMissing handles a node that holds nothing of the attempt, so no task of it runs there.
func (j *Job) sightMissing(ctx actor.Context, a *messages.AttemptRecord, m protocol.Sighted) {
	switch {
	case a.End != nil:
		j.noteExits(ctx, m.Token, m.Node, m.Told(), true)
	case j.states.In(jobRunning):
		j.noteExits(ctx, m.Token, m.Node, m.Told(), true)
	}
}

// sightAlive handles a node that holds the attempt. It stops an ended attempt, and it notices if an agent returned with
// an earlier state.
func (j *Job) sightAlive(ctx actor.Context, a *messages.AttemptRecord, m protocol.Sighted, overtaken bool) {
	j.noteBegun(m)
	switch {
	case a.End != nil:
		j.stopAt(ctx, a, m.Node)
		j.resend.Begin(ctx, &j.p.Ports)
	case !j.livesOn(m.Node):
		// The gang was not placed on this machine, so its report does not affect the gang.
	case overtaken:
		// The attempt has started in the meantime. A late Hello repeats the view, which may be older than the known facts.
	case j.states.In(jobRunning) && m.Allocation.State < messages.SliceState_SLICE_STATE_STARTED:
		j.finish(ctx, messages.Cause_CAUSE_MACHINE_LOST, string(m.Node)+": its agent returned without the tasks",
			m.Node)
	}
}

func (j *Job) onNodeLost(ctx actor.Context, m protocol.NodeLost) {
	s := j.contacts[m.Node]
	if s == nil {
		return
	}
	s.up, s.since = false, m.SilentSince
	for _, child := range ctx.Children() {
		ctx.Send(child, m)
	}
	if j.att != nil && j.att.End == nil && j.livesOn(m.Node) {
		j.loseMember(ctx, m)
	}
	j.show(ctx)
	j.advance(ctx)
	if j.states.In(jobQueued) {
		j.wait(ctx)
	}
}

// loseMember ends the attempt, or waits for the node to return with it.
func (j *Job) loseMember(ctx actor.Context, m protocol.NodeLost) {
	if grace := j.rec.Spec.LostGraceMs; grace > 0 && j.states.In(jobRunning) {
		j.p.Clock.After(actors.Millis(grace), ctx.Self(), graceOver{Token: j.token, Node: m.Node, Since: m.SilentSince})
		return
	}
	j.finish(ctx, messages.Cause_CAUSE_MACHINE_LOST, string(m.Node)+" was lost", m.Node)
}

// livesOn reports whether a member without exit evidence is on the node.
func (j *Job) livesOn(n topology.NodeID) bool {
	for _, p := range j.att.Places {
		if p.Node == string(n) && p.Exit == nil && j.exits[messages.FromToken(j.att.Token)][p.Rank].Exit == nil {
			return true
		}
	}
	return false
}

// onNodeGone accepts the operator's statement that nothing runs on the node any more.
func (j *Job) onNodeGone(ctx actor.Context, m protocol.NodeGone) {
	s := j.contacts[m.Node]
	if s == nil {
		return
	}
	s.up = false
	for _, child := range ctx.Children() {
		ctx.Send(child, protocol.NodeLost{Node: m.Node})
	}
	removed := func(a *messages.AttemptRecord) {
		for _, p := range a.Places {
			if p.Node == string(m.Node) && p.Exit == nil && (m.MachineID == "" || m.MachineID == p.MachineId) {
				exit := &messages.Exit{Rank: p.Rank, Kind: messages.ExitKind_EXIT_KIND_REMOVED, AtUnixMs: j.p.Clock.WallMs()}
				j.addExit(messages.FromToken(a.Token), p.Rank, notedExit{exit, j.p.Clock.Now()})
			}
		}
	}
	if j.att != nil {
		removed(j.att)
	}
	for _, a := range j.owed {
		removed(a)
	}
	j.advance(ctx)
}

// onMoveOff ends the tasks on a drained node, or gives up an attempt that was about to start there. A job may have
// neither. Then the node only has an unconfirmed allocation of an earlier attempt, and the new attempt uses other
// nodes.
func (j *Job) onMoveOff(ctx actor.Context, m protocol.MoveOff) {
	switch {
	case j.att != nil && j.livesOn(m.Node):
		j.finish(ctx, m.Cause, m.Detail, m.Node)
	case j.att.GetEnd() != nil && !j.heir.from.IsZero():
		j.stopHeir(ctx, m)
	case j.noteMoveOff(m):
		j.advance(ctx)
	}
}

// noteMoveOff records that the attempt before COMMIT is given up. It returns false if the attempt does not use the
// node.
func (j *Job) noteMoveOff(m protocol.MoveOff) bool {
	is := j.states.In(jobReserving, jobDeciding) &&
		slices.ContainsFunc(j.targets, func(t protocol.Target) bool { return t.Node == m.Node })
	if is {
		j.moved = &m
	}
	return is
}

// onDoubted gives up an attempt before COMMIT that would run in parallel to a run that the store has lost.
func (j *Job) onDoubted(ctx actor.Context, m protocol.Doubted) {
	if j.states.In(jobReserving, jobDeciding) {
		j.moved = &protocol.MoveOff{Node: m.Node, Cause: messages.Cause_CAUSE_REQUEUED, Detail: string(m.Node) +
			" has a later run of it"}
		j.advance(ctx)
	}
}

func (j *Job) onTimer(ctx actor.Context, m any) {
	switch m := m.(type) {
	case backoffOver:
		if m.Seq == j.timers && j.states.In(jobQueued) {
			j.wait(ctx)
		}
	case deadlineDue:
		j.onDeadlineDue(ctx)
	case timeUp:
		if m.Seq == j.limitTimer && m.Token == j.token && j.states.In(jobStarting, jobRunning) && !j.prolonged() {
			j.finish(ctx, messages.Cause_CAUSE_TIME_LIMIT, "time limit reached", "")
		}
	case warnDue:
		j.onWarnDue(ctx, m)
	case hangDue:
		j.onHangDue(ctx)
	case graceOver:
		s := j.contacts[m.Node]
		if m.Token == j.token && !s.up && s.since == m.Since && j.states.In(jobRunning) {
			j.finish(ctx, messages.Cause_CAUSE_MACHINE_LOST, string(m.Node)+" was lost and did not return in time", m.Node)
		}
	}
}

// decline returns the claims of an attempt that has no Coordinator.
func (j *Job) decline(ctx actor.Context, t topology.Token, targets []protocol.Target) {
	ctx.Send(j.peers.Scheduler, protocol.Declined{Job: j.id, Token: t, Targets: targets, Unknown: true})
}

// onClaim keeps a claim while a node lacks evidence, and for a while in case COMMIT covers it.
func (j *Job) onClaim(ctx actor.Context, c protocol.Claim) {
	if c.Token == j.token && j.states.In(jobReserving, jobDeciding) ||
		j.heir.next != nil && c.Token == j.heir.next.Token {
		j.p.Clock.After(protocol.ClaimTime(&j.p.Constants), j.peers.Scheduler, c)
		return
	}
	a := j.attempt(c.Token)
	over := protocol.Declined{Job: j.id, Token: c.Token, Unknown: a == nil}
	for _, t := range c.Targets {
		if a == nil || !slices.Contains(protocol.Debtors(a), string(t.Node)) {
			over.Targets = append(over.Targets, t)
		}
	}
	if over.Targets != nil {
		ctx.Send(j.peers.Scheduler, over)
	}
}
