package launcher_test

import (
	"sync/atomic"
	"testing"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/gpu"
	"github.com/yi-json/synapse/runtime/launcher"
)

// TestUse checks that the actor of a task learns what the task uses: a busy task its CPU time and the activity of its
// own GPU, and a sleeping task on a part of a GPU none. The exit has the CPU time of all processes.
func TestUse(t *testing.T) {
	var asked atomic.Int32
	r := newRig(t, room(t), func(o *launcher.Options) {
		o.Gpus = []*messages.Gpu{{Id: "gpu-0", BusId: "00000000:17:00.0", Declared: true}}
		o.GpuUse = func(id string) (gpu.Use, bool) {
			asked.Add(1)
			return gpu.Use{Percent: 73, MemoryBytes: 5 << 20}, id == "gpu-0"
		}
	})
	run := func(rank int32, lines string, share *messages.GpuShare) {
		prepare := prepareOf(rank, script(lines))
		prepare.Grant.Gpus = []*messages.GpuShare{share}
		r.tell(prepare)
		take[*messages.TaskPrepared](r, rank)
		start := startOf(rank, prepare.Spec)
		start.Grant = prepare.Grant
		r.tell(start)
	}
	run(0, `( while [ ! -e go ]; do :; done )`, &messages.GpuShare{GpuId: "gpu-0", Milli: 1000})
	run(1, `sleep 600`, &messages.GpuShare{GpuId: "gpu-0", Milli: 500})
	busy := usedBy(r, 0, func(u *messages.Use) bool { return u.CpuMs > 200 })
	if busy.Processes < 1 || busy.Gpus != 1 || busy.GpuPercent != 73 || busy.GpuMemoryBytes != 5<<20 || busy.IdleMs != 0 {
		t.Errorf("the busy task uses %v", busy)
	}
	calm := usedBy(r, 1, func(u *messages.Use) bool { return u.Tasks == 1 })
	if u := calm; u.Gpus != 0 || u.CpuMs > 200 || u.IdleMs != 0 {
		t.Errorf("the sleeping task uses %v", u)
	}
	if asked.Load() == 0 {
		t.Error("no GPU was asked for")
	}
	letGo(t, r.dir, 0)
	if exit := r.gone(0); exit.CpuMs < busy.CpuMs || exit.Code != 0 {
		t.Errorf("it used %d ms before its end, and its exit is %v", busy.CpuMs, exit)
	}
	r.tell(&messages.StopTask{Id: id(1)})
	r.gone(1)
}

// usedBy waits until a task uses as much as that.
func usedBy(r *rig, rank int32, enough func(*messages.Use) bool) *messages.Use {
	r.t.Helper()
	return toldBy(r, rank, func(m *messages.TaskProgress) bool { return m.Use != nil && enough(m.Use) }).Use
}
