package storetest

import (
	"flag"
	"fmt"
	"runtime"
	"testing"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file owns the benchmark of finished jobs: a store with many of them, their cost for a new leader, and queries.

// pastOwners is the number of their owners. Every owner's jobs are spread over the entire time.
const pastOwners = 1_000

// past is the number of finished jobs. With two tasks each, they take 1.7 KB in SQLite, and a quarter of a millisecond
// to write.
var past = flag.Int("past", 100_000, "how many jobs are over in BenchmarkPast; 10,000 with -short")

func BenchmarkPast(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { benchPast(b, openSQLite) })
	b.Run("postgres", func(b *testing.B) { benchPast(b, postgresOf(b, 0)) }) // no lease: the next process has another name
}

// benchPast fills a store with finished jobs of two tasks each, and measures it.
func benchPast(b *testing.B, open opener) {
	jobs := *past
	if testing.Short() {
		jobs = 10_000
	}
	kept := open(b)
	s := kept.s
	fillPast(b, s, jobs)
	b.Run("start", func(b *testing.B) {
		for b.Loop() {
			s = kept.again()
			epoch := mustLead(b, s)
			if l, err := s.Load(epoch); err != nil || len(l.Jobs) != 0 {
				b.Fatalf("loaded %d jobs: %v", len(l.Jobs), err)
			}
			if page, err := s.History(store.Past{Look: 1_000}); err != nil || len(page.Jobs) != min(jobs, 1_000) {
				b.Fatalf("%d are recalled: %v", len(page.Jobs), err)
			}
		}
		b.ReportMetric(heapMB(), "heap-MB")
	})
	for name, past := range map[string]store.Past{ //order: each is measured by itself
		"newest": {Look: 100}, "owner": {Look: 100, Owner: "owner-7"}, "queue": {Look: 100, Queue: "q-3"},
		"owner/oldest": {Look: 100, Owner: "owner-7", Before: store.Position{FinishedUnixMs: int64(jobs / 2)}},
		"failed":       {Look: 1_000, States: []messages.JobState{messages.JobState_JOB_STATE_FAILED}},
	} {
		b.Run(fmt.Sprintf("page/%s/look=%d", name, past.Look), func(b *testing.B) {
			for b.Loop() {
				if page, err := s.History(past); err != nil || page.Looked == 0 {
					b.Fatalf("%d looked at: %v", page.Looked, err)
				}
			}
		})
	}
	b.Run("all", func(b *testing.B) {
		found, most := 0, 0.0
		for b.Loop() {
			found = 0
			for past, pages := (store.Past{Look: 1_000}), 0; ; pages++ {
				page, err := s.History(past)
				if err != nil {
					b.Fatal(err)
				}
				if found += len(page.Jobs); pages%100 == 0 {
					most = max(most, heapMB())
				}
				if past.Before = page.Next; page.Next == (store.Position{}) {
					break
				}
			}
		}
		if found != jobs {
			b.Fatalf("%d jobs, want %d", found, jobs)
		}
		b.ReportMetric(float64(found*b.N)/b.Elapsed().Seconds(), "jobs/s")
		b.ReportMetric(most, "heap-MB")
	})
}

// heapMB returns the size of live heap objects.
func heapMB() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

func fillPast(b *testing.B, s store.Store, jobs int) {
	b.Helper()
	epoch := mustLead(b, s)
	const batch = 500
	for done := 0; done < jobs; {
		var changes []actors.Change
		for range min(batch, jobs-done) {
			done++
			n := uint64(done)
			w := writer{epoch: epoch, writes: n * 4}
			job := benchSubmit(epoch, n)
			job.WrittenBy, job.Owner.Name, job.Spec.Queue = w.stamp(), fmt.Sprintf("owner-%d", n%pastOwners), fmt.Sprintf("q-%d",
				n%10)
			a := gangCommit(job.Id, topology.Token{Epoch: epoch, Counter: n}, 2)
			job.State, job.Attempt = messages.JobState_JOB_STATE_ACTIVE, a.Token
			over := w.over(job, int64(n))
			if n%20 == 0 {
				over.State = messages.JobState_JOB_STATE_FAILED
			}
			changes = append(changes, jobChange(job, a),
				jobChange(over, attempt(a, exited(0, 1), ended(messages.Cause_CAUSE_SUCCEEDED))))
		}
		mustDo(b, s, epoch, changes)
	}
}
