package main

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/explain"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/test/able/pace"
)

// fake is a scheduler over a real connection whose answers the test sets.
type fake struct {
	api.UnimplementedSynapseServer
	address string

	mu       sync.Mutex
	jobs     []*messages.JobStatus
	nodes    []*messages.NodeStatus
	refusal  *messages.Outcome // the answer to every call, if set
	asked    []proto.Message
	logs     []*api.LogPart
	reading  int // outputs that are being read
	mostRead int // the maximum of reading
	events   []*messages.Event
	seq      uint64
	changed  chan struct{} // closed and replaced at each change of a job
	breaks   int           // number of watches that end immediately
	onCancel func(id string)
	queues   *messages.GetQueuesReply // nil: no queues are configured
	spent    *messages.GetEfficiencyReply
	who      *api.WhoAmIReply // nil: anonymous, without TLS
	past     []*messages.PastJob
}

func (f *fake) History(context.Context, *messages.History) (*messages.HistoryReply, error) {
	return &messages.HistoryReply{Jobs: f.past}, nil
}

func (f *fake) GetEfficiency(_ context.Context, q *messages.GetEfficiency) (*messages.GetEfficiencyReply, error) {
	return f.spent, f.heard(q)
}

func (f *fake) GetQueues(_ context.Context, q *messages.GetQueues) (*messages.GetQueuesReply, error) {
	if err := f.heard(q); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.queues, nil
}

func (f *fake) ApplyQueues(_ context.Context, q *messages.ApplyQueues) (*messages.ApplyQueuesReply, error) {
	if err := f.heard(q); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	reply := &messages.ApplyQueuesReply{Revision: f.queues.GetRevision() + 1, Closed: []string{"old"}}
	if !q.DryRun {
		f.queues = &messages.GetQueuesReply{Revision: reply.Revision, Queues: q.Queues}
	}
	return reply, nil
}

func startFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{changed: make(chan struct{}), seq: 1 << 32}
	f.address = serve(t, f)
	return f
}

// serve starts a scheduler at a free address.
func serve(t *testing.T, s api.SynapseServer) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	api.RegisterSynapseServer(server, s)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

func (f *fake) heard(m proto.Message) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, m)
	return api.StatusOf(refusalOr(f.refusal))
}

func refusalOr(o *messages.Outcome) *messages.Outcome {
	if o == nil {
		return &messages.Outcome{Code: messages.Code_CODE_OK}
	}
	return o
}

// told returns the requests of one type that the fake has received.
func told[M proto.Message](f *fake) []M {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []M
	for _, m := range f.asked {
		if one, is := m.(M); is {
			all = append(all, one)
		}
	}
	return all
}

func ok() *messages.Outcome { return &messages.Outcome{Code: messages.Code_CODE_OK} }

func (f *fake) Submit(_ context.Context, q *messages.Submit) (*messages.SubmitReply, error) {
	if err := f.heard(q); err != nil {
		return nil, err
	}
	f.put(
		&messages.JobStatus{Phase: "queued",
			Record: &messages.JobRecord{Id: "jnew1", Spec: q.GetSpec(), State: messages.JobState_JOB_STATE_QUEUED}})
	return &messages.SubmitReply{Outcome: ok(), Job: "jnew1"}, nil
}

// put sends the state of a job.
func (f *fake) put(j *messages.JobStatus) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq++
	f.events = append(f.events, &messages.Event{Seq: f.seq, AtUnixMs: 1_800_000_000_000, Text: "job " +
		j.GetRecord().GetId() + " " + j.GetPhase(), Job: j})
	for i := range f.jobs {
		if f.jobs[i].GetRecord().GetId() == j.GetRecord().GetId() {
			f.jobs = append(f.jobs[:i:i], f.jobs[i+1:]...)
			break
		}
	}
	f.jobs = append(f.jobs, j)
	close(f.changed)
	f.changed = make(chan struct{})
}

// regroup sends a new reason for the waiting jobs of a group.
func (f *fake) regroup(group uint64, reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, &messages.Event{Seq: f.seq, AtUnixMs: 1_800_000_000_000, Text: "some jobs wait: " + reason,
		Group: group, Reason: reason})
	close(f.changed)
	f.changed = make(chan struct{})
}

// finish ends a job.
func (f *fake) finish(id, phase string, state messages.JobState, code int32, outcome string) {
	f.put(
		&messages.JobStatus{Phase: phase, Record: &messages.JobRecord{Id: id, State: state, ExitCode: code, Outcome: outcome,
			Spec: spec("x")}})
}

func (f *fake) GetJob(_ context.Context, q *messages.GetJob) (*messages.GetJobReply, error) {
	if err := f.heard(q); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, j := range f.jobs {
		if strings.HasPrefix(j.GetRecord().GetId(), q.GetJob()) {
			return &messages.GetJobReply{Outcome: ok(), Job: j}, nil
		}
	}
	return nil, api.StatusOf(&messages.Outcome{Code: messages.Code_CODE_NOT_FOUND, Field: "job",
		Text: `unknown job "` + q.GetJob() + `"`, Hint: "look again"})
}

// ListJobs answers with pages of two jobs.
func (f *fake) ListJobs(_ context.Context, q *messages.ListJobs) (*messages.ListJobsReply, error) {
	if err := f.heard(proto.Clone(q)); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &messages.ListJobsReply{Outcome: ok()}
	for _, j := range f.jobs {
		if j.GetRecord().GetId() > q.GetAfter() {
			if len(r.Jobs) == 2 {
				r.Next = r.Jobs[1].GetRecord().GetId()
				break
			}
			r.Jobs = append(r.Jobs, j)
		}
	}
	return r, nil
}

func (f *fake) ListNodes(_ context.Context, q *messages.ListNodes) (*messages.ListNodesReply, error) {
	if err := f.heard(proto.Clone(q)); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &messages.ListNodesReply{Outcome: ok()}
	for _, n := range f.nodes {
		if n.GetRecord().GetId() > q.GetAfter() {
			if len(r.Nodes) == 2 {
				r.Next = r.Nodes[1].GetRecord().GetId()
				break
			}
			r.Nodes = append(r.Nodes, n)
		}
	}
	return r, nil
}

func (f *fake) Cancel(_ context.Context, q *messages.Cancel) (*messages.CancelReply, error) {
	if err := f.heard(q); err != nil {
		return nil, err
	}
	if f.onCancel != nil {
		f.onCancel(q.GetJob())
	}
	return &messages.CancelReply{Outcome: ok(), Job: q.GetJob()}, nil
}

func (f *fake) Hold(_ context.Context, q *messages.Hold) (*messages.HoldReply, error) {
	return &messages.HoldReply{Outcome: ok(), Job: q.GetJob()}, f.heard(q)
}

func (f *fake) Requeue(_ context.Context, q *messages.Requeue) (*messages.RequeueReply, error) {
	r := &messages.RequeueReply{Outcome: ok(), Job: q.GetJob()}
	f.mu.Lock()
	for _, j := range f.jobs {
		if j.GetRecord().GetId() == q.GetJob() && j.GetRecord().GetState() == messages.JobState_JOB_STATE_ACTIVE {
			r.Run = q.GetRun()
		}
	}
	f.mu.Unlock()
	return r, f.heard(q)
}

func (f *fake) Checkpoint(_ context.Context, q *messages.Checkpoint) (*messages.CheckpointReply, error) {
	return &messages.CheckpointReply{Outcome: ok(), Job: q.GetJob(), Request: 7}, f.heard(q)
}

func (f *fake) ChangeNode(_ context.Context, q *messages.ChangeNode) (*messages.ChangeNodeReply, error) {
	return &messages.ChangeNodeReply{Outcome: ok(), Node: q.GetNode()}, f.heard(q)
}

func (f *fake) ExplainJob(_ context.Context, q *messages.ExplainJob) (*messages.ExplainJobReply, error) {
	e := &messages.Explanation{
		Job: &messages.JobName{Id: q.GetJob(), ShortId: q.GetJob(), Name: q.GetSpec().Called()}, Phase: "queued",
		Reason: "Resources: needs 64 GPUs", ReasonCode: "Resources",
	}
	if q.Spec != nil {
		e.Phase = ""
	}
	return &messages.ExplainJobReply{Outcome: ok(), Text: explain.Of(e).Line(), Explanation: e}, f.heard(q)
}

func (f *fake) Cluster(_ context.Context, q *api.Cluster) (*api.ClusterReply, error) {
	return &api.ClusterReply{ClusterId: "c1", Epoch: 3, Version: "v9", Levels: []string{"zone", "rack"}}, f.heard(q)
}

func (f *fake) Watch(q *messages.Watch, s grpc.ServerStreamingServer[messages.Event]) error {
	if err := f.heard(proto.Clone(q)); err != nil {
		return err
	}
	f.mu.Lock()
	if f.breaks > 0 {
		f.breaks--
		f.mu.Unlock()
		return api.StatusOf(&messages.Outcome{Code: messages.Code_CODE_UNAVAILABLE, Text: "this scheduler is going away"})
	}
	sent := 0
	for _, e := range f.events {
		if q.GetPresent() || q.GetAfter() > 0 && e.GetSeq() > q.GetAfter() {
			break
		}
		sent++
	}
	seq := f.seq
	first := true
	f.mu.Unlock()
	for {
		f.mu.Lock()
		fresh, changed := f.events[sent:], f.changed
		if first && q.GetPresent() {
			fresh = latest(fresh)
		}
		sent = len(f.events)
		f.mu.Unlock()
		for _, e := range fresh {
			id := e.GetJob().GetRecord().GetId() + e.GetNode().GetRecord().GetId()
			if e.GetGroup() == 0 && len(q.GetIds()) > 0 && !strings.Contains(strings.Join(q.GetIds(), " ")+" ", id+" ") {
				continue
			}
			if err := s.Send(e); err != nil {
				return err
			}
		}
		if first && (q.GetPresent() || q.GetAfter() > 0) {
			if err := s.Send(&messages.Event{Seq: seq, Synced: true, Text: "all told"}); err != nil {
				return err
			}
		}
		first = false
		select {
		case <-changed:
		case <-s.Context().Done():
			return nil
		}
	}
}

// latest returns the last event of each job, which is the current state.
func latest(events []*messages.Event) []*messages.Event {
	var kept []*messages.Event
	for i, e := range events {
		later := false
		for _, l := range events[i+1:] {
			later = later || l.GetJob().GetRecord().GetId() == e.GetJob().GetRecord().GetId()
		}
		if !later {
			kept = append(kept, e)
		}
	}
	return kept
}

func (f *fake) ReadLogs(q *api.ReadLogs, s grpc.ServerStreamingServer[api.LogPart]) error {
	if err := f.heard(q); err != nil {
		return err
	}
	f.mu.Lock()
	parts := f.logs
	f.reading++
	f.mostRead = max(f.mostRead, f.reading)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.reading--
	}()
	for _, p := range parts {
		if err := s.Send(p); err != nil {
			return err
		}
	}
	for q.GetFollow() {
		f.mu.Lock()
		changed, live := f.changed, false
		for _, j := range f.jobs {
			live = live || j.GetRecord().GetId() == q.GetJob() && !over(j)
		}
		f.mu.Unlock()
		if !live {
			return nil
		}
		select {
		case <-changed:
		case <-s.Context().Done():
			return nil
		}
	}
	return nil
}

func spec(name string) *messages.JobSpec {
	return &messages.JobSpec{Name: name, Image: "host", Command: []string{"true"},
		Gang: &messages.GangSpec{ReplicasMin: 1, ReplicasMax: 1}, Each: &messages.Resources{MilliCpu: 1000}}
}

func job(id, phase string, state messages.JobState) *messages.JobStatus {
	s := spec("n-" + id)
	s.Labels = []*messages.Label{{Key: "team", Value: "nlp"}}
	return &messages.JobStatus{Phase: phase, Record: &messages.JobRecord{Id: id, State: state, Spec: s}}
}

func machine(id string) *messages.NodeStatus {
	return &messages.NodeStatus{Phase: "up", Record: &messages.NodeRecord{Id: id, Announcement: &messages.Announcement{
		Place: []*messages.Label{{Key: "rack", Value: "r1"}}, Labels: []*messages.Label{{Key: "pool", Value: "a"}}}}}
}

// lines is an output that can be read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// await waits until a condition holds, and fails the test on a timeout.
func await(t *testing.T, what string, there func() bool) {
	t.Helper()
	for deadline := pace.Until(20 * time.Second); !there(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// result holds the result of a run.
type result struct {
	code     int
	out, err string
}

// cli runs the program with a server.
func cli(address string, args ...string) result { return cliWith(address, "", nil, args...) }

func cliWith(address, stdin string, env map[string]string, args ...string) result {
	var out, errs lines
	lookup := func(name string) (string, bool) {
		if name == "SYNAPSE_SERVER" && address != "" {
			return address, true
		}
		v, there := env[name]
		return v, there
	}
	if args[0] != seedName {
		args = append([]string{"synapse-cli"}, args...)
	}
	code := run(args, strings.NewReader(stdin), &out, &errs, lookup)
	return result{code, out.String(), errs.String()}
}

// partsOf returns the output of rank 0.
func partsOf(text string) []*api.LogPart { return []*api.LogPart{{Data: []byte(text)}} }
