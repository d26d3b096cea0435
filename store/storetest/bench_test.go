package storetest

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/cluster/link"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file owns the benchmarks that are the same for every database.

// benchmarks measures one store: durable submits as by a leader, the same without the layers above the store, and a
// single submit.
func benchmarks(b *testing.B, fresh opener) {
	open := func(b *testing.B) store.Store { return fresh(b).s }
	const callers = 64
	b.Run("submit/alone", func(b *testing.B) { benchAlone(b, open(b)) })
	b.Run(fmt.Sprintf("submit/bare/batch=%d", callers), func(b *testing.B) { benchBare(b, open(b), callers) })
	b.Run(fmt.Sprintf("submit/journal/callers=%d", callers), func(b *testing.B) { benchJournal(b, open(b), callers) })
	b.Run("commit/ranks=64", func(b *testing.B) { benchLife(b, open(b), 64) })
	tasks, finished := 140_000, 50_000
	if testing.Short() { // only to check that the benchmark runs
		tasks, finished = 1_400, 500
	}
	b.Run("load/gangs-of=64", func(b *testing.B) { benchLoad(b, open(b), tasks, 64, 0) })
	b.Run("load/gangs-of=1", func(b *testing.B) { benchLoad(b, open(b), tasks, 1, 0) })
	b.Run(fmt.Sprintf("load/gangs-of=64/finished=%d", finished),
		func(b *testing.B) { benchLoad(b, open(b), tasks, 64, finished) })
}

// benchLoad measures the load of a new leader with 5,000 nodes, and with tasks in gangs.
func benchLoad(b *testing.B, s store.Store, tasks, gang, finished int) {
	epoch := mustLead(b, s)
	var changes []actors.Change
	put := func(c ...actors.Change) {
		if changes = append(changes, c...); len(changes) >= 500 {
			mustDo(b, s, epoch, changes)
			changes = nil
		}
	}
	w := writer{epoch: epoch}
	for n := range 5_000 {
		m := w.machine(fmt.Sprintf("n%05d", n))
		m.Announcement = &messages.Announcement{
			Total: &messages.Resources{MilliCpu: 128_000, MemoryBytes: 2 << 40, MilliGpu: 8_000},
		}
		for g := range 8 {
			m.Announcement.Gpus = append(m.Announcement.Gpus, &messages.Gpu{
				Id: random("GPU", uint64(n*8+g)), Type: "H100", MemoryBytes: 80 << 30,
			})
		}
		put(actors.Change{Node: m})
	}
	n := uint64(0)
	for range finished {
		n++
		over := w.over(benchSubmit(epoch, n), int64(n))
		over.Revision = 1
		put(jobChange(over))
	}
	for range tasks / gang {
		n++
		job := benchSubmit(epoch, n)
		a := gangCommit(job.Id, topology.Token{Epoch: epoch, Counter: n}, gang)
		job.State, job.Attempt = messages.JobState_JOB_STATE_ACTIVE, a.Token
		put(jobChange(job, a))
	}
	mustDo(b, s, epoch, changes)
	for b.Loop() {
		l, err := s.Load(epoch)
		if err != nil || len(l.Jobs) != tasks/gang || len(l.Attempts) != tasks/gang || len(l.Nodes) != 5_000 {
			b.Fatalf("loaded something else: %v", err)
		}
	}
}

// random returns an ID as a client or a leader generates it: no two are neighbours.
func random(kind string, n uint64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s-%d", kind, n))
	return fmt.Sprintf("%s-%x", kind, sum[:10])
}

// benchSubmit returns a typical job of about a kilobyte.
func benchSubmit(epoch, n uint64) *messages.JobRecord {
	id := random("j", n)
	return &messages.JobRecord{
		Id: id, Revision: 1, WrittenBy: &messages.Token{Epoch: epoch, Counter: n}, Arrival: n,
		Owner: &messages.Principal{Name: "alice", Groups: []string{"research"}}, RequestId: random("r", n),
		SubmittedUnixMs: 1_700_000_000_000 + int64(n), State: messages.JobState_JOB_STATE_QUEUED,
		Spec: &messages.JobSpec{
			Name: "train-" + id, Queue: "research", Image: "registry.example/research/train:2024-11",
			Command: []string{"torchrun", "--nnodes=8", "--nproc-per-node=8", "train.py", "--config", "configs/large.yaml"},
			Env: []*messages.EnvVar{
				{Name: "NCCL_DEBUG", Value: "WARN"}, {Name: "RUN", Value: id}, {Name: "DATA", Value: "/data/tokens/v3"},
			},
			Gang: &messages.GangSpec{ReplicasMin: 8, ReplicasMax: 8},
			Each: &messages.Resources{MilliCpu: 64_000, MemoryBytes: 512 << 30, MilliGpu: 8_000},
		},
	}
}

func mustLead(b *testing.B, s store.Store) uint64 {
	b.Helper()
	epoch, err := s.Lead("bench")
	if err != nil {
		b.Fatal(err)
	}
	return epoch
}

func mustDo(b *testing.B, s store.Store, epoch uint64, changes []actors.Change) {
	b.Helper()
	verdicts, err := s.Apply(epoch, changes)
	if err != nil {
		b.Fatal(err)
	}
	if slices.Contains(verdicts, actors.Conflict) {
		b.Fatal("a conflict")
	}
}

// percentiles reports the durations of the calls.
func percentiles(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(took[len(took)*p/100].Microseconds())/1000, fmt.Sprintf("p%d-ms", p))
	}
}

func benchAlone(b *testing.B, s store.Store) {
	epoch := mustLead(b, s)
	var took []time.Duration
	for n := uint64(1); b.Loop(); n++ {
		change := []actors.Change{{Job: benchSubmit(epoch, n)}}
		began := time.Now()
		mustDo(b, s, epoch, change)
		took = append(took, time.Since(began))
	}
	percentiles(b, took)
}

func benchBare(b *testing.B, s store.Store, batch int) {
	epoch := mustLead(b, s)
	n := uint64(0)
	for b.Loop() {
		changes := make([]actors.Change, batch)
		for i := range changes {
			n++
			changes[i].Job = benchSubmit(epoch, n)
		}
		mustDo(b, s, epoch, changes)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "submits/s")
}

// benchLife measures one gang's COMMIT, start, and end with all its exits.
func benchLife(b *testing.B, s store.Store, ranks int) {
	epoch := mustLead(b, s)
	n := uint64(0)
	for b.Loop() {
		n++
		for _, change := range life(epoch, n, ranks) {
			mustDo(b, s, epoch, []actors.Change{change})
		}
	}
	b.ReportMetric(float64(4*n)/b.Elapsed().Seconds(), "transactions/s")
}

// life returns the writes of one job: submit, COMMIT, started, finished.
func life(epoch, n uint64, ranks int) []actors.Change {
	job := benchSubmit(epoch, n*8)
	w := writer{epoch: epoch, writes: n * 8}
	a := gangCommit(job.Id, topology.Token{Epoch: epoch, Counter: n}, ranks)
	started := attempt(a, func(a *messages.AttemptRecord) { a.StartedUnixMs = 8 })
	all := make([]int, ranks)
	for i := range all {
		all[i] = i
	}
	over := attempt(started, exited(all...), ended(messages.Cause_CAUSE_SUCCEEDED))
	active := w.active(job, a)
	running := w.next(active, nil)
	return []actors.Change{
		jobChange(job), jobChange(active, a), jobChange(running, started), jobChange(w.over(running, int64(n)), over),
	}
}

// gangCommit returns the COMMIT of an attempt with eight GPUs on each node.
func gangCommit(job string, token topology.Token, ranks int) *messages.AttemptRecord {
	a := &messages.AttemptRecord{
		Job: job, Token: messages.ToToken(token), Run: 1, CommittedUnixMs: 7, Places: make([]*messages.Place, ranks),
	}
	for rank := range a.Places {
		g := &messages.Grant{Rank: int32(rank),
			Amount: &messages.Resources{MilliCpu: 8_000, MemoryBytes: 64 << 30, MilliGpu: 1_000},
			Gpus:   []*messages.GpuShare{{GpuId: fmt.Sprintf("GPU-5f2c0b6e-8d6a-4b1f-9a61-2f6a4ae0%04x", rank%8), Milli: 1_000}}}
		node := fmt.Sprintf("n%05d", rank/8)
		a.Places[rank] = &messages.Place{
			Rank: int32(rank), Node: node, MachineId: "machine-" + node, Address: "10.0.0.1:9000", Grant: g,
		}
	}
	return a
}

// journal behaves like the Journal with a Port: waiting writes become the next transaction, and one is in flight at a
// time.
type journal struct {
	port    *store.Port
	epoch   uint64
	waiting []pending
	flight  []pending
	ticket  uint64
}

type pending struct {
	job  *messages.JobRecord
	done chan actors.Verdict
}

func (j *journal) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case pending:
		j.waiting = append(j.waiting, m)
	case actors.Applied:
		for i, p := range j.flight {
			v := actors.Conflict
			if m.Err == "" && !m.Deposed {
				v = m.Verdicts[i]
			}
			p.done <- v
		}
		j.flight = j.flight[:0]
	default:
		return
	}
	if len(j.flight) > 0 || len(j.waiting) == 0 {
		return
	}
	j.flight, j.waiting = j.waiting, j.flight
	changes := make([]actors.Change, len(j.flight))
	for i, p := range j.flight {
		changes[i].Job = p.job
	}
	j.ticket++
	j.port.Apply(j.epoch, j.ticket, changes, ctx.Self())
}

func benchJournal(b *testing.B, s store.Store, callers int) {
	system := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }),
	)
	epoch := mustLead(b, s)
	port := store.NewPort(s, system)
	pid := system.Root.Spawn(actor.PropsFromProducer(
		func() actor.Actor { return &journal{port: port, epoch: epoch} }, actor.WithMailbox(link.Mailbox),
	))
	var n, failed atomic.Uint64
	var mu sync.Mutex
	var all []time.Duration
	b.ResetTimer()
	var wait sync.WaitGroup
	for range callers {
		wait.Go(func() {
			done := make(chan actors.Verdict, 1)
			var took []time.Duration
			for {
				i := n.Add(1)
				if i > uint64(b.N) {
					break
				}
				job := benchSubmit(epoch, i)
				began := time.Now()
				system.Root.Send(pid, pending{job, done})
				if <-done != actors.Done {
					failed.Add(1)
				}
				took = append(took, time.Since(began))
			}
			mu.Lock()
			all = append(all, took...)
			mu.Unlock()
		})
	}
	wait.Wait()
	b.StopTimer()
	if failed.Load() > 0 {
		b.Fatalf("%d submits failed", failed.Load())
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "submits/s")
	percentiles(b, all)
	system.Root.Stop(pid)
	_ = port.Close()
}
