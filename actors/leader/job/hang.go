package job

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/hang"
	"github.com/yi-json/synapse/topology"
)

// This file owns hangs: attempts in which no rank makes progress. Nodes report the ranks that make none, with what they
// wait for. When every rank is accounted for, package hang decides. Nothing of this is on disk. A new leader decides
// again, because the nodes repeat their reports.

// judgeEvery is the least time between two decisions about an attempt. A decision looks at every rank, and thousands of
// nodes can report within a second.
const judgeEvery = time.Second

// quiet holds the reports of the nodes of an attempt about ranks without progress.
type quiet struct {
	nodes  map[topology.NodeID]quietNode
	stall  *messages.Stall // nil: the attempt makes progress
	judged actors.Instant  // time of the last decision; 0: none
	due    bool            // a decision waits for judgeEvery to pass
}

// hangDue requests the decision that waits.
type hangDue struct{}

type quietNode struct {
	*messages.AttemptProgress
	at actors.Instant
}

// beginWatch drops the warnings, requests and reports of an earlier attempt.
func (j *Job) beginWatch(ranBefore bool) {
	j.warning.begin(j.life, ranBefore)
	j.saving.begin()
	j.quiet = quiet{}
	j.idle.begin()
}

// onProgressHeard notes the report of a node and decides again.
func (j *Job) onProgressHeard(ctx actor.Context, m protocol.ProgressHeard) {
	if !j.states.In(jobRunning) || messages.FromToken(m.Progress.GetToken()) != messages.FromToken(j.att.GetToken()) {
		return
	}
	if _, known := j.contacts[m.Node]; !known {
		return
	}
	if j.noteUse(ctx, m); !j.rec.Spec.WatchesHangs() {
		return
	}
	if j.quiet.nodes == nil {
		j.quiet.nodes = map[topology.NodeID]quietNode{}
	}
	j.quiet.nodes[m.Node] = quietNode{m.Progress, j.p.Clock.Now()}
	if j.quiet.stall == nil && len(m.Progress.Quiet) == 0 || j.quiet.due {
		return
	}
	if wait := judgeEvery - j.p.Clock.Now().Since(j.quiet.judged); j.quiet.judged != 0 && wait > 0 {
		j.quiet.due = true
		j.p.Clock.After(wait, ctx.Self(), hangDue{})
		return
	}
	j.decideHang(ctx)
}

func (j *Job) onHangDue(ctx actor.Context) {
	if j.quiet.due && j.states.In(jobRunning) && j.rec.Spec.WatchesHangs() {
		j.decideHang(ctx)
	}
}

// decideHang decides whether the attempt hangs. If the job wants it, it ends the attempt.
func (j *Job) decideHang(ctx actor.Context) {
	j.quiet.judged, j.quiet.due = j.p.Clock.Now(), false
	c := j.hangCase()
	found, hangs := hang.Judge(c)
	was := j.quiet.stall
	switch {
	case !hangs && was == nil:
		return
	case !hangs:
		j.quiet.stall = nil
	default:
		now := hang.Describe(c, found, j.p.Clock.WallMs())
		if was != nil && (was.Rank == now.Rank || now.Rank < 0) {
			return // the first sentence stays, because its time is the most exact
		}
		j.quiet.stall = now
	}
	j.show(ctx)
	if s := j.quiet.stall; s != nil && j.rec.Spec.GetHang().GetThen() == messages.HangAction_HANG_ACTION_RESTART {
		j.endWith(ctx, &messages.End{Cause: messages.Cause_CAUSE_MEMBER_FAILED, Rank: s.Rank, Node: s.Node,
			Detail: s.Text, Stall: s})
	}
}

// hangCase returns the facts about the attempt. Ranks that have ended do not count. A node tells only of its own ranks.
func (j *Job) hangCase() hang.Case {
	c := hang.Case{Floor: j.rec.Spec.HangFloor(), Paused: j.saving.open()}
	ended := j.exits[messages.FromToken(j.att.Token)]
	live := map[topology.NodeID]map[int32]bool{} // the ranks of each node that has reported
	var nodes []topology.NodeID
	for _, p := range j.att.Places {
		if p.Exit != nil || ended[p.Rank].Exit != nil {
			continue
		}
		c.Tasks++
		node := topology.NodeID(p.Node)
		if _, known := j.quiet.nodes[node]; !known {
			continue
		}
		if live[node] == nil {
			live[node], nodes = map[int32]bool{}, append(nodes, node)
		}
		live[node][p.Rank] = true
	}
	now := j.p.Clock.Now()
	for _, node := range nodes {
		n, ranks := j.quiet.nodes[node], live[node]
		for _, r := range n.Quiet {
			if ranks[r.Rank] {
				c.Ranks = append(c.Ranks, rankOf(string(node), n, r, now))
				delete(ranks, r.Rank) // once each
			}
		}
		c.Active, c.OnTime = c.Active+min(int(n.Active), len(ranks)), c.OnTime+int(n.OnTime)
	}
	return c
}

func rankOf(node string, n quietNode, r *messages.RankState, now actors.Instant) hang.Rank {
	lasted := func(since int64) time.Duration {
		if since == 0 {
			return 0
		}
		return max(time.Duration(n.SentNs-since), 0) + now.Since(n.at)
	}
	return hang.Rank{
		Rank: r.Rank, Node: node, Step: r.Step, Reports: r.Reports, Late: r.Late, Silent: lasted(r.ChangedNs),
		Busy: r.QuietNs == 0, Quiet: lasted(r.QuietNs), Pause: r.Pause, Wait: r.Wait, Call: r.Call, Unread: r.UnreadBytes,
	}
}

// showStall adds a hang to the status of a running job.
func (j *Job) showStall(status *messages.JobStatus) {
	if s := j.quiet.stall; s != nil && j.states.In(jobRunning) {
		status.Stall, status.Reason = s, s.Text
	}
}
