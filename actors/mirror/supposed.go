package mirror

import (
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns the explanation for a spec that was not submitted: the reason why such a job would wait now. The query
// stores nothing and does not reach the Scheduler.

// supposed returns the facts about a job of this spec. Like a submit it gets its share of a machine's memory where it
// asks for none.
func (m *Mirror) supposed(by *messages.Principal, spec *messages.JobSpec) *messages.Explanation {
	now := m.timeOfDay(0)
	e := &messages.Explanation{AtUnixMs: now}
	if spec.GetBeginUnixMs() > now {
		return because(e, messages.WaitBeginTime.Because(messages.Moment(spec.GetBeginUnixMs(), now)))
	}
	tree := m.picture.tree
	terms := m.queues.GetQueues().TermsOf(spec.GetQueue())
	gang := messages.GangOf(terms.Selected(spec))
	gang.Account = messages.AccountOf(by, spec)
	if amount := &gang.Each; gang.Each.MemoryBytes == 0 && gang.Total.MemoryBytes == 0 {
		if gang.Split != topology.SplitNone {
			amount = &gang.Total
		}
		amount.MemoryBytes = topology.MemoryByShare(tree, gang)
	}
	asked := policy.Question{Gang: gang}
	if patient := spec.GetTopology().GetPatienceMs() > 0 && tree.Finer(gang.Preferred, gang.Required); patient {
		asked.Gang.Required, asked.Patient = gang.Preferred, true
	}
	answer := asked.Explain(tree, "", m.picture.holders)
	if answer.Refusal == nil {
		return e
	}
	m.fill(because(e, messages.WhyRefused(answer.Refusal)), &answer, &asked)
	if n := m.waiting.turns.before(string(policy.LastTurn(spec.GetPriority()))); n > 0 {
		e.Ahead, e.Waiting = int32(n), int32(m.waiting.turns.len())
	}
	return e
}
