package bench

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file measures the figures, each with its target.

func BenchmarkBody(b *testing.B) {
	b.Run("real", benchReal)
	b.Run("thousand", benchThousand)
	b.Run("durable", benchDurable)
	b.Run("sweep", benchSweep)
}

// benchReal runs a scheduler and 64 agents as processes on this host, with tasks as processes.
func benchReal(b *testing.B) {
	machines := size(64, 8)
	c := newCluster(b)
	c.machines(machines)
	time.Sleep(6 * time.Second)          // one heartbeat of each
	b.Run("memory", func(b *testing.B) { // target: ≤ 8 MB
		once(b, func() {
			var each []float64
			for _, agent := range c.agents {
				each = append(each, memory(b, agent.Process.Pid, "RssAnon"))
			}
			slices.Sort(each)
			b.ReportMetric(each[len(each)/2], "anon-MB/agent")
			b.ReportMetric(each[len(each)-1], "max-anon-MB")
		})
	})
	b.Run("gang", func(b *testing.B) {
		started := c.pipe()
		for _, k := range []int{1, 8, 64} { // targets: ≤ 35, 70, 400 ms
			if k > machines {
				break
			}
			b.Run(fmt.Sprintf("k=%d", k), func(b *testing.B) {
				once(b, func() {
					times := size(15, 1)
					var took []time.Duration
					c.costs(b, times, func() { // including the way back
						for range times {
							began := time.Now()
							id := c.cli(b, "submit", "-q", "--gpus-per-task", "8", "-n", fmt.Sprint(k), "--image", "host", "--",
								"/bin/sh", "-c", "echo > "+started.Name()+"; exec sleep 600")
							lines(b, started, k)
							took = append(took, time.Since(began))
							c.cancel(id)
							c.idle(machines)
						}
					})
					report(b, took)
				})
			})
		}
	})
	b.Run("jobs", func(b *testing.B) { // target: ≥ 150 a second
		once(b, func() {
			jobs := size(600, 40)
			spec := gang(1, "/bin/true")
			spec.Each.MilliGpu = 1000
			changes := c.watch()
			c.costs(b, jobs, func() {
				began := time.Now()
				ids := c.submitAll(jobs, 8, spec)
				b.ReportMetric(float64(jobs)/c.reach(changes, ids, "succeeded").Sub(began).Seconds(), "jobs/s")
			})
		})
	})
	b.Run("submits", func(b *testing.B) { // target: ≥ 300 a second; the jobs wait for nodes that do not exist
		once(b, func() {
			submits := size(400, 24)
			c.costs(b, submits, func() {
				mine, began := ended(b), time.Now()
				together(8, submits, func(int) {
					c.cli(b, "submit", "-q", "--allow-infeasible", "--gpu", "1", "-n", "1", "--image", "host", "--node-selector",
						"pool=none", "--", "/bin/true")
				})
				b.ReportMetric(float64(submits)/time.Since(began).Seconds(), "submits/s")
				b.ReportMetric(float64(ended(b)-mine)/1e6/float64(submits), "cli-cpu-ms")
			})
		})
	})
}

// cli runs the command line once, and returns its output.
func (c *cluster) cli(b *testing.B, args ...string) string {
	out, err := exec.Command(filepath.Join(bin, "synapse-cli"), append([]string{"--server", c.address}, args...)...).
		Output()
	if err != nil {
		b.Errorf("%v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

// crowded returns the number of nodes of one scheduler.
func crowded() int { return size(1000, 100) }

// span returns how long an idle scheduler is measured.
func span() time.Duration { return time.Duration(size(20, 2)) * time.Second }

// benchThousand runs a scheduler's process, and a thousand nodes in another process.
func benchThousand(b *testing.B) {
	c := newCluster(b)
	c.crowd(crowded())
	pid := c.scheduler.Process.Pid
	b.Run("idle", func(b *testing.B) { // targets: ≤ 5 % of a core, ≤ 300 MB
		once(b, func() {
			b.ReportMetric(busy(b, pid, span()), "cpu-%")
			b.ReportMetric(memory(b, pid, "VmRSS"), "rss-MB")
			b.ReportMetric(memory(b, pid, "RssAnon"), "anon-MB")
		})
	})
	b.Run("gangs", func(b *testing.B) { // target: ≥ 150 a second
		once(b, func() {
			gangs := size(125, 12)
			ids := c.held(gangs, 8)
			c.costs(b, gangs, func() { b.ReportMetric(c.release(ids), "gangs/s") })
			together(16, gangs, func(i int) { c.cancel(ids[i]) })
		})
		c.idle(crowded())
	})
	b.Run("waiting", func(b *testing.B) { // targets: ≤ 20 % of a core, ≤ 400 MB
		once(b, func() {
			gangs := size(10_000, 200)
			c.fill()
			began := time.Now()
			c.submitAll(gangs, 16, gang(8, "/bin/true"))
			b.ReportMetric(float64(gangs)/time.Since(began).Seconds(), "submits/s")
			time.Sleep(2 * time.Second)
			b.ReportMetric(busy(b, pid, span()), "cpu-%")
			b.ReportMetric(memory(b, pid, "VmRSS"), "rss-MB")
			b.ReportMetric(memory(b, pid, "RssAnon"), "anon-MB")
		})
	})
}

// fill occupies every node, so that all other jobs wait.
func (c *cluster) fill() string {
	changes := c.watch()
	ids := c.submitAll(1, 1, gang(int32(crowded()), "/bin/true"))
	c.reach(changes, ids, "running")
	return ids[0]
}

// held submits gangs to a full cluster, holds them, and frees the nodes.
func (c *cluster) held(gangs int, size int32) []string {
	c.b.Helper()
	filler := c.fill()
	ids := c.submitAll(gangs, 16, gang(size, "/bin/true"))
	c.hold(ids, false)
	c.cancel(filler)
	c.idle(crowded())
	return ids
}

// release releases gangs all at once, and returns how many started per second.
func (c *cluster) release(ids []string) float64 {
	c.b.Helper()
	changes := c.watch()
	began := time.Now()
	c.hold(ids, true)
	return float64(len(ids)) / c.reach(changes, ids, "running").Sub(began).Seconds()
}

func (c *cluster) hold(ids []string, release bool) {
	together(16, len(ids), func(i int) {
		if _, err := c.client.Hold(c.ctx(),
			&messages.Hold{Job: ids[i], Reason: "all at once", Release: release}); err != nil {
			c.b.Errorf("hold: %v", err)
		}
	})
}
