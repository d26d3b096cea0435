package gateway

// This file tests calls with a single answer, with the real actors.

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

func TestEachCall(t *testing.T) {
	r := newRoom(t)
	s, _ := r.lead()
	d := r.door(s, Options{
		ClusterID: "c1", Version: "v9", Levels: []string{"zone", "rack"},
		Principal: func(context.Context) *messages.Principal { return &messages.Principal{Name: "alice"} },
	})
	r.join("n1", s)
	eventually(t, "n1 is up", func() bool { return d.nodes() == 1 })
	ctx := timely(t)

	claims := &messages.Principal{Name: "root"} // the name that the client claims is ignored
	submitted, err := d.SynapseClient.Submit(ctx,
		&messages.Submit{Principal: claims, RequestId: "r1", Spec: gpuJob("one", 1, 8)})
	if err != nil || submitted.Outcome.Code != messages.Code_CODE_OK {
		t.Fatal(submitted, err)
	}
	one := submitted.Job
	if again, err := d.SynapseClient.Submit(ctx,
		&messages.Submit{RequestId: "r1", Spec: gpuJob("one", 1, 8)}); err != nil || again.Job != one {
		t.Errorf("the same request became %v, %v", again, err)
	}
	eventually(t, "the job runs", func() bool { return d.phase(one) == "running" })
	got, err := d.SynapseClient.GetJob(ctx, &messages.GetJob{Job: one[:len(one)-1]})
	if err != nil || got.Job.Record.Id != one || got.Job.Record.Owner.Name != "alice" {
		t.Errorf("by its prefix: %v, %v", got, err)
	}

	two := d.submit(gpuJob("two", 1, 4))
	eventually(t, "what the waiting job lacks is known", func() bool {
		e, err := d.SynapseClient.ExplainJob(ctx, &messages.ExplainJob{Job: two})
		return err == nil && strings.Contains(e.Text, " is queued: needs 4 GPUs, 0 of 8 free · ")
	})
	e, err := d.SynapseClient.ExplainJob(ctx, &messages.ExplainJob{Job: one})
	if err != nil || !strings.HasSuffix(e.Text, ") is running") {
		t.Errorf("of a running job: %v, %v", e, err)
	}
	if _, err := d.SynapseClient.Hold(ctx, &messages.Hold{Job: two, Reason: "later"}); err != nil {
		t.Error(err)
	}
	if p := d.phase(two); p != "held" {
		t.Errorf("a hold that was acknowledged shows as %q", p)
	}
	if _, err := d.SynapseClient.Hold(ctx, &messages.Hold{Job: two, Release: true}); err != nil {
		t.Error(err)
	}
	if p := d.phase(two); p != "queued" {
		t.Errorf("a release that was acknowledged shows as %q", p)
	}
	list, err := d.SynapseClient.ListJobs(ctx, &messages.ListJobs{Owner: "alice", Limit: 1})
	if err != nil || len(list.Jobs) != 1 || list.Next != one {
		t.Errorf("list: %v, %v", list, err)
	}
	if _, err := d.SynapseClient.ChangeNode(ctx, &messages.ChangeNode{Node: "n1", Verb: messages.NodeVerb_NODE_VERB_CORDON,
		Reason: "fans"}); err != nil {
		t.Error(err)
	}
	nodes, err := d.SynapseClient.ListNodes(ctx, &messages.ListNodes{})
	if err != nil || len(nodes.Nodes) != 1 || nodes.Nodes[0].Closed != "cordoned by alice: fans" {
		t.Errorf("nodes: %v, %v", nodes, err)
	}
	for range 2 { // the second time, the actor is gone
		if _, err := d.SynapseClient.Cancel(ctx, &messages.Cancel{Job: two, Reason: "enough"}); err != nil {
			t.Error(err)
		}
		if p := d.phase(two); p != "cancelled" {
			t.Errorf("a cancel that was acknowledged shows as %q", p)
		}
	}
	if e, err := d.SynapseClient.ExplainJob(ctx, &messages.ExplainJob{Job: two}); err != nil ||
		!strings.HasSuffix(e.Text, ") was cancelled: enough") {
		t.Errorf("of a job that is over: %v, %v", e, err)
	}
	cluster, err := d.SynapseClient.Cluster(ctx, &api.Cluster{})
	if err != nil || cluster.ClusterId != "c1" || cluster.Version != "v9" ||
		!slices.Equal(cluster.Levels, []string{"zone", "rack"}) {
		t.Errorf("cluster: %v, %v", cluster, err)
	}
}

// TestAcknowledgedFirstIsPlannedFirst checks the order of two jobs if the actor of the first runs late. The first
// is in the queue, and is shown, before its client can submit another.
func TestAcknowledgedFirstIsPlannedFirst(t *testing.T) {
	r := newRoom(t)
	var jobs atomic.Int32
	r.born = func(kind actors.Kind) {
		if kind == actors.KindJob && jobs.Add(1) == 1 {
			time.Sleep(100 * time.Millisecond)
		}
	}
	s, _ := r.lead()
	d := r.door(s, Options{})
	r.join("n1", s)
	eventually(t, "n1 is up", func() bool { return d.nodes() == 1 })
	one := d.submit(gpuJob("one", 1, 8))
	if d.phase(one) == "" {
		t.Error("it is acknowledged and not shown")
	}
	two := d.submit(gpuJob("two", 1, 8))
	eventually(t, "one of them runs", func() bool { return d.phase(one) == "running" || d.phase(two) == "running" })
	if p := d.phase(two); p != "queued" {
		t.Errorf("the second is %s before the first, which is %s", p, d.phase(one))
	}
}

// TestRefusals checks the code, the gRPC code, the text and the field of every refusal.
func TestRefusals(t *testing.T) {
	r := newRoom(t)
	s, _ := r.lead()
	d := r.door(s, Options{})
	l := r.join("n1", s)
	eventually(t, "n1 is up", func() bool { return d.nodes() == 1 })
	ctx := timely(t)
	submit := func(m *messages.Submit) error { _, err := d.SynapseClient.Submit(ctx, m); return err }
	get := func(id string) error {
		_, err := d.SynapseClient.GetJob(ctx, &messages.GetJob{Job: id})
		return err
	}

	err := submit(&messages.Submit{Spec: &messages.JobSpec{Name: "x", Image: "host"}})
	refused(t, err, messages.Code_CODE_INVALID, codes.InvalidArgument,
		"spec.gang: is missing (set gang.replicas or gang.total)")
	if o := api.OutcomeOf(err); o.Field != "spec.gang" || o.Hint == "" {
		t.Errorf("the detail is %v", o)
	}
	refused(t, submit(&messages.Submit{}), messages.Code_CODE_INVALID, codes.InvalidArgument, "spec: is missing")
	refused(t, get(""), messages.Code_CODE_INVALID, codes.InvalidArgument, "job: is missing")
	refused(t, get(strings.Repeat("j", 1<<20)), messages.Code_CODE_INVALID, codes.InvalidArgument, "is not an id")
	refused(t, get("../../etc"), messages.Code_CODE_INVALID, codes.InvalidArgument, "is not an id")
	refused(t, get("nothing"), messages.Code_CODE_NOT_FOUND, codes.NotFound, `unknown job "nothing"`)
	_, err = d.SynapseClient.Cancel(ctx, &messages.Cancel{Job: "nothing"})
	refused(t, err, messages.Code_CODE_NOT_FOUND, codes.NotFound, "no waiting or running job")
	_, err = d.SynapseClient.ChangeNode(ctx, &messages.ChangeNode{Node: "n9", Verb: messages.NodeVerb_NODE_VERB_CORDON,
		Reason: "x"})
	refused(t, err, messages.Code_CODE_NOT_FOUND, codes.NotFound, "unknown node n9")
	_, err = d.SynapseClient.ChangeNode(ctx, &messages.ChangeNode{Node: "n1", Verb: messages.NodeVerb_NODE_VERB_REMOVE})
	refused(t, err, messages.Code_CODE_CONFLICT, codes.AlreadyExists, "n1 is alive")
	_, err = d.SynapseClient.ListJobs(ctx, &messages.ListJobs{Limit: -1})
	refused(t, err, messages.Code_CODE_INVALID, codes.InvalidArgument, "limit")
	_, err = d.SynapseClient.ListNodes(ctx, &messages.ListNodes{Limit: 1 << 20})
	refused(t, err, messages.Code_CODE_INVALID, codes.InvalidArgument, "limit")
	refused(t, submit(&messages.Submit{Spec: gpuJob("big", 1, 9)}), messages.Code_CODE_INFEASIBLE,
		codes.FailedPrecondition, "can never start on this cluster")

	one := d.submit(gpuJob("one", 1, 8))
	d.submit(gpuJob("two", 1, 8))
	refused(t, get("job-"), messages.Code_CODE_CONFLICT, codes.AlreadyExists, "matches several jobs: job-1, job-2")
	if err := submit(&messages.Submit{RequestId: "r", Spec: gpuJob("a", 1, 1)}); err != nil {
		t.Error(err)
	}
	refused(t, submit(&messages.Submit{RequestId: "r", Spec: gpuJob("b", 1, 1)}), messages.Code_CODE_CONFLICT,
		codes.AlreadyExists, "used for another job")

	eventually(t, "the job runs", func() bool { return d.phase(one) == "running" })
	_, err = d.SynapseClient.Requeue(ctx, &messages.Requeue{Job: one, Run: -1})
	refused(t, err, messages.Code_CODE_INVALID, codes.InvalidArgument, "run: is -1")
	_, err = d.SynapseClient.Requeue(ctx, &messages.Requeue{Job: one, Run: 2})
	refused(t, err, messages.Code_CODE_CONFLICT, codes.AlreadyExists, "job has no attempt 2")
	l.exits(0, false)
	eventually(t, "the job has ended", func() bool { return d.phase(one) == "succeeded" })
	_, err = d.SynapseClient.Cancel(ctx, &messages.Cancel{Job: one})
	refused(t, err, messages.Code_CODE_CONFLICT, codes.AlreadyExists, "job has already ended: succeeded")
	_, err = d.SynapseClient.Hold(ctx, &messages.Hold{Job: one})
	refused(t, err, messages.Code_CODE_CONFLICT, codes.AlreadyExists, "job has already ended: succeeded")
	_, err = d.SynapseClient.Requeue(ctx, &messages.Requeue{Job: one})
	refused(t, err, messages.Code_CODE_CONFLICT, codes.AlreadyExists, "job has already ended: succeeded")
}

func TestWhoDoesNotLeadSaysWhoDoes(t *testing.T) {
	r := newRoom(t)
	var leads atomic.Bool
	d := r.door(r.system("scheduler"), Options{Leader: func() Leader {
		return Leader{Here: leads.Load(), Address: "10.0.0.7:9000", Epoch: 4}
	}})
	ctx := timely(t)
	var trailer metadata.MD
	_, err := d.SynapseClient.Submit(ctx, &messages.Submit{Spec: gpuJob("x", 1, 1)}, grpc.Trailer(&trailer))
	refused(t, err, messages.Code_CODE_UNAVAILABLE, codes.Unavailable, "use the leader at 10.0.0.7:9000")
	if got := trailer.Get(LeaderTrailer); !slices.Equal(got, []string{"10.0.0.7:9000"}) {
		t.Errorf("the trailer says %v", got)
	}
	w, err := d.SynapseClient.Watch(ctx, &messages.Watch{Jobs: true})
	if err == nil {
		_, err = w.Recv()
	}
	refused(t, err, messages.Code_CODE_UNAVAILABLE, codes.Unavailable, "is not the leader")
	leads.Store(true) // but its actors do not exist yet
	_, err = d.SynapseClient.GetJob(ctx, &messages.GetJob{Job: "j"})
	refused(t, err, messages.Code_CODE_UNAVAILABLE, codes.Unavailable, "this scheduler is starting")
	if c, err := d.SynapseClient.Cluster(ctx, &api.Cluster{}); err != nil || c.Epoch != 4 {
		t.Errorf("cluster: %v, %v", c, err)
	}
}

// TestReadsItsOwnWrites checks that a client finds its acknowledged job, even under load.
func TestReadsItsOwnWrites(t *testing.T) {
	r := newRoom(t)
	s, _ := r.lead()
	d := r.door(s, Options{})
	var clients sync.WaitGroup
	ids := make([]string, 64*20)
	for c := range 64 {
		clients.Go(func() {
			for i := range 20 {
				submitted, err := d.SynapseClient.Submit(timely(t), &messages.Submit{
					RequestId: fmt.Sprintf("r-%d-%d", c, i), Spec: gpuJob("x", 1, 1), AllowInfeasible: true,
				})
				if err != nil {
					t.Error(err)
					return
				}
				got, err := d.SynapseClient.GetJob(timely(t), &messages.GetJob{Job: submitted.Job})
				if err != nil || got.Job.Record.Id != submitted.Job {
					t.Errorf("acknowledged %s, found %v, %v", submitted.Job, got, err)
				}
				ids[c*20+i] = submitted.Job
			}
		})
	}
	clients.Wait()
	slices.Sort(ids)
	if n := len(slices.Compact(ids)); n != 64*20 {
		t.Errorf("%d submits became %d jobs", 64*20, n)
	}
}
