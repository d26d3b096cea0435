package mirror

import (
	"strings"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/explain"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns the facts of `explain`: the known facts about the group, the start and the job, as fields. The reader
// of the reply turns them into text.

// listedMost limits each list of an explanation, because an answer must fit into a message on a cluster of any size.
const listedMost = 100

// onExplainJob answers why a job waits, or why a job with the given spec would wait.
func (m *Mirror) onExplainJob(q *messages.ExplainJob) *messages.ExplainJobReply {
	reply := &messages.ExplainJobReply{Outcome: messages.OK()}
	if q.Spec == nil {
		reply.Explanation, reply.Outcome = m.explained(q.Job)
	} else {
		reply.Explanation = m.supposed(q.Principal, q.Spec)
	}
	if reply.Explanation != nil {
		reply.Text = explain.Of(reply.Explanation).Line()
	}
	if q.Spec != nil {
		reply.Explanation.Job = &messages.JobName{Name: q.Spec.Called()} // the reader writes the name itself
	}
	return reply
}

// explained returns the facts about a job.
func (m *Mirror) explained(job string) (*messages.Explanation, *messages.Outcome) {
	status, outcome := m.find(job)
	if status == nil {
		return nil, outcome
	}
	id := status.GetRecord().GetId()
	e := explain.Status(status, m.shortID(id))
	e.AtUnixMs = m.timeOfDay(0)
	s, ok := m.jobs.get(id)
	if !ok { // an array element that is not a job
		return e, outcome
	}
	if messages.Waits(s.Phase) {
		m.addDependencies(e, s.GetRecord())
		e.Failure = messages.StartFailure(s.JobStatus)
	}
	if g := m.waiting.groups[s.group]; g != nil {
		if answer := m.picture.explanation(g, topology.JobID(id)); answer.Refusal != nil {
			m.fill(e, answer, &g.asked)
		}
		if e.Never {
			return e, outcome // a job that can never start has no start time
		}
	}
	m.addStart(e, &s)
	return e, outcome
}

// addDependencies adds the jobs that a job waits for.
func (m *Mirror) addDependencies(e *messages.Explanation, r *messages.JobRecord) {
	for _, a := range r.Awaits() {
		e.Dependencies = append(e.Dependencies, &messages.Dependency{
			Job: m.jobName(a.GetJob()), End: a.GetEnd(), Phase: m.phaseOf(a.GetJob()),
		})
	}
}

// addStart adds the start estimate of a job, the work ahead of it, and the limits of its queue.
func (m *Mirror) addStart(e *messages.Explanation, s *shownJob) {
	if line := m.starts.lines[s.burst]; line != nil && s.Phase == messages.PhaseQueued {
		e.Limit, e.Quota = line.Over, line.Share
	}
	if m.starts.told {
		e.Start = m.prospect(s)
	}
	if e.Start != nil && e.Limit != "" && e.Start.Why == e.Limit {
		e.Start = withoutWhy(e.Start)
	}
	if w := m.waiting.standing(s); e.Start == nil && s.group != 0 {
		e.Ahead, e.Waiting = int32(w.Ahead), int32(w.Waiting)
	}
	if p := m.starts.promises[topology.JobID(s.GetRecord().GetId())]; p != nil && p.Endless != "" {
		e.NoLimit = m.jobName(string(p.Endless))
	} else if line := m.starts.lines[s.burst]; line != nil && line.Endless != "" {
		e.NoLimit = m.jobName(string(line.Endless))
	}
	if way := m.wayOut(s); way != nil {
		e.Relaxations = append(e.Relaxations, way)
	}
}

// withoutWhy returns an estimate whose reason is shown elsewhere.
func withoutWhy(p *messages.Prospect) *messages.Prospect {
	return &messages.Prospect{
		Basis: p.Basis, Why: "the queue is at its limit", Ahead: p.Ahead, AheadGpuSeconds: p.AheadGpuSeconds,
		AheadMs: p.AheadMs,
	}
}

// fill adds the obstacles of a gang: the best domain, the jobs that use it, and the changes that would help.
func (m *Mirror) fill(e *messages.Explanation, from *topology.Explanation, asked *policy.Question) {
	r := from.Refusal
	if e.Never = from.Never && !asked.Patient; e.Never { // a gang that prefers a level may start elsewhere later
		gang := asked.Gang
		gang.Avoid, gang.Closing = nil, nil // for this search only
		if possible, why := topology.Feasible(m.picture.tree, gang); !possible {
			because(e, messages.NeverReason(why))
		}
	}
	e.Needs = demandOf(&asked.Gang, asked.Patient)
	e.Space = spaceOf(from)
	for _, o := range from.Out {
		if len(e.Unavailable) == listedMost {
			e.MoreUnavailable++
			continue
		}
		e.Unavailable = append(e.Unavailable, m.unavailable(o))
	}
	for i := range from.Holders {
		h := &from.Holders[i]
		switch {
		case r.Scarce(h.Amount).IsZero():
		case len(e.InUse) == listedMost:
			e.MoreInUse++
		default:
			e.InUse = append(e.InUse, m.holding(h))
		}
	}
	for _, k := range from.Kept {
		switch {
		case r.Scarce(k.Amount).IsZero():
		case len(e.Reserved) == listedMost:
			e.MoreReserved++
		default:
			e.Reserved = append(e.Reserved, &messages.Holding{
				Job: m.jobName(string(k.ID)), Amount: messages.ToResources(k.Amount),
			})
		}
	}
	if from.Ends != nil {
		e.FitsByUnixMs = m.timeOfDay(from.Ends.By)
		for _, job := range from.Ends.Jobs[:min(len(from.Ends.Jobs), listedMost)] {
			e.FitsAfter = append(e.FitsAfter, m.jobName(string(job)))
		}
	}
	e.Conflict, e.InTheWay = constraintsOf(from.Conflict), constraintsOf(from.InTheWay)
	e.AtOnce = int32(from.AtOnce)
	for _, relaxed := range from.Relaxations {
		if asked.Patient && relaxed.Gang.Required == "" && len(relaxed.Return) == 0 &&
			relaxed.Text == "with topology preferred "+asked.Gang.Required {
			relaxed.Text = "without topology patience" // it already prefers the level
		}
		e.Relaxations = append(e.Relaxations, relaxationOf(&relaxed))
	}
}

// because sets the reason of an explanation.
func because(e *messages.Explanation, why messages.Reason) *messages.Explanation {
	e.Reason, e.ReasonCode = why.Text, why.Code.String()
	return e
}

// jobName names a job that another one waits for.
func (m *Mirror) jobName(id string) *messages.JobName {
	name := &messages.JobName{Id: id, ShortId: m.shortID(id)}
	if s, ok := m.jobs.get(id); ok {
		name.Name, name.Owner = s.GetRecord().GetSpec().Called(), s.GetRecord().Whose()
	}
	return name
}

// holding returns the resources that a job uses, and its end by its time limit.
func (m *Mirror) holding(h *topology.Holding) *messages.Holding {
	out := &messages.Holding{
		Job: m.jobName(string(h.Job)), Amount: messages.ToResources(h.Amount), Nodes: int32(h.Nodes), Ends: explain.Unknown,
	}
	s, ok := m.jobs.get(string(h.Job))
	switch {
	case h.EndsBy > 0:
		out.EndsUnixMs, out.Ends = m.timeOfDay(h.EndsBy), explain.ByLimit
	case ok && s.GetRecord().GetSpec().GetTimeLimitMs() == 0:
		out.Ends = explain.NoLimit
	}
	return out
}

// unavailable returns a node that takes no tasks of a gang, and the operator who drained or cordoned it.
func (m *Mirror) unavailable(o topology.OutOfService) *messages.UnavailableNode {
	out := &messages.UnavailableNode{Node: string(o.Node), Reason: o.Why}
	s, _ := m.nodes.get(string(o.Node))
	for verb, deed := range map[string]*messages.Deed{ //order: a node has one of these
		"drained by ": s.GetRecord().GetDrained(), "cordoned by ": s.GetRecord().GetCordoned(),
	} {
		if deed != nil && strings.HasPrefix(o.Why, verb) {
			out.By, out.Note = deed.GetBy().GetName(), deed.GetReason()
		}
	}
	return out
}

// demandOf returns the request of a gang.
func demandOf(g *topology.Gang, patient bool) *messages.Demand {
	d := &messages.Demand{
		GpuType: g.GPUType, Level: g.Required, Preferred: patient, WholeNodes: g.Split == topology.SplitWhole,
		User: g.Account.Name, NamedNodes: len(g.Only) > 0, ExcludedNodes: len(g.Exclude) > 0, FailedNodes: len(g.Avoid) > 0,
		DrainingNodes: len(g.Closing) > 0,
	}
	if g.Split != topology.SplitNone {
		d.Total = messages.ToResources(g.Total)
		return d
	}
	n := int64(g.Replicas)
	d.Each, d.Tasks, d.SeparateNodes = messages.ToResources(g.Each), g.Replicas, g.Apart && n > 1
	d.Spares = g.Spares
	d.Total = &messages.Resources{
		MilliCpu: g.Each.MilliCPU * n, MemoryBytes: g.Each.MemoryBytes * n, MilliGpu: g.Each.MilliGPU * n,
	}
	return d
}

// spaceOf returns the domain that fits most of a gang, with the counts of its nodes.
func spaceOf(from *topology.Explanation) *messages.Space {
	r, c := from.Refusal, &from.Best
	count := func(n int) int32 { return int32(min(n, 1<<30)) }
	s := &messages.Space{
		Level: r.Level, Domain: r.Domain, Unmet: r.Unmet, Nodes: count(c.Machines), NodesOther: count(c.WrongKind),
		NodesUnavailable: count(c.OutOfService), NodesExcluded: count(c.Excluded), NodesUseful: count(c.Useful),
		NodesWithoutGpus: count(c.LackGPU), NodesWithoutCpus: count(c.LackCPU), NodesWithoutMemory: count(c.LackMemory),
	}
	if r.Cause != topology.NoRoom {
		return s
	}
	free, total, usable := r.Space()
	s.Free, s.Total, s.Usable = messages.ToResources(free), messages.ToResources(total), messages.ToResources(usable)
	if r.Near.Node != "" {
		asked, has := r.Near.Lack()
		s.Nearest, s.NearestAsked, s.NearestHas = string(r.Near.Node), messages.ToResources(asked), messages.ToResources(has)
	}
	return s
}

// constraintsOf returns the requirements of a gang that could be dropped.
func constraintsOf(all []topology.Constraint) (out []*messages.Constraint) {
	for _, c := range all {
		out = append(out, &messages.Constraint{Kind: c.Kind.Word(), Name: c.Name()})
	}
	return out
}

// relaxationOf returns a change with which a gang would start.
func relaxationOf(from *topology.Relaxation) *messages.Relaxation {
	r := &messages.Relaxation{Text: from.Text}
	for _, id := range from.Return[:min(len(from.Return), listedMost)] {
		r.ReturnNodes = append(r.ReturnNodes, string(id))
	}
	if len(from.Return) == 0 {
		r.Needs = demandOf(&from.Gang, false)
	}
	return r
}
