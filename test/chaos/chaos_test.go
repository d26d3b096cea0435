// Package chaos injects faults into a cluster of real processes while gangs stream through it. Afterwards it checks the
// guarantees: every acknowledged job is accounted for, no GPU had two owners, no gang ran in part, and nothing was
// decided twice. The members of the gangs record the evidence.
package chaos

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/store/postgres"
	"github.com/yi-json/synapse/topology"
)

// This file controls the run and checks its result.

var (
	duration = flag.Duration("chaos.duration", time.Minute, "for how long things break")
	seed     = flag.Uint64("chaos.seed", 0, "which faults and gangs are drawn; 0: by the clock")
)

// A run with few faults proves little, and fails.
const (
	gangEvery = 4 * time.Second
	healed    = 2 * time.Minute // time until all jobs must have finished after the last fault
)

func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute of real processes is too long for -short")
	}
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("replay the draws with: make chaos SEED=%d DURATION=%s (the host decides the interleaving)",
		*seed, *duration)
	w := newWorld(t, *seed)
	plan := newPlan(rand.New(rand.NewPCG(*seed, 2)), *duration, w.networks != nil)
	for _, s := range plan {
		t.Log(s)
	}
	ctx, cancel := context.WithTimeout(t.Context(), *duration)
	defer cancel()
	broken := make(chan struct{})
	go func() { w.carryOut(ctx, plan); close(broken) }()
	jobs := w.stream(ctx)
	<-broken
	if t.Failed() {
		return
	}
	w.settle(jobs)
	w.sumGPUTime()
	attempts := w.verdict(jobs)
	t.Logf("attempts ended: %s", &w.ends)
	t.Logf("%d gangs in %d attempts through %d faults in %s: %s",
		len(jobs), attempts, w.tally.total(), *duration, &w.tally)
	if least := int(*duration / gangEvery); len(jobs) < least {
		t.Errorf("only %d gangs finished, want at least %d", len(jobs), least)
	}
	for _, s := range sorts {
		if s.name == partition && w.networks == nil {
			continue
		}
		if least := share(float64(s.least), whole, *duration); w.tally.of(s.name) < least {
			t.Errorf("only %d %s happened, want at least %d", w.tally.of(s.name), s.name, least)
		}
	}
}

// mayEndBy lists the causes that may end an attempt here. No member fails by itself, and no fault of an agent ends one,
// because its supervisor lives.
var mayEndBy = []messages.Cause{
	messages.Cause_CAUSE_SUCCEEDED, messages.Cause_CAUSE_CANCELLED, messages.Cause_CAUSE_REQUEUED,
	messages.Cause_CAUSE_MACHINE_LOST, // its agent was silent for ten seconds
	messages.Cause_CAUSE_EXPIRED,      // its agent lost a reservation that was only in memory
	messages.Cause_CAUSE_START_TIMEOUT,
}

// mustNotSay lists lines that no process may log: that an invariant broke, or that the database is older than the
// nodes, which never happens here.
var mustNotSay = []string{"BUG in ", "which the store does not contain"}

// settle waits until the repaired cluster has nothing left to do.
func (w *world) settle(jobs []submitted) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), healed)
	defer cancel()
	for _, j := range jobs {
		w.over(ctx, j.id)
	}
	for ctx.Err() == nil {
		busy := w.busy()
		if busy == "" {
			return
		}
		wait(ctx, 250*time.Millisecond)
		if ctx.Err() != nil {
			w.t.Errorf("%s after the last fault: %s", healed, busy)
		}
	}
}

// busy describes the allocations of the nodes that should be free.
func (w *world) busy() string {
	reply, err := ask(w, func(ctx context.Context, c api.SynapseClient) (*messages.ListNodesReply, error) {
		return c.ListNodes(ctx, &messages.ListNodes{})
	})
	if err != nil {
		return fmt.Sprintf("nobody lists the machines: %v", err)
	}
	if len(reply.Nodes) != machines {
		return fmt.Sprintf("%d machines are known, of %d", len(reply.Nodes), machines)
	}
	for _, n := range reply.Nodes {
		free := n.Ledger.GetFree().GetMilliGpu()
		if n.Phase != "up" || free != gpusEach*1000 || len(n.Debts) > 0 {
			return fmt.Sprintf("%s is %s with %d milli-GPUs free and %d debts", n.Record.Id, n.Phase, free, len(n.Debts))
		}
	}
	return ""
}

// sumGPUTime checks that the classes of GPU time add up to the capacity on each day, through all leaders.
func (w *world) sumGPUTime() {
	reply, err := ask(w, func(ctx context.Context, c api.SynapseClient) (*messages.GetEfficiencyReply, error) {
		return c.GetEfficiency(ctx, &messages.GetEfficiency{})
	})
	if err != nil || len(reply.Time.GetRows()) == 0 {
		w.t.Errorf("no GPU time was counted: %v, %v", reply, err)
		return
	}
	for _, r := range reply.Time.Rows {
		sum := int64(0)
		for _, a := range r.Amounts {
			sum += a.MilliGpuMs
		}
		if sum != r.CapacityMilliGpuMs || sum == 0 {
			w.t.Errorf("day %d had %d milli-GPU-ms, but its classes sum to %d: %v", r.Day, r.CapacityMilliGpuMs, sum, r.Amounts)
		}
	}
}

// verdict compares the records of the store, the users and the members, and returns the number of attempts.
func (w *world) verdict(jobs []submitted) (attempts int) {
	for _, complaint := range w.read("broken") {
		text, _ := os.ReadFile(filepath.Join(w.dir, "broken", complaint))
		w.t.Errorf("member %s: %s", complaint, text)
	}
	for _, s := range append(slices.Clone(w.heads), w.nodes...) {
		text, err := os.ReadFile(s.log)
		if err != nil {
			w.t.Error(err)
		}
		for _, words := range mustNotSay {
			if i := strings.Index(string(text), words); i >= 0 {
				w.t.Errorf("%s said: %.300s", s.name, text[i:])
			}
		}
	}
	db, err := postgres.Open(postgres.Options{URL: w.store})
	if err != nil {
		w.t.Fatal(err)
	}
	defer db.Close()
	marks := map[string]bool{}
	for _, mark := range w.read("marks") {
		marks[mark] = true
	}
	known := map[string]bool{}
	for _, j := range jobs {
		if known[j.id] {
			w.t.Errorf("two requests have one job, %s", j.id)
		}
		known[j.id] = true
		before := w.t.Failed()
		record, tried, err := db.Job(topology.JobID(j.id))
		if err != nil {
			w.t.Errorf("job %s was acknowledged but is missing: %v", j.id, err)
			continue
		}
		attempts += len(tried)
		w.judge(j, record, tried, marks)
		if w.t.Failed() && !before {
			w.suspect = j.id
		}
	}
	for mark := range marks { //order: all are looked at
		w.t.Errorf("the store has no decision about the attempt of mark %s", mark)
	}
	over, err := db.Finished(store.Position{}, 2*len(jobs)+1)
	if err != nil || len(over) != len(jobs) {
		w.t.Errorf("%d jobs have finished in the store, but %d were acknowledged (%v)", len(over), len(jobs), err)
	}
	return attempts
}

// judge checks one job, and removes the marks of its attempts.
func (w *world) judge(j submitted, record *messages.JobRecord, tried []*messages.AttemptRecord, marks map[string]bool) {
	state := record.State
	if state != messages.JobState_JOB_STATE_SUCCEEDED && state != messages.JobState_JOB_STATE_CANCELLED {
		w.t.Errorf("job %s ended as %s: %s", j.id, state, record.Outcome)
	}
	if j.cancelled && state == messages.JobState_JOB_STATE_SUCCEEDED {
		w.t.Errorf("job %s succeeded after its cancel was acknowledged", j.id)
	}
	if record.Owner.GetName() == "" || record.RequestId != j.request {
		w.t.Errorf("job %s is of request %q, not %q", j.id, record.RequestId, j.request)
	}
	// The attempt that succeeded need not be the last. A lost node may return and report that its member had
	// finished its work, after the next attempt ended without a start.
	whole := false
	for i, a := range tried {
		token := messages.FromToken(a.Token).String()
		last := i == len(tried)-1
		w.ends.add(strings.ToLower(strings.TrimPrefix(a.End.GetCause().String(), "CAUSE_")))
		if !slices.Contains(mayEndBy, a.End.GetCause()) {
			w.t.Errorf("attempt %s of job %s ended by %s: %s", token, j.id, a.End.GetCause(), a.End.GetDetail())
		}
		if a.Run == j.requeued && a.End.GetCause() != messages.Cause_CAUSE_REQUEUED {
			w.t.Errorf("attempt %d of job %s was reported as stopped by a requeue, but has %s", a.Run, j.id, a.End.GetCause())
		}
		if len(a.Places) != int(j.spec.Gang.ReplicasMin) {
			w.t.Errorf("attempt %s of job %s has %d members", token, j.id, len(a.Places))
		}
		started, done := 0, 0
		for _, p := range a.Places {
			mark := fmt.Sprintf("%s.%s.%d.", j.id, token, p.Rank)
			if marks[mark+"started"] {
				started++
			}
			if marks[mark+"done"] {
				done++
			}
			delete(marks, mark+"started")
			delete(marks, mark+"done")
			// No fault affects a supervisor, so each member was observed until its end, or never started.
			if kind := p.Exit.GetKind(); kind != messages.ExitKind_EXIT_KIND_EXITED &&
				kind != messages.ExitKind_EXIT_KIND_NEVER_STARTED {
				w.t.Errorf("rank %d of attempt %s of job %s has the exit %s: %s", p.Rank, token, j.id, kind, p.Exit.GetDetail())
			}
		}
		if done > 0 && started != len(a.Places) {
			w.t.Errorf("attempt %s of job %s: %d members did their work, but %d of %d started",
				token, j.id, done, started, len(a.Places))
		}
		if done == len(a.Places) {
			whole = true
		} else if a.End.GetCause() == messages.Cause_CAUSE_SUCCEEDED {
			w.t.Errorf("job %s succeeded, but only %d of its %d members did their work", j.id, done, len(a.Places))
		}
		// If a node was lost, the success of its member was not known in time. A member of an attempt that will
		// be repeated may also finish its work before it is stopped.
		stopped := a.End.GetCause() == messages.Cause_CAUSE_MACHINE_LOST || a.End.GetCause() == messages.Cause_CAUSE_REQUEUED
		if cause := a.End.GetCause(); !last && !stopped && allWell(a) {
			w.t.Errorf("job %s succeeded in attempt %s, which ended by %s, but ran again", j.id, token, cause)
		}
	}
	if state == messages.JobState_JOB_STATE_SUCCEEDED && !whole {
		w.t.Errorf("job %s succeeded, but in none of %d attempts did all members do their work", j.id, len(tried))
	}
}

// allWell reports whether every member of an attempt is known to have exited with 0.
func allWell(a *messages.AttemptRecord) bool {
	for _, p := range a.Places {
		if p.Exit.GetKind() != messages.ExitKind_EXIT_KIND_EXITED || p.Exit.GetCode() != 0 {
			return false
		}
	}
	return true
}

// read lists the files that members left in a folder.
func (w *world) read(folder string) []string {
	entries, err := os.ReadDir(filepath.Join(w.dir, folder))
	if err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names
}
