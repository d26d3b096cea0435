package job

import (
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns what a Job does after a takeover with the requests to save of an earlier leader, which are not on
// disk.

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
