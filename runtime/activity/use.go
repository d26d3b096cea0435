package activity

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file owns what a task uses: the totals since its start, and the values of the last hour.

const (
	// Every is the interval of the measurements of a task.
	Every = 10 * time.Second
	// maxGap is the time without a measurement after which nothing is known about the time before it.
	maxGap = 3 * Every
	// hour and minute are numbers of measurements.
	hour, minute = int(time.Hour / Every), int(time.Minute / Every)
)

// Measured is one measurement of a task.
type Measured struct {
	AtNs      int64         // by the clock of this boot
	Known     bool          // the processes could be measured
	Processes int           // without those that have ended
	CPU       time.Duration // since the start
	Memory    int64
	Peak      int64 // 0: unknown; the highest measured Memory counts
	Disk      int64 // since the start
	Network   int64 // since the start; -1: unknown
	GPUs      []GPU // of the task
	StepNs    int64 // when its step last changed; 0: it has reported none
}

// GPU is the activity of one GPU of a task. A GPU that the task shares is unknown.
type GPU struct {
	Known          bool
	Percent, Bytes int64
}

// Record holds what a task uses. The zero Record has no measurement.
type Record struct {
	last    Measured
	use     messages.Use
	idleNs  int64             // since when the task is known to be idle; 0: it is not
	percent [hour]gpuReadings // a ring: of the last hour
	next    int
}

// gpuReadings is the activity of all known GPUs of a task at one measurement.
type gpuReadings struct {
	gpus    int16
	percent int32 // added up over the GPUs
}

// Add adds a measurement. Totals never decrease, although processes that were not waited for vanish from the sums.
func (r *Record) Add(m Measured) {
	took := time.Duration(m.AtNs - r.last.AtNs)
	gap := r.last.AtNs == 0 || took <= 0 || took > maxGap
	u := &r.use
	if m.Known {
		u.Tasks, u.Processes = 1, int32(m.Processes)
		before := u.CpuMs
		u.CpuMs = max(before, m.CPU.Milliseconds())
		u.MilliCpu = 0
		if !gap && r.last.Known {
			u.MilliCpu = (u.CpuMs - before) * 1000 / max(took.Milliseconds(), 1)
		}
		u.MemoryBytes = m.Memory
		u.PeakMemoryBytes = max(u.PeakMemoryBytes, m.Memory, m.Peak)
		u.DiskBytes = max(u.DiskBytes, m.Disk)
		if m.Network >= 0 {
			u.NetworkTasks, u.NetworkBytes = 1, max(u.NetworkBytes, m.Network)
		}
	}
	r.addGPUs(m)
	switch idle := m.idle(); {
	case !idle:
		r.idleNs = 0
	case r.idleNs == 0 || gap:
		r.idleNs = m.AtNs
	}
	u.IdleMs = 0
	if r.idleNs > 0 {
		since := max(r.idleNs, m.StepNs)
		u.IdleMs = max(time.Duration(m.AtNs-since).Milliseconds(), 0)
	}
	r.last = m
}

// addGPUs adds the activity of the GPUs to the ring, and computes the means.
func (r *Record) addGPUs(m Measured) {
	var now gpuReadings
	memory := int64(0)
	for _, g := range m.GPUs {
		if g.Known {
			now.gpus, now.percent, memory = now.gpus+1, now.percent+int32(g.Percent), memory+g.Bytes
		}
	}
	r.percent[r.next] = now
	r.next = (r.next + 1) % hour
	r.use.Gpus, r.use.GpuMemoryBytes = int32(now.gpus), memory
	r.use.GpuPercent, r.use.GpuHourPercent = r.mean(minute), r.mean(hour)
}

// mean returns the sum over the GPUs of their mean activity in the last measurements, as far as it is known.
func (r *Record) mean(last int) int64 {
	gpus, percent := int64(0), int64(0)
	for i := range last {
		at := r.percent[(r.next-1-i+2*hour)%hour]
		gpus, percent = gpus+int64(at.gpus), percent+int64(at.percent)
	}
	if gpus == 0 {
		return 0
	}
	return percent * int64(r.use.Gpus) / gpus
}

// idle reports whether the task is known to do nothing: it has no process, or all of its GPUs are known and none is
// busy.
func (m Measured) idle() bool {
	if m.Known && m.Processes == 0 {
		return true
	}
	for _, g := range m.GPUs {
		if !g.Known || g.Percent > 0 {
			return false
		}
	}
	return len(m.GPUs) > 0
}

// Use returns what the task uses, for a message; nil: it was not measured yet.
func (r *Record) Use() *messages.Use {
	if r.last.AtNs == 0 {
		return nil
	}
	u := &r.use
	return &messages.Use{
		Tasks: u.Tasks, Processes: u.Processes, CpuMs: u.CpuMs, MilliCpu: u.MilliCpu, MemoryBytes: u.MemoryBytes,
		PeakMemoryBytes: u.PeakMemoryBytes, DiskBytes: u.DiskBytes, NetworkBytes: u.NetworkBytes,
		NetworkTasks: u.NetworkTasks, Gpus: u.Gpus, GpuPercent: u.GpuPercent, GpuHourPercent: u.GpuHourPercent,
		GpuMemoryBytes: u.GpuMemoryBytes, IdleMs: u.IdleMs,
	}
}

// Processes measures the processes of a task for its Record. A task without processes is known.
func Processes(nowNs int64, members []supervisor.Process) Measured {
	s := Take(nowNs, members)
	m := Measured{
		AtNs: nowNs, Known: s.Known || len(members) == 0, CPU: s.CPU, Memory: s.Resident, Disk: s.OnDisk, Network: -1,
	}
	for _, p := range members {
		if p.State == 'Z' || p.State == 'X' {
			continue
		}
		if m.Processes++; m.Network < 0 {
			m.Network = networkOf(p.PID)
		}
	}
	return m
}

// networkOf returns the bytes that a process's network namespace has received and sent; -1: the process shares the
// network of the node, or the bytes cannot be read.
func networkOf(pid int) int64 {
	dir := "/proc/" + strconv.Itoa(pid)
	own, err := os.Readlink(dir + "/ns/net")
	nodes, both := os.Readlink("/proc/self/ns/net")
	if err != nil || both != nil || own == nodes {
		return -1
	}
	data, err := os.ReadFile(dir + "/net/dev")
	if err != nil {
		return -1
	}
	return bytesIn(data)
}

// bytesIn adds up the received and sent bytes of a table of interfaces, without the loopback interface.
func bytesIn(table []byte) (total int64) {
	lines := bufio.NewScanner(bytes.NewReader(table))
	for lines.Scan() {
		name, rest, found := strings.Cut(lines.Text(), ":")
		fields := strings.Fields(rest)
		if !found || strings.TrimSpace(name) == "lo" || len(fields) < 9 {
			continue
		}
		for _, at := range []int{0, 8} {
			n, _ := strconv.ParseInt(fields[at], 10, 64)
			total += n
		}
	}
	return total
}
