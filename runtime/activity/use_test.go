package activity

import (
	"testing"
	"time"

	"github.com/yi-json/synapse/clock"
	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests what a task uses, with real processes and with made-up measurements.

// TestUseOfProcesses checks the use of a task that works, of one that sleeps, and of one that has ended.
func TestUseOfProcesses(t *testing.T) {
	works, sleeps := started(t, "while :; do :; done"), started(t, "exec sleep 600")
	var busy, calm, gone Record
	measure := func() {
		all, now := supervisor.Processes(), clock.BootNs()
		busy.Add(Processes(now, works.Members(all)))
		calm.Add(Processes(now, sleeps.Members(all)))
	}
	measure()
	used := pace.Wait(pace.Of(10*time.Second), func() bool {
		time.Sleep(100 * time.Millisecond)
		measure()
		return busy.Use().MilliCpu > 100 && busy.Use().CpuMs > 50
	})
	if b, c := busy.Use(), calm.Use(); !used || b.Tasks != 1 || b.Processes != 1 || b.MemoryBytes <= 0 || b.IdleMs != 0 {
		t.Errorf("the busy task uses %v", b)
	} else if c.CpuMs > 50 || c.MilliCpu > 50 || c.PeakMemoryBytes < c.MemoryBytes || c.IdleMs+int64(c.NetworkTasks) > 0 {
		t.Errorf("the sleeping task uses %v", c)
	}
	gone.Add(Processes(clock.BootNs(), nil))
	gone.Add(Processes(clock.BootNs()+int64(Every), nil))
	if g := gone.Use(); g.Processes != 0 || g.IdleMs < Every.Milliseconds() {
		t.Errorf("a task without a process uses %v", g)
	}
}

// minutes adds measurements of a task for some minutes.
func (r *Record) minutes(n int, m Measured) {
	for range n * minute {
		m.AtNs = r.last.AtNs + int64(Every)
		m.Known, m.Processes, m.Network = true, 1, -1
		r.Add(m)
	}
}

// TestIdle checks when a task is known to be idle: only if each of its GPUs is known and does nothing, and its step
// does not change.
func TestIdle(t *testing.T) {
	none, some, unknown := GPU{Known: true}, GPU{Known: true, Percent: 1}, GPU{}
	for name, c := range map[string]struct {
		gpus []GPU
		idle bool
	}{
		"no GPU":      {nil, false},
		"one":         {[]GPU{none}, true},
		"two":         {[]GPU{none, none}, true},
		"one works":   {[]GPU{none, some}, false},
		"one unknown": {[]GPU{none, unknown}, false},
		"all unknown": {[]GPU{unknown, unknown}, false},
	} {
		r := &Record{last: Measured{AtNs: int64(time.Hour), Known: true}}
		r.minutes(10, Measured{GPUs: c.gpus})
		if got := r.Use().IdleMs; (got >= 9*60_000) != c.idle || !c.idle && got != 0 {
			t.Errorf("%s: idle for %d ms", name, got)
		}
	}
	r := &Record{last: Measured{AtNs: int64(time.Hour), Known: true}}
	r.minutes(10, Measured{GPUs: []GPU{none}})
	r.minutes(2, Measured{GPUs: []GPU{none}, StepNs: r.last.AtNs})
	if got := r.Use().IdleMs; got != 2*60_000 {
		t.Errorf("idle for %d ms after a step 2 minutes ago", got)
	}
	r.Add(Measured{AtNs: r.last.AtNs + int64(time.Minute), GPUs: []GPU{none}})
	if got := r.Use().IdleMs; got != 0 {
		t.Errorf("idle for %d ms although nothing was measured for a minute", got)
	}
	r.minutes(1, Measured{GPUs: []GPU{unknown}})
	r.minutes(1, Measured{GPUs: []GPU{none}})
	if got := r.Use().IdleMs; got > 60_000 {
		t.Errorf("idle for %d ms although the GPU was unknown a minute ago", got)
	}
}

// TestMeans checks the activity of GPUs in the last minute and in the last hour. Unknown measurements do not count.
func TestMeans(t *testing.T) {
	r := &Record{last: Measured{AtNs: int64(time.Hour), Known: true}}
	full, half := GPU{Known: true, Percent: 100, Bytes: 5}, GPU{Known: true, Percent: 50, Bytes: 7}
	r.minutes(30, Measured{GPUs: []GPU{full, full}})
	r.minutes(10, Measured{GPUs: []GPU{{}, {}}})
	if u := r.Use(); u.Gpus != 0 || u.GpuPercent != 0 || u.GPUWords() != "" {
		t.Errorf("unknown GPUs use %v", u)
	}
	r.minutes(30, Measured{GPUs: []GPU{half, half}})
	u := r.Use()
	if u.Gpus != 2 || u.GpuPercent != 100 || u.GpuMemoryBytes != 14 || u.GPUWords() != "50%" {
		t.Errorf("in the last minute: %v", u)
	}
	if u.GPUHourWords() != "70%" { // 20 minutes at 100, 10 unknown, 30 at 50
		t.Errorf("in the last hour: %s", u.GPUHourWords())
	}
}

// TestTotals checks that totals never decrease when processes vanish from the sums.
func TestTotals(t *testing.T) {
	var r Record
	r.Add(Measured{AtNs: 1, Known: true, CPU: time.Minute, Memory: 9, Disk: 8, Network: 7})
	r.Add(Measured{AtNs: 2, Known: true, CPU: time.Second, Memory: 3, Disk: 2, Network: 1})
	r.Add(Measured{AtNs: 3})
	u := r.Use()
	if u.CpuMs != 60_000 || u.PeakMemoryBytes != 9 || u.MemoryBytes != 3 || u.DiskBytes != 8 || u.NetworkBytes != 7 {
		t.Errorf("it uses %v", u)
	}
}

// TestInterfaces checks the sum of a table of interfaces.
func TestInterfaces(t *testing.T) {
	table := `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:  999       1    0    0    0     0          0         0      999       1    0    0    0     0       0          0
  eth0:  100       1    0    0    0     0          0         0       20       1    0    0    0     0       0          0
  ib0:3       1    0    0    0     0          0         0       4       1    0    0    0     0       0          0
`
	if n := bytesIn([]byte(table)); n != 127 {
		t.Errorf("%d bytes, want 127", n)
	}
}
