package gateway

// This file tests jobs that only the store knows: those that the Mirror has dropped, and all jobs before a leader
// has read the store.

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// TestOldJobsAreFoundInTheStore checks that a job that the Mirror has dropped is found in the store.
func TestOldJobsAreFoundInTheStore(t *testing.T) {
	r := newRoom(t)
	s, memory := r.lead()
	d := r.door(s, Options{Store: memory})
	ended := &messages.JobRecord{
		Id: "old-1", Revision: 1, WrittenBy: &messages.Token{Epoch: 1, Counter: 99}, Spec: gpuJob("old", 1, 1),
		Owner: &messages.Principal{Name: "anonymous"},
		State: messages.JobState_JOB_STATE_CANCELLED, Cancel: &messages.Deed{}, Outcome: "cancelled: enough",
		FinishedUnixMs: 5, Arrival: 1, SubmittedUnixMs: 1,
	}
	storeJob(t, memory, ended)
	ctx := timely(t)
	if p := d.phase("old-1"); p != "cancelled" {
		t.Errorf("shown as %q", p)
	}
	if _, err := d.SynapseClient.Cancel(ctx, &messages.Cancel{Job: "old-1"}); err != nil {
		t.Error(err)
	}
	e, err := d.SynapseClient.ExplainJob(ctx, &messages.ExplainJob{Job: "old-1"})
	if err != nil || e.Text != "old (old-1) was cancelled: enough" ||
		e.Explanation.GetJob().GetOwner() != "anonymous" {
		t.Errorf("explained: %v, %v", e, err)
	}
	for state, want := range map[messages.JobState]string{
		messages.JobState_JOB_STATE_SUCCEEDED: "succeeded", messages.JobState_JOB_STATE_FAILED: "failed",
		messages.JobState_JOB_STATE_TIMED_OUT: "timed-out",
	} {
		id := fmt.Sprint("old-", want[:4])
		job := proto.Clone(ended).(*messages.JobRecord)
		job.Id, job.State, job.Cancel, job.Outcome = id, state, nil, ""
		storeJob(t, memory, job)
		if p := d.phase(id); p != want {
			t.Errorf("%v is shown as %q", state, p)
		}
		_, err := d.SynapseClient.Cancel(ctx, &messages.Cancel{Job: id})
		refused(t, err, messages.Code_CODE_CONFLICT, codes.AlreadyExists, "job has already ended: "+want)
	}
	live := proto.Clone(ended).(*messages.JobRecord)
	live.Id, live.State, live.Cancel, live.Outcome, live.FinishedUnixMs = "live-1", messages.JobState_JOB_STATE_QUEUED,
		nil, "", 0
	storeJob(t, memory, live)
	_, err = d.SynapseClient.GetJob(ctx, &messages.GetJob{Job: "live-1"}) // its actor has not shown it yet
	refused(t, err, messages.Code_CODE_UNAVAILABLE, codes.Unavailable, "starting")
	_, err = d.SynapseClient.GetJob(ctx, &messages.GetJob{Job: "old"})
	refused(t, err, messages.Code_CODE_NOT_FOUND, codes.NotFound, "unknown job")
	memory.Damage("job", "old-1")
	_, err = d.SynapseClient.GetJob(ctx, &messages.GetJob{Job: "old-1"})
	refused(t, err, messages.Code_CODE_CONFLICT, codes.AlreadyExists, "finished job cannot be shown")
	d.o.Store = failing{}
	_, err = d.SynapseClient.GetJob(ctx, &messages.GetJob{Job: "x"})
	refused(t, err, messages.Code_CODE_UNAVAILABLE, codes.Unavailable, "store cannot be read: disk on fire")
}

// TestNothingIsDeniedBeforeTheStoreIsRead checks that a leader that has not read its store reports that it is
// starting. It must not report that a job does not exist.
func TestNothingIsDeniedBeforeTheStoreIsRead(t *testing.T) {
	r := newRoom(t)
	held := &holding{}
	s, _ := r.assemble(func(p *leader.Ports) { held.Store, p.Store = p.Store, held })
	d := r.door(s, Options{})
	ctx := timely(t)
	w, err := d.SynapseClient.Watch(ctx, &messages.Watch{Jobs: true, Present: true})
	if err == nil {
		_, err = w.Recv()
	}
	refused(t, err, messages.Code_CODE_UNAVAILABLE, codes.Unavailable, "just taken over")
	calls := map[string]func() error{
		"get":     func() error { _, err := d.SynapseClient.GetJob(ctx, &messages.GetJob{Job: "j"}); return err },
		"list":    func() error { _, err := d.SynapseClient.ListJobs(ctx, &messages.ListJobs{}); return err },
		"nodes":   func() error { _, err := d.SynapseClient.ListNodes(ctx, &messages.ListNodes{}); return err },
		"explain": func() error { _, err := d.SynapseClient.ExplainJob(ctx, &messages.ExplainJob{Job: "j"}); return err },
		"cancel":  func() error { _, err := d.SynapseClient.Cancel(ctx, &messages.Cancel{Job: "j"}); return err },
	}
	for name, call := range calls {
		if o := api.OutcomeOf(call()); o.GetCode() != messages.Code_CODE_UNAVAILABLE ||
			!strings.Contains(o.Text, "just taken over") {
			t.Errorf("%s: %v", name, o)
		}
	}
	held.release()
	eventually(t, "the store was read", func() bool { return calls["list"]() == nil })
	refused(t, calls["get"](), messages.Code_CODE_NOT_FOUND, codes.NotFound, "unknown job")
}

// holding is a store whose Load waits for the test.
type holding struct {
	actors.Store
	mu   sync.Mutex
	open bool
	wait []func()
}

func (h *holding) Load(epoch uint64, to *actor.PID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	load := func() { h.Store.Load(epoch, to) }
	if h.open {
		load()
		return
	}
	h.wait = append(h.wait, load)
}

func (h *holding) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = true
	for _, load := range h.wait {
		load()
	}
	h.wait = nil
}

// storeJob writes a job that no actor knows.
func storeJob(t *testing.T, memory *store.Memory, job *messages.JobRecord, attempts ...*messages.AttemptRecord) {
	t.Helper()
	verdicts, err := memory.Apply(1, []actors.Change{{Job: job, Attempts: attempts}})
	if err != nil || verdicts[0] != actors.Done {
		t.Fatal(verdicts, err)
	}
}

type failing struct{}

func (failing) Job(topology.JobID) (*messages.JobRecord, []*messages.AttemptRecord, error) {
	return nil, nil, errors.New("disk on fire")
}

func (failing) History(store.Past) (store.Page, error) {
	return store.Page{}, errors.New("disk on fire")
}
