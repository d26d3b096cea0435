package job

import (
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns what a Job does after a takeover: it continues with the attempt of an earlier leader, and with the
// requests to save of that leader, which are not on disk.

// resume creates a Coordinator for an attempt that an earlier leader committed. A member whose end is on disk gets no
// Commit and is not waited for.
func (j *Job) resume(ctx actor.Context) {
	plan := j.planOf(j.att)
	j.begunBefore, j.ranBefore = true, j.att.StartedUnixMs != 0
	j.beginWatch(j.ranBefore)
	j.ready = actors.Millis(j.att.StartByLeftMs)
	j.coordinate(ctx, plan)
	j.foretellResumed(ctx)
	if j.att.StartedUnixMs != 0 {
		// The entire limit, until its nodes have reported.
		j.armTimeLimit(ctx, j.p.Clock.Now().Plus(-actors.Millis(j.att.InPlaceMs)))
		j.resumeSaving(ctx)
	}
}

// planOf returns the plan of an attempt whose COMMIT is on disk.
func (j *Job) planOf(a *messages.AttemptRecord) protocol.AttemptPlan {
	plan := protocol.AttemptPlan{
		Job: j.id, Token: messages.FromToken(a.Token), Run: a.Run, Spec: j.rec.Spec, UID: j.rec.Uid,
		Owner: j.rec.GetOwner(), Resumed: a, Inherited: a.Inherited,
	}
	at := map[string]int{}
	for _, p := range a.Places {
		if p.Exit != nil {
			continue
		}
		i, ok := at[p.Node]
		if !ok {
			i = len(plan.Targets)
			at[p.Node] = i
			c := j.contacts[topology.NodeID(p.Node)]
			plan.Targets = append(plan.Targets, protocol.Target{Node: topology.NodeID(p.Node), MachineID: p.MachineId,
				Incarnation: c.incarnation, Vocabulary: c.vocabulary})
		}
		plan.Targets[i].Members = append(plan.Targets[i].Members, &messages.Member{Rank: p.Rank, Amount: p.Grant.Amount})
	}
	return plan
}

// resumeSaving asks again for an end that a user requested with a checkpoint, or if a task has saved and exited.
func (j *Job) resumeSaving(ctx actor.Context) {
	then := j.att.Pending
	i := slices.IndexFunc(j.att.Places, func(p *messages.Place) bool { return p.Exit.GetSaved() })
	if then == nil && i >= 0 {
		then = endBySaved(j.att.Places[i])
	}
	if then != nil && j.savesFirst() {
		j.askToSave(ctx, then.Cause, "", then)
	}
}

// adoptSaved asks the rest of a gang to save after a takeover, if a task saved and exited for a request of an earlier
// leader, which is not on disk. Without this, the exit would be a failure of the job.
func (j *Job) adoptSaved(ctx actor.Context, t topology.Token, exits []*messages.Exit) {
	if j.att == nil || messages.FromToken(j.att.Token) != t || !j.ranBefore || j.saving.request != 0 || !j.savesFirst() {
		return
	}
	for _, e := range exits {
		if j.rec.Spec.Checkpoint.SavedBy(e) && j.rankAt(e.Rank) != nil {
			j.askToSave(ctx, messages.Cause_CAUSE_REQUEUED, "", endBySaved(j.rankAt(e.Rank)))
			return
		}
	}
}

// rankAt returns the place of a rank of the attempt.
func (j *Job) rankAt(rank int32) *messages.Place {
	i := slices.IndexFunc(j.att.Places, func(p *messages.Place) bool { return p.Rank == rank })
	if i < 0 {
		return nil
	}
	return j.att.Places[i]
}

// endBySaved returns the end of an attempt after a rank saved and exited.
func endBySaved(p *messages.Place) *messages.End {
	words := fmt.Sprintf("rank %d on %s saved a checkpoint and exited", p.Rank, p.Node)
	return &messages.End{Cause: messages.Cause_CAUSE_REQUEUED, Rank: -1, Node: p.Node, Detail: words}
}
