package launcher_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// BenchmarkStartToExit measures the time from StartTask of `true` to TaskGone, including the exit record on disk. Tasks
// run one after the other.
func BenchmarkStartToExit(b *testing.B) {
	r := newRig(b, room(b), nil)
	spec := &messages.JobSpec{Name: "bench", Image: "host", Command: []string{"/bin/true"}}
	var took []time.Duration
	rank := int32(0)
	for b.Loop() {
		r.tell(prepareOf(rank, spec))
		take[*messages.TaskPrepared](r, rank)
		begin := time.Now()
		r.tell(startOf(rank, spec))
		r.gone(rank)
		took = append(took, time.Since(begin))
		r.tell(&messages.ForgetTask{Id: id(rank)})
		rank++
	}
	report(b, took)
}

// BenchmarkStartToExit20 measures the same for twenty tasks at once, until the last one has ended.
func BenchmarkStartToExit20(b *testing.B) {
	r := newRig(b, room(b), nil)
	spec := &messages.JobSpec{Name: "bench", Image: "host", Command: []string{"/bin/true"}}
	var took []time.Duration
	first := int32(0)
	for b.Loop() {
		for rank := first; rank < first+20; rank++ {
			r.tell(prepareOf(rank, spec))
			take[*messages.TaskPrepared](r, rank)
		}
		begin := time.Now()
		for rank := first; rank < first+20; rank++ {
			r.tell(startOf(rank, spec))
		}
		for rank := first; rank < first+20; rank++ {
			r.gone(rank)
			r.tell(&messages.ForgetTask{Id: id(rank)})
		}
		took = append(took, time.Since(begin))
		first += 20
	}
	report(b, took)
}

// BenchmarkBesideKept measures the agent's cost of a task of `true` from StartTask until it is forgotten. The output of
// many other tasks is kept meanwhile.
func BenchmarkBesideKept(b *testing.B) {
	for _, n := range []int{0, 1_000, 10_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) { besideKept(b, n) })
	}
}

func besideKept(b *testing.B, n int) {
	dir := room(b)
	for i := range n {
		folder := filepath.Join(dir, "kept", id(int32(1_000_000+i)).Key().String())
		if err := os.MkdirAll(folder, 0o700); err != nil {
			b.Fatal(err)
		}
		for name, text := range map[string]string{"stdout.0.log": "done\n", "stderr.0.log": "", "owner.json": `{"owner":"ann"}`} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
				b.Fatal(err)
			}
		}
	}
	old := filepath.Join(dir, "kept", id(1_000_000-1).Key().String())
	past := time.Now().AddDate(0, -1, 0)
	if err := errors.Join(os.MkdirAll(old, 0o700), os.Chtimes(old, past, past)); err != nil {
		b.Fatal(err)
	}
	r := newRig(b, dir, func(o *launcher.Options) { o.KeepTasks = 1 << 20 })
	eventually(b, "what was kept for too long has not gone", func() bool { _, err := os.Stat(old); return err != nil })
	spec := &messages.JobSpec{Name: "bench", Image: "host", Command: []string{"/bin/true"}}
	run := func(rank int32) {
		r.tell(prepareOf(rank, spec))
		take[*messages.TaskPrepared](r, rank)
		r.tell(startOf(rank, spec))
		r.gone(rank)
		r.tell(&messages.ForgetTask{Id: id(rank)})
	}
	rank, began := int32(0), cpuTime(b)
	for b.Loop() {
		run(rank)
		rank++
	}
	b.ReportMetric(float64((cpuTime(b)-began).Microseconds())/1000/float64(b.N), "cpu-ms/op")
}

// cpuTime returns the CPU time of this process without its children.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

// BenchmarkSupervisorMemory measures the memory of one supervisor while its task runs.
func BenchmarkSupervisorMemory(b *testing.B) {
	r := newRig(b, room(b), nil)
	for b.Loop() {
		r.run(0, script("exec sleep 60"))
		take[*messages.TaskStarted](r, 0)
		for key := range r.keys() {
			state, err := supervisor.ReadState(r.dir + "/tasks/" + key.String())
			if err != nil {
				b.Fatal(err)
			}
			leader, _ := supervisor.ReadProcess(state.PID)
			status, _ := os.ReadFile("/proc/" + strconv.Itoa(leader.Parent) + "/status")
			for line := range strings.Lines(string(status)) {
				fields := strings.Fields(line)
				if len(fields) == 3 && (fields[0] == "VmRSS:" || fields[0] == "RssAnon:") {
					kb, _ := strconv.ParseFloat(fields[1], 64)
					b.ReportMetric(kb/1024, strings.TrimSuffix(fields[0], ":")+"-MiB")
				}
			}
		}
		r.tell(&messages.StopTask{Id: id(0)})
		r.gone(0)
		r.tell(&messages.ForgetTask{Id: id(0)})
		eventually(b, "it is not forgotten", func() bool {
			r.tell(&messages.ListTasks{})
			return len(take[*messages.TaskList](r, -1).Tasks) == 0
		})
	}
}
