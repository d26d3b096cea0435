// Package mirror holds the actor that answers readers from a copy of the state of jobs and nodes. The leader's actors
// send it every change.
package mirror

import (
	"fmt"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/goodput"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/queues"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// Mirror owns the state that readers see: the latest status of every live job, of the newest finished jobs, and of
// every node. The Mirror decides nothing, so readers and watchers do not slow the Scheduler.
//
// The Mirror sends messages to readers, to watchers (watch.go), and to the Scheduler when there is GPU time to store
// (gpu_time.go). It sends no requests.
//
// The Mirror explains why a job waits from its own copy of the topology tree (picture.go).
//
// A status never changes after it was shown, so answers share it and need no copy. The cost of a page depends on the
// page's length, not on the number of jobs, because both tables are sorted. If a filter matches few entries, a page
// examines a bounded number of entries and returns the ID from which to continue.
type Mirror struct {
	p        *actors.Ports
	jobs     ordered[shownJob]
	nodes    ordered[shownNode]
	finished finished
	watch    watch
	waiting  waiting
	picture  picture
	starts   starts
	usage    usage
	gpuTime  gpuTime
	queues   *messages.QueuesRecord // as they are on disk; nil: none are configured
}

// shownJob holds a job's last status and the last event about the job.
type shownJob struct {
	*messages.JobStatus
	told     *messages.Event
	group    policy.GroupID // its group of waiting jobs; 0: it is in no queue
	turn     policy.Turn    // its position in the queue, while it is queued
	burst    uint64         // the planner's burst of similar jobs; 0: none
	counts   tally          // its part of its owner's and its queue's shares
	progress *gangProgress  // progress of its latest attempt; nil: none was reported
	use      *gangUse       // what its latest attempt uses; nil: not measured
	lent     int64          // the last backfill window that was too short for it to get ready
}

// shownNode holds a node's last status and the last event about the node.
type shownNode struct {
	*messages.NodeStatus
	told   *messages.Event
	named  *messages.NodeUsers
	outage Outage
	free   goodput.Class
	untrue bool
}

// pageBytes limits the size of a page's entries to half of a message's limit. Jobs with large environments therefore
// make pages shorter.
const pageBytes = 2 << 20

// candidates is the number of IDs that an error lists if a prefix matches several jobs.
const candidates = 5

// New returns an empty Mirror. The levels are those of the topology tree, coarse to fine.
func New(p *actors.Ports, epoch uint64, levels []string) actor.Actor {
	return &Mirror{
		p: p, watch: watch{seq: firstSeq(epoch)}, waiting: newWaiting(), picture: newPicture(levels), usage: newUsage(),
		gpuTime: newGPUTime(p.Clock),
	}
}

// Receive dispatches a message. It checks no epoch, because the Mirror decides nothing.
func (m *Mirror) Receive(ctx actor.Context) {
	switch message := ctx.Message().(type) {
	case JobShown:
		m.onJobShown(ctx, message.Status)
	case WaitingShown:
		m.onWaitingShown(ctx, message)
	case WaitsNoMore:
		m.onWaitsNoMore(message)
	case StartsShown:
		before := m.starts.lines
		m.onStartsShown(message)
		m.tellLimits(ctx, before)
	case RoomsShown:
		m.onRoomsShown(message)
	case PlanningShown:
		m.waiting.idle = message.Reason
	case JobRecalled:
		m.onJobRecalled(actors.Ended(message))
	case NodeShown:
		m.onNodeShown(ctx, message)
	case ProgressShown:
		m.onProgressShown(ctx, message)
	case NodeHidden:
		m.onNodeHidden(ctx, string(message.Node))
	case *messages.GetJob:
		reply(ctx, m.onGetJob(message))
	case *messages.ExplainJob:
		reply(ctx, m.aside(message))
	case *messages.ListJobs:
		reply(ctx, m.onListJobs(message))
	case *messages.ListNodes:
		reply(ctx, m.onListNodes(message))
	case CountAll:
		reply(ctx, m.onCountAll())
	case QueuesShown:
		m.queues = message.Record
	case RunEnded:
		m.onRunEnded(message)
	case WantsShown:
		m.gpuTime.meter.Want(m.gpuTime.now(m.p.Clock), message.Wants)
	case GPUTimeRecalled:
		m.onGPUTimeRecalled(message)
	case TakeGPUTime:
		reply(ctx, m.onTakeGPUTime())
	case *messages.GetEfficiency:
		reply(ctx, m.onGetEfficiency(message))
	case *messages.GetQueues:
		reply(ctx, m.Queues())
	case *messages.Watch:
		m.onWatch(ctx, message)
	case *messages.Unwatch:
		m.watch.remove(ctx.Sender())
	default:
		return
	}
	m.tellMoved(ctx)
	m.check()
}

// reply answers the sender, if the message has a sender.
func reply(ctx actor.Context, message any) {
	if ctx.Sender() != nil {
		ctx.Respond(message)
	}
}

// onJobShown replaces the status of a job, and drops the oldest finished job if a limit is exceeded. A finished job
// with an unconfirmed allocation stays until its nodes confirm the exit.
func (m *Mirror) onJobShown(ctx actor.Context, s *messages.JobStatus) {
	id := s.GetRecord().GetId()
	before, ok := m.jobs.get(id)
	if ok {
		m.finished.drop(finishedKey(before.JobStatus))
	}
	now := before
	now.JobStatus, now.told = s, m.tellJob(ctx, before, s)
	if s.Phase != messages.PhaseQueued {
		m.waiting.leave(&now)
	}
	m.charge(&now, ok)
	m.keepProgress(&now)
	now.keepUse()
	m.jobs.put(id, now)
	m.meterJob(before.JobStatus, s)
	if !s.GetRecord().GetState().Terminal() || len(s.GetDebts()) > 0 {
		return
	}
	m.finished.add(finishedKey(s), s)
	for m.finished.isOver(&m.p.Constants) {
		m.jobs.remove(m.finished.dropOldest())
	}
}

func (m *Mirror) onNodeShown(ctx actor.Context, shown NodeShown) {
	s := shown.Status
	id := s.GetRecord().GetId()
	before, _ := m.nodes.get(id)
	now := shownNode{s, m.tellNode(ctx, before, s), shown.Named, shown.Outage, shown.Free, shown.Untrue}
	m.nodes.put(id, now)
	m.meterNode(id)
	if now.told == before.told {
		m.tellBooks(ctx, before.NodeStatus, s)
	}
}

func (m *Mirror) onNodeHidden(ctx actor.Context, id string) {
	if s, ok := m.nodes.get(id); ok {
		m.nodes.remove(id)
		m.gpuTime.meter.Remove(m.gpuTime.now(m.p.Clock), topology.NodeID(id))
		m.tellHidden(ctx, s.NodeStatus)
	}
}

func (m *Mirror) onGetJob(q *messages.GetJob) *messages.GetJobReply {
	status, outcome := m.find(q.Job)
	return &messages.GetJobReply{Outcome: outcome, Job: status}
}

// find finds a job by its ID or by a unique prefix of it.
func (m *Mirror) find(id string) (*messages.JobStatus, *messages.Outcome) {
	if id == "" {
		return nil, &messages.Outcome{
			Code: messages.Code_CODE_INVALID, Field: "job", Text: "job ID is missing",
			Hint: "give an ID, or its first characters",
		}
	}
	if s, ok := m.jobs.get(id); ok {
		return m.withProspect(s, m.progressed(s)), messages.OK()
	}
	var fits []string
	var found shownJob
	m.jobs.ascend(id, func(key string, s shownJob) bool {
		if !strings.HasPrefix(key, id) || len(fits) > candidates {
			return false
		}
		if s.GetRecord().GetSpec().GetElement() != nil {
			return true // an element needs its full ID: k_1 may not be a job yet, and is not k_17
		}
		fits, found = append(fits, key), s
		return true
	})
	switch len(fits) {
	case 1:
		return m.withProspect(found, m.progressed(found)), messages.OK()
	case 0:
		if s := m.unborn(id); s != nil {
			return s, messages.OK()
		}
		return nil, &messages.Outcome{
			Code: messages.Code_CODE_NOT_FOUND, Field: "job", Text: fmt.Sprintf("unknown job %q", id),
			Hint: "run `synapse-cli get jobs` for a list; old finished jobs are not in it",
		}
	}
	named := strings.Join(fits[:min(len(fits), candidates)], ", ")
	if len(fits) > candidates {
		named += " and more"
	}
	return nil, &messages.Outcome{
		Code: messages.Code_CODE_CONFLICT, Field: "job", Text: fmt.Sprintf("%q matches several jobs: %s", id, named),
		Hint: "give more characters of the ID",
	}
}

// onListJobs returns one page in the order of IDs. Next is set if more entries may follow, so a page can be short or
// empty without being the last.
func (m *Mirror) onListJobs(q *messages.ListJobs) *messages.ListJobsReply {
	r := &messages.ListJobsReply{Outcome: messages.OK()}
	page := m.page(q.Limit)
	m.jobs.ascend(after(q.After), func(id string, s shownJob) bool {
		if !page.looks() {
			r.Next = page.last
			return false
		}
		if fits(q, s.JobStatus) {
			entry := m.withProspect(s, listed(m.progressed(s)))
			if !page.takes(messages.Size(entry)) {
				r.Next = page.last
				return false
			}
			r.Jobs = append(r.Jobs, entry)
		}
		page.last = id
		return true
	})
	return r
}

// listed returns a job as lists show it, without its ranks. A job may have thousands of ranks. GetJob returns them.
func listed(s *messages.JobStatus) *messages.JobStatus {
	l := &messages.JobStatus{
		Record: s.Record, Phase: s.Phase, Reason: s.Reason, ReasonCode: s.ReasonCode, Debts: s.Debts, Group: s.Group,
		Warned: s.Warned, Counts: s.Counts, Progress: s.Progress, Stall: s.Stall, Use: s.Use,
	}
	if s.Attempt != nil {
		l.Attempt, l.Tasks = s.Attempt.Brief(), int32(len(s.Attempt.Places))
	}
	return l
}

// fits reports whether a job passes the filters of a list. An empty filter passes every job.
func fits(q *messages.ListJobs, s *messages.JobStatus) bool {
	r := s.GetRecord()
	of := r.GetSpec().GetElement().GetArray() // empty: it is not an element
	if of != q.Array && (q.Array != "" || !q.Elements) {
		return false
	}
	named := q.Name == "" || q.Name == r.GetSpec().GetName() || q.Name == r.GetSpec().GetTitle()
	return named && (len(q.Phases) == 0 || contains(q.Phases, s.GetPhase())) &&
		ofWhom(r, q.Owner, q.Queue, q.Labels)
}

// ofWhom reports whether a job has this owner and this queue, and all of these labels. An empty value matches every
// job.
func ofWhom(r *messages.JobRecord, owner, queue string, labels []*messages.Label) bool {
	if owner != "" && r.GetOwner().GetName() != owner && r.Whose() != owner ||
		queue != "" && r.GetSpec().GetQueue() != queue {
		return false
	}
	for _, want := range labels {
		if !labelled(r.GetSpec().GetLabels(), want) {
			return false
		}
	}
	return true
}

func contains(all []string, one string) bool {
	for _, s := range all {
		if s == one {
			return true
		}
	}
	return false
}

// labelled reports whether the labels contain this one.
func labelled(labels []*messages.Label, want *messages.Label) bool {
	for _, l := range labels {
		if l.GetKey() == want.GetKey() && l.GetValue() == want.GetValue() {
			return true
		}
	}
	return false
}

// Each calls a function for each job that is shown.
func (m *Mirror) Each(do func(*messages.JobStatus)) {
	m.jobs.ascend("", func(_ string, s shownJob) bool {
		do(s.JobStatus)
		return true
	})
}

// Queues returns the configured queues with their usage.
func (m *Mirror) Queues() *messages.GetQueuesReply {
	q := m.queues
	u := queues.NewUsage(q.GetQueues())
	m.Each(u.Add)
	return &messages.GetQueuesReply{
		Outcome: messages.OK(), Revision: q.GetRevision(), Queues: q.GetQueues(), Applied: q.GetApplied(), Usage: u.List(),
	}
}

func (m *Mirror) onListNodes(q *messages.ListNodes) *messages.ListNodesReply {
	r := &messages.ListNodesReply{Outcome: messages.OK()}
	if q.Node != "" {
		if s, ok := m.nodes.get(q.Node); ok {
			one := proto.Clone(s.NodeStatus).(*messages.NodeStatus)
			one.Users = s.named
			r.Nodes = append(r.Nodes, one)
		}
		return r
	}
	page := m.page(q.Limit)
	m.nodes.ascend(after(q.After), func(id string, s shownNode) bool {
		if !page.takes(messages.Size(s.NodeStatus)) {
			r.Next = page.last
			return false
		}
		r.Nodes = append(r.Nodes, s.NodeStatus)
		page.last = id
		return true
	})
	return r
}

// page limits the size of one answer.
type page struct {
	entries, bytes, scan int
	last                 string // the last ID that was examined
}

func (m *Mirror) page(limit int32) page {
	c := &m.p.Constants
	n := c.MirrorPage
	if limit > 0 {
		n = min(int(limit), c.MirrorPageMax)
	}
	return page{entries: n, bytes: pageBytes, scan: c.MirrorScan}
}

// looks reports whether one more entry may be examined.
func (g *page) looks() bool {
	g.scan--
	return g.entries > 0 && g.scan >= 0
}

// takes reports whether an entry of this size fits, and counts it. The first entry always fits, or a page could never
// advance past it.
func (g *page) takes(bytes int) bool {
	full := g.entries <= 0 || (bytes > g.bytes && g.bytes < pageBytes)
	if !full {
		g.entries--
		g.bytes -= bytes
	}
	return !full
}

// after returns the smallest ID that is greater than this one.
func after(id string) string {
	if id == "" {
		return ""
	}
	return id + "\x00"
}

// check verifies the invariants of the Mirror. It runs after every message.
func (m *Mirror) check() {
	if m.finished.isOver(&m.p.Constants) {
		panic("more finished jobs are shown than the limit says")
	}
	if m.finished.len() > m.jobs.len() {
		panic("finished jobs are counted that are not shown")
	}
	m.watch.check()
	m.gpuTime.meter.Check()
}
