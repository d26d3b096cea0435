package launcher_test

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// BenchmarkStartToExit is StartTask of `true` to its TaskGone, the exit record on
// disk included, one task after the other.
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

// BenchmarkStartToExit20 is the same with twenty at once: the time until the last.
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

func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

// BenchmarkSupervisorMemory is what one supervisor holds while its task runs.
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
