package launcher

import (
	"cmp"
	"sync"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/activity"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file measures what the running tasks use. All tasks share one read of /proc, and a task in a container is
// measured by its cgroups. The activity of GPUs comes from the checks of the node's GPUs.

// taskUse holds what one task uses. Only the goroutine of runActivity uses the fields above mu.
type taskUse struct {
	record activity.Record
	due    int64

	mu   sync.Mutex
	last *messages.Use // as last measured; nil: not measured yet
	news bool          // it has not been sent
}

// measures reports whether a task must be measured now. The time is the same for all tasks.
func (t *task) measures(now int64) bool {
	u := &t.use
	if u.due == 0 { // the first measurement shows a new task soon
		u.due = now + int64(activityEvery)
	}
	return now >= u.due
}

// measureUse measures a task.
func (t *task) measureUse(now int64, all []supervisor.Process) {
	u := &t.use
	u.due = now - now%int64(activity.Every) + int64(activity.Every)
	if t.activity.root.PID == 0 && !t.findRoot() {
		return
	}
	m := activity.Processes(now, t.activity.root.Members(all))
	if t.driver.Name() != "process" {
		if stats, err := t.driver.Stats(&t.Task, nil); err == nil && stats.GetCpuNs() > 0 {
			m.Known, m.CPU, m.Peak = true, time.Duration(stats.CpuNs), stats.PeakMemoryBytes
			m.Memory, m.Processes = cmp.Or(stats.MemoryBytes, m.Memory), max(m.Processes, int(stats.Processes))
		}
	}
	m.GPUs = t.gpuUse()
	t.progress.mu.Lock()
	m.StepNs = t.progress.model.Message().ChangedNs
	t.progress.mu.Unlock()
	u.record.Add(m)
	u.mu.Lock()
	u.last, u.news = u.record.Use(), true
	u.mu.Unlock()
	t.progress.mu.Lock()
	defer t.progress.mu.Unlock()
	t.sendProgress()
}

// gpuUse returns the activity of the task's GPUs. The activity of a GPU that other tasks use too is unknown.
func (t *task) gpuUse() (all []activity.GPU) {
	for _, share := range t.Grant.GetGpus() {
		var g activity.GPU
		if t.l.o.GpuUse != nil && share.GetMilli() == 1000 {
			use, known := t.l.o.GpuUse(share.GetGpuId())
			g = activity.GPU{Known: known, Percent: use.Percent, Bytes: use.MemoryBytes}
		}
		all = append(all, g)
	}
	return all
}

// takeUse returns the use for a message about the progress, and whether it is new.
func (u *taskUse) takeUse() (*messages.Use, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	news := u.news
	u.news = false
	return u.last, news
}

// repeat makes the next message carry the use, for an actor that knows nothing yet.
func (u *taskUse) repeat() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.news = u.last != nil
}
