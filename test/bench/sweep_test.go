package bench

import (
	"slices"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/pgtest"
)

// This file measures the largest array: how long its submit takes until it is on disk, and how much memory the
// scheduler needs while all of it waits.

func benchSweep(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { sweep(b, newCluster(b)) })
	b.Run("postgres", func(b *testing.B) { sweep(b, newCluster(b, "--store", pgtest.Start(b).Database(b))) })
}

// sweep submits the array five times, each time to a scheduler with the previous ones. It reports the slowest submit
// and the mean memory, because a process allocates memory in large pieces.
func sweep(b *testing.B, c *cluster) {
	times, elements := size(5, 2), int32(size(messages.MaxElements, 1000))
	ask := func(spec *messages.JobSpec, name string) (took time.Duration) {
		c.eventually("the scheduler takes jobs", func() bool {
			began := time.Now()
			_, err := c.client.Submit(c.ctx(), &messages.Submit{RequestId: name, Spec: spec, AllowInfeasible: true})
			took = time.Since(began)
			return err == nil
		})
		return took
	}
	once(b, func() {
		ask(gang(1, "/bin/true"), "first")
		time.Sleep(time.Second)
		before := memory(b, c.scheduler.Process.Pid, "RssAnon")
		var took []time.Duration
		for i := range times {
			spec := gang(1, "/bin/true")
			spec.Array = &messages.ArraySpec{Indices: []*messages.IndexRange{{Last: elements - 1}}}
			took = append(took, ask(spec, string(rune('a'+i))))
			time.Sleep(time.Second) // the first of its elements become jobs
		}
		reply, err := c.client.ListJobs(c.ctx(), &messages.ListJobs{})
		if err != nil || waiting(reply) != int32(times)*elements {
			b.Fatalf("%d elements wait: %v", waiting(reply), err)
		}
		each := (memory(b, c.scheduler.Process.Pid, "RssAnon") - before) / float64(times)
		b.ReportMetric(float64(slices.Max(took))/1e6, "max-ms/submit")
		b.ReportMetric(each, "anon-MB/array")
		if slices.Max(took) > time.Second || each > 50 {
			b.Errorf("submits took %v, and each array %.1f MB: the limits are 1 s and 50 MB", took, each)
		}
	})
}

// waiting returns the number of waiting elements, by the lines of their arrays.
func waiting(reply *messages.ListJobsReply) (n int32) {
	for _, j := range reply.GetJobs() {
		n += j.GetCounts().GetWaiting()
	}
	return n
}
