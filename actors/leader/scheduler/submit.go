package scheduler

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/intake"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns submits: a job is validated, made durable, and only then acknowledged. A repeated request gets the
// answer of the first.

func (s *Scheduler) onSubmit(ctx actor.Context, m *messages.Submit) {
	if no := s.closedToSubmits(); no != nil {
		ctx.Respond(no)
		return
	}
	if err := m.Validate(); err != nil {
		ctx.Respond(invalidSubmit(err))
		return
	}
	key := requestKey{m.Principal.GetName(), m.RequestId}
	hash := hashOf(m.Spec)
	if e := s.requests[key]; m.RequestId != "" && e != nil {
		s.repeated(ctx, e, hash)
		return
	}
	given, no := s.check().Admit(m)
	if no != nil {
		ctx.Respond(no)
		return
	}
	s.write(ctx, m, given, key, hash)
}

// closedToSubmits returns the refusal while no submits are accepted. It returns nil if they are.
func (s *Scheduler) closedToSubmits() *messages.SubmitReply {
	switch {
	case !s.states.In(schedulerLeading):
		return intake.Reply("", messages.Code_CODE_UNAVAILABLE, "", "this leader has just taken over and is not ready",
			"try again in a few seconds")
	case s.behind.why != "":
		return s.outdated()
	}
	return nil
}

// onDryRun answers as onSubmit would, and reports whether the job fits now.
func (s *Scheduler) onDryRun(ctx actor.Context, m *messages.DryRun) {
	no := s.closedToSubmits()
	if no == nil {
		if err := m.Validate(); err != nil {
			no = invalidSubmit(err)
		}
	}
	var given intake.Given
	if no == nil {
		given, no = s.check().Admit(m)
	}
	if no != nil {
		ctx.Respond(&messages.DryRunReply{Outcome: no.Outcome})
		return
	}
	spec := given.Spec
	gang := intake.GangFor(s.view.Tree(), m.Principal, spec)
	gang.Closing, _ = s.closingFor(spec)
	reply := &messages.DryRunReply{
		Outcome: &messages.Outcome{Code: messages.Code_CODE_OK, Hint: s.view.Tree().Unknown(&gang)},
		Ahead:   int32(s.queue.Ahead(spec.Priority)),
	}
	s.whereAndWhen(&gang, reply)
	if live := s.living(spec); len(live) > 0 {
		reply.Waits = strings.TrimPrefix(messages.WaitsFor(live, func(string) string { return "" }), "waits ")
	}
	if protocol.UntilMs(spec.BeginUnixMs, s.p.Clock.WallMs()) > 0 {
		reply.Waits = messages.BeginsAt(spec)
	}
	if reply.Waits != "" {
		reply.Nodes = nil
	}
	ctx.Respond(reply)
}

// whereAndWhen adds the nodes of a gang that fits now, or else why it does not fit and when its capacity is expected
// to be free. Without a planner that looks ahead, nothing is expected.
func (s *Scheduler) whereAndWhen(gang *topology.Gang, reply *messages.DryRunReply) {
	place, why := topology.Place(s.view.Tree(), *gang)
	for _, n := range place.Nodes() {
		if len(reply.Nodes) < messages.MaxDryRunNodes {
			reply.Nodes = append(reply.Nodes, string(n))
		}
	}
	if why == nil {
		return
	}
	reply.Waits = why.String()
	if s.foresight.horizon == nil {
		return
	}
	now := int64(s.p.Clock.Now())
	at, _, ok := (ends{s.lookahead}).Horizon(s.view.Tree(), now).Earliest(gang, now, topology.ByEstimate)
	if ok && at > now && at < topology.Never {
		reply.FreeUnixMs = s.p.Clock.WallMs() + (at-now)/int64(time.Millisecond)
	}
}

// write makes a new job durable, with its defaults. Until that is done, no other actor knows the job.
func (s *Scheduler) write(ctx actor.Context, m *messages.Submit, g intake.Given, key requestKey, hash []byte) {
	s.lives++
	s.arrival++
	e := &livingJob{
		jobRecord: jobRecord{id: s.p.NewJobID(), key: key, hash: hash},
		ownUID:    ownUID{toCome: s.needsUID(g.Spec)},
	}
	e.rec = &messages.JobRecord{
		Id: string(e.id), Revision: 1, WrittenBy: &messages.Token{Epoch: s.p.Epoch, Counter: s.lives << 32},
		Spec: g.Spec, Owner: m.Principal, RequestId: m.RequestId, RequestHash: hash,
		SubmittedUnixMs: s.p.Clock.WallMs(), Arrival: s.arrival, State: messages.JobState_JOB_STATE_QUEUED,
		UidToCome: e.toCome, Exempt: m.GetExempt(), MemoryByShare: g.Memory, LimitByDefault: g.Limit, Sealed: m.Sealed,
	}
	s.jobs[e.id] = e
	if m.Hold {
		e.rec.Hold = &messages.Deed{By: m.Principal, AtUnixMs: e.rec.SubmittedUnixMs}
	}
	if g.Spec.Array != nil {
		e.rec.Array = &messages.ArrayRecord{Reach: protocol.ArrayStep, Hold: e.rec.Hold}
		e.rec.Hold = heldBy(e.rec.SubmittedUnixMs)
	}
	s.idles(ctx, e, true)
	s.owners.see(key.owner)
	if m.RequestId != "" {
		s.requests[key] = e
	}
	if ctx.Sender() != nil {
		e.askers = append(e.askers, ctx.Sender())
	}
	s.seek(ctx, e)
}

// repeated answers a repeated request. An equal request gets the same answer.
func (s *jobTable) repeated(ctx actor.Context, e *livingJob, hash []byte) {
	switch {
	case !bytes.Equal(e.hash, hash):
		ctx.Respond(intake.Reply("", messages.Code_CODE_CONFLICT, "request_id",
			"request ID was already used for another job",
			"use a new request ID"))
	case e.pid == nil && !e.remakes:
		e.askers = append(e.askers, ctx.Sender())
	default:
		ctx.Respond(intake.Reply(e.id, messages.Code_CODE_OK, "", "", ""))
	}
}

// onWritten handles the completed write of a submit, a change of a node, or the statistics.
func (s *Scheduler) onWritten(ctx actor.Context, m protocol.Written) {
	switch tag := m.Tag.(type) {
	case *livingJob:
		if tag.element {
			s.onSprouted(ctx, tag, m)
			return
		}
		s.onSubmitted(ctx, tag, m)
	case *machine:
		s.onNodeWritten(ctx, tag, m)
	case *damagedJob:
		s.onDropped(ctx, tag, m)
	case learnedWrite:
		s.onLearnedWritten(ctx, m)
	case *applying:
		s.onQueuesWritten(ctx, tag, m)
	}
}

func (s *Scheduler) onSubmitted(ctx actor.Context, e *livingJob, m protocol.Written) {
	switch {
	case m.Full:
		s.drop(ctx, e, intake.Reply("", messages.Code_CODE_EXHAUSTED, "",
			"too many submissions are waiting to be saved",
			"try again in a few seconds with the same request ID"))
	case m.Verdict == actors.Conflict:
		// An earlier leader acknowledged the request, and its job has finished since.
		s.ask(find{submit: e}, actors.Query{Owner: e.key.owner, RequestID: e.key.id})
	default:
		cpu, gpu := asksFor(e.rec.Spec)
		s.p.Calls.Info("Job Submitted: %s (CPU: %d, GPU: %d)", e.id, cpu/1000, gpu/topology.WholeGPU)
		s.embody(ctx, e, e.rec, nil)
		s.await(ctx, e, e.rec)
		s.toldAll(ctx, e, true)
		gang := messages.GangOf(e.rec.Spec)
		hint := s.view.Tree().Unknown(&gang)
		ctx.Send(e.pid, protocol.Acknowledge{Clients: e.askers, Reply: intake.Reply(e.id, messages.Code_CODE_OK, "",
			"Job queued successfully", hint)})
		e.askers = nil
	}
}

// answerRepeated answers a request whose job was already in the store.
func (s *Scheduler) answerRepeated(ctx actor.Context, e *livingJob, m actors.Found) {
	switch {
	case m.Err != "":
		s.drop(ctx, e, intake.Reply("", messages.Code_CODE_UNAVAILABLE, "", "store cannot be read: "+m.Err,
			"try again with the same request ID"))
	case m.Job != nil && bytes.Equal(m.Job.RequestHash, e.hash):
		s.drop(ctx, e, intake.Reply(topology.JobID(m.Job.Id), messages.Code_CODE_OK, "", "", ""))
	case m.Damaged != "":
		s.drop(ctx, e, intake.Reply("", messages.Code_CODE_CONFLICT, "request_id",
			"record of the job made by this request is corrupted ("+m.Damaged+")",
			"check the job, cancel it, and use a new request ID"))
	default:
		s.drop(ctx, e, intake.Reply("", messages.Code_CODE_CONFLICT, "request_id",
			"request ID was already used for another job",
			"use a new request ID"))
	}
}

// drop removes a submit that did not become a job.
func (s *Scheduler) drop(ctx actor.Context, e *livingJob, reply *messages.SubmitReply) {
	delete(s.jobs, e.id)
	s.idles(ctx, e, false)
	s.freeUID(e)
	if s.requests[e.key] == e {
		delete(s.requests, e.key)
	}
	protocol.Acknowledge{Clients: e.askers, Reply: reply}.Say(ctx)
	e.askers = nil
}

func invalidSubmit(err error) *messages.SubmitReply {
	no := &messages.Outcome{Code: messages.Code_CODE_INVALID, Text: err.Error()}
	var f *messages.FieldError
	if errors.As(err, &f) {
		no.Field, no.Text, no.Hint = f.Field, f.Text, f.Hint
	}
	return &messages.SubmitReply{Outcome: no}
}

// hashOf returns a hash that distinguishes two requests with the same ID.
func hashOf(spec *messages.JobSpec) []byte {
	sum := sha256.Sum256(messages.Bytes(spec))
	return sum[:]
}

// asksFor returns the total request of a gang, in thousandths of a CPU and of a GPU.
func asksFor(spec *messages.JobSpec) (milliCPU, milliGPU int64) {
	if total := spec.GetGang().GetTotal(); total != nil {
		return total.MilliCpu, total.MilliGpu
	}
	n := int64(max(spec.GetGang().GetReplicasMin(), 1))
	return n * spec.GetEach().GetMilliCpu(), n * spec.GetEach().GetMilliGpu()
}
