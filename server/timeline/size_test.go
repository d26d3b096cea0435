package timeline

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/web"
)

// room simulates a cluster of 8-GPU nodes in which gangs of eight complete nodes start and end.
type room struct {
	rng  *rand.Rand
	wall int64
	free []int
	live []gang
	n    int
	tell func(*messages.Event)
}

type gang struct {
	record   *messages.JobRecord
	attempt  *messages.AttemptRecord
	machines []int
}

func (r *room) machine(at int, job string) {
	record := &messages.NodeRecord{Id: fmt.Sprintf("node-%d", at+1), Announcement: &messages.Announcement{
		Place: []*messages.Label{{Key: "zone", Value: fmt.Sprintf("z%d", at/2500)}, {Key: "rack",
			Value: fmt.Sprintf("z%d-r%d", at/2500, at/32)}},
		Total: &messages.Resources{MilliCpu: 128_000, MemoryBytes: 1 << 40, MilliGpu: 8_000},
	}}
	ledger := &messages.LedgerReport{Total: record.Announcement.Total, Free: record.Announcement.Total}
	for i := range 8 {
		g := &messages.Gpu{Id: fmt.Sprintf("gpu-%d", i), Type: "H100"}
		record.Announcement.Gpus = append(record.Announcement.Gpus, g)
		if job == "" {
			ledger.FreeGpus = append(ledger.FreeGpus, &messages.GpuShare{GpuId: g.Id, Milli: 1000})
		}
	}
	if job != "" {
		ledger.Free = &messages.Resources{MilliCpu: 127_000, MemoryBytes: 1<<40 - 1<<30}
		grant := &messages.Grant{Amount: &messages.Resources{MilliGpu: 8_000}}
		for _, g := range record.Announcement.Gpus {
			grant.Gpus = append(grant.Gpus, &messages.GpuShare{GpuId: g.Id, Milli: 1000})
		}
		ledger.Slices = []*messages.SliceReport{{Job: job, Grants: []*messages.Grant{grant}}}
	}
	r.tell(&messages.Event{Node: &messages.NodeStatus{Record: record, Phase: messages.NodeUp, Ledger: ledger}})
}

const alphabet = "abcdefghijklmnopqrstuvwxyz234567"

func (r *room) begin() {
	id := []byte("j")
	for range 12 {
		id = append(id, alphabet[r.rng.IntN(len(alphabet))])
	}
	r.n++
	g := gang{record: &messages.JobRecord{Id: string(id), Owner: &messages.Principal{Name: fmt.Sprintf("user-%d",
		r.rng.IntN(40))}, SubmittedUnixMs: r.wall - r.rng.Int64N(3_600_000), Runs: 1,
		State: messages.JobState_JOB_STATE_ACTIVE, Spec: &messages.JobSpec{
			Name: fmt.Sprintf("train-%d", r.rng.IntN(1000)), Queue: fmt.Sprintf("team-%d", r.rng.IntN(12)),
			Gang: &messages.GangSpec{ReplicasMin: 8, ReplicasMax: 8},
			Each: &messages.Resources{MilliCpu: 1000, MemoryBytes: 1 << 30, MilliGpu: 8_000},
		}}, attempt: &messages.AttemptRecord{Run: 1, CommittedUnixMs: r.wall}}
	job := func(phase string) {
		r.tell(&messages.Event{Job: &messages.JobStatus{Record: g.record, Attempt: g.attempt, Phase: phase}})
	}
	job(messages.PhaseQueued)
	for range 8 {
		at := r.rng.IntN(len(r.free))
		g.machines = append(g.machines, r.free[at])
		r.free[at] = r.free[len(r.free)-1]
		r.free = r.free[:len(r.free)-1]
		r.machine(g.machines[len(g.machines)-1], g.record.Id)
	}
	g.attempt.StartedUnixMs = r.wall + 700 + r.rng.Int64N(900)
	job(messages.PhaseRunning)
	r.live = append(r.live, g)
}

func (r *room) end() {
	at := r.rng.IntN(len(r.live))
	g := r.live[at]
	r.live[at] = r.live[len(r.live)-1]
	r.live = r.live[:len(r.live)-1]
	g.record.State, g.record.FinishedUnixMs = messages.JobState_JOB_STATE_SUCCEEDED, r.wall
	r.tell(&messages.Event{Job: &messages.JobStatus{Record: g.record, Attempt: g.attempt, Phase: "succeeded"}})
	for _, m := range g.machines {
		r.machine(m, "")
		r.free = append(r.free, m)
	}
}

// measured holds the cost of recording a cluster.
type measured struct {
	day, kept  float64 // bytes of one day, and of the Keeper's memory
	each       float64 // bytes per change
	cores      float64
	moment     time.Duration // to find a state
	lastMoment int
}

// measure records 100 changes of nodes per second for this many blocks.
func measure(tb testing.TB, machines, blocks int) (m measured) {
	wall := int64(1_700_000_000_000)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	k, err := NewKeeper(Options{Dir: tb.TempDir(), Keep: DefaultFor, Text: web.PastText,
		WallMs: func() int64 { return wall }})
	if err != nil {
		tb.Fatal(err)
	}
	k.seen = map[string]bool{} // as for a watch that has started
	var spent time.Duration
	r := &room{rng: rand.New(rand.NewPCG(1, 2)), tell: func(e *messages.Event) {
		began := time.Now()
		k.take(e)
		spent += time.Since(began)
	}}
	for at := range machines {
		r.machine(at, "")
		r.free = append(r.free, at)
	}
	r.tell(&messages.Event{Synced: true})
	for range machines / 10 {
		r.wall = wall
		r.begin()
	}
	k.write()
	first := float64(k.log.size)
	spent = 0
	changes := blocks * int(blockEvery.Seconds()*100/16) * 16
	for range blocks {
		for range int(blockEvery.Seconds() * 100 / 16) {
			r.wall = wall + r.rng.Int64N(blockEvery.Milliseconds())
			r.begin()
			r.end()
		}
		wall += blockEvery.Milliseconds()
		began := time.Now()
		k.write()
		spent += time.Since(began)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	rest := float64(k.log.size) - first
	m.each = rest / float64(changes)
	m.day = first*float64(24*time.Hour/partFor) + rest*float64(24*time.Hour/blockEvery)/float64(blocks)
	m.kept = float64(after.HeapAlloc) - float64(before.HeapAlloc)
	m.cores = spent.Seconds() / (float64(blocks) * blockEvery.Seconds())
	began := time.Now()
	if _, err := k.Moments(wall-1000, wall, func([]byte) error { m.lastMoment++; return nil }); err != nil {
		tb.Fatal(err)
	}
	m.moment = time.Since(began)
	k.log.Close()
	runtime.KeepAlive(r)
	return m
}

// maxEach is the budget in bytes per change: 100 MB for a day with 100 changes per second.
const maxEach = float64(MaxBytes) / (24 * 3600 * 100)

// TestSize checks that a day with 100 changes per second fits into the limit, and that its states can be read.
func TestSize(t *testing.T) {
	m := measure(t, 2_000, 20)
	if m.each > maxEach {
		t.Errorf("a change takes %.1f bytes, more than %.1f", m.each, maxEach)
	}
	if m.lastMoment < 2_000/maxChanges {
		t.Errorf("a moment has %d lines", m.lastMoment)
	}
}

// BenchmarkPast measures a day of 10,000 nodes with 100 changes per second: gangs of eight complete nodes start and
// end. It reports the bytes per day, the Keeper's memory and CPU time, and the time to find a state at the end of a
// part.
func BenchmarkPast(b *testing.B) {
	machines, blocks := 10_000, int(partFor/blockEvery)
	if testing.Short() {
		machines, blocks = 500, 20
	}
	for b.Loop() {
		m := measure(b, machines, blocks)
		b.ReportMetric(m.day/1e6, "MB/day")
		b.ReportMetric(m.kept/1e6, "MB-kept")
		b.ReportMetric(m.cores*1000, "core-‰")
		b.ReportMetric(float64(m.moment.Milliseconds()), "ms-a-moment")
		if m.day > MaxBytes || m.kept > 32<<20 {
			b.Errorf("a day has %.0f MB, and the keeper %.0f", m.day/1e6, m.kept/1e6)
		}
	}
}
