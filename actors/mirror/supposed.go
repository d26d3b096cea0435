package mirror

import (
	"strconv"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns the explanation for a spec that was not submitted: the reason why such a job would wait now. The query
// stores nothing and does not reach the Scheduler.

// supposed returns the explanation that a job of this spec would get. If the spec requests no memory, it gets its share
// of a node's memory, as a submitted job does.
func (m *Mirror) supposed(by *messages.Principal, spec *messages.JobSpec) string {
	if spec.GetBeginUnixMs() > m.timeOfDay(0) {
		return "it would wait: " + messages.BeginsAt(spec)
	}
	fabric := m.picture.fabric
	terms := m.queues.GetQueues().TermsOf(spec.GetQueue())
	gang := messages.GangOf(terms.Selected(spec))
	gang.Account = messages.AccountOf(by, spec)
	if amount := &gang.Each; gang.Each.MemoryBytes == 0 && gang.Total.MemoryBytes == 0 {
		if gang.Split != topology.SplitNone {
			amount = &gang.Total
		}
		amount.MemoryBytes = topology.MemoryByShare(fabric, gang)
	}
	asked := policy.Question{Gang: gang}
	if patient := spec.GetTopology().GetPatienceMs() > 0 && fabric.Finer(gang.Preferred, gang.Required); patient {
		asked.Gang.Required, asked.Patient = gang.Preferred, true
	}
	answer := asked.Explain(fabric, "", m.picture.holders)
	if answer.Refusal == nil {
		return "it would start now"
	}
	answer.NowNs = int64(m.p.Clock.Now())
	text := "it would wait: " + answer.String()
	if n := m.waiting.turns.before(string(policy.LastTurn(spec.GetPriority()))); n > 0 {
		text += " · " + strconv.Itoa(n) + " of " + strconv.Itoa(m.waiting.turns.len()) + " waiting jobs came first"
	}
	return text
}
