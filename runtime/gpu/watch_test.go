package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// watching is a machine under watch, and what was told at the last look.
type watching struct {
	*rig
	watch *Watch
	told  []string
	notes []string
}

// begin watches what the machine has now; each look is the test's to ask for.
func begin(t *testing.T, r *rig) *watching {
	t.Helper()
	finder := r.finder()
	found, err := finder.Find(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	w := &watching{rig: r}
	w.watch = &Watch{state: map[string]*watched{}, w: Watching{
		Finder: finder, Devices: found.Devices,
		Tell: func(id, why string) { w.told = append(w.told, id+": "+why) },
		Note: func(format string, arguments ...any) { w.notes = append(w.notes, fmt.Sprintf(format, arguments...)) },
	}}
	for _, d := range found.Devices {
		w.watch.state[d.Gpu.Id] = &watched{}
	}
	return w
}

// look looks once, and wants these devices told with these words, in their order.
func (w *watching) look(want ...string) {
	w.t.Helper()
	w.told = nil
	w.watch.look(context.Background())
	ok := len(w.told) == len(want)
	for i := range want {
		id, why, _ := strings.Cut(want[i], ": ")
		ok = ok && strings.HasPrefix(w.told[i], id) && strings.Contains(w.told[i], why)
	}
	if !ok {
		w.t.Errorf("told %q, want %q", w.told, want)
	}
}

const (
	h1 = "GPU-00000535-0001-4a00-8000-abcdef000001"
)

// TestWatchLost: what the driver itself calls lost is told at the first look, and stays so when it seems to be back.
func TestWatchLost(t *testing.T) {
	w := begin(t, newRig(t).says("query", "535.xml"))
	w.look()
	w.says("query", "535-lost.txt")
	w.look(h1 + ": Unknown Error")
	w.look(h1 + ": Unknown Error")
	w.says("query", "535.xml")
	w.look(h1 + ": Unknown Error")
	w.look(h1 + ": Unknown Error")
	tells(t, w.notes, h1+" looks well again; it stays withdrawn")
}

// TestWatchFault: a device that needs a reset is told at once; one that may be drained is not.
func TestWatchFault(t *testing.T) {
	r := newRig(t)
	w := begin(t, r.says("query", "550-reset.xml"))
	w.look("GPU-00000550-0000: requires a reset")
	tells(t, w.notes)
}

// TestWatchVanished: a device that is missing in one document is not given up for it; one that is missing twice is.
func TestWatchVanished(t *testing.T) {
	r := newRig(t).says("query", "535.xml")
	w := begin(t, r)
	text, err := os.ReadFile("testdata/535.xml")
	if err != nil {
		t.Fatal(err)
	}
	without := strings.Replace(string(text), h1, "[Unknown Error]", 1)
	for range 3 {
		w.says("query", without)
		w.look()
		w.says("query", string(text))
		w.look()
	}
	w.says("query", without)
	w.look()
	w.look(h1 + ": no longer there")
}

// TestWatchSilent: a driver that does not answer is in doubt, and that is said; its devices are given up when the kernel
// does not show them any more either. AMD's are not touched by that.
func TestWatchSilent(t *testing.T) {
	r := newRig(t).says("query", "418.xml").amdNode("1", 7, 128, 0x100)
	r.met("0000:15:00.0", "Tesla V100-SXM2-32GB", "GPU-00000418-0000-4a00-8000-abcdef000000", "1")
	r.met("0000:16:00.0", "Tesla V100-SXM2-32GB", "GPU-00000418-0001-4a00-8000-abcdef000001", "0")
	w := begin(t, r)
	hang := func(stuck bool) {
		w.watch.w.Finder.smi.stuck = nil
		if stuck {
			w.watch.w.Finder.smi.stuck = make(chan struct{})
		}
	}
	w.look()
	hang(true)
	w.look()
	hang(false)
	w.look()
	hang(true)
	for range 3 {
		w.look()
	}
	if err := os.RemoveAll(filepath.Join(w.root, "proc/driver/nvidia/gpus/0000:16:00.0")); err != nil {
		t.Fatal(err)
	}
	w.look()
	w.look("GPU-00000418-0001: no longer there")
	tells(t, w.notes, "cannot be looked at", "answers again", "cannot be looked at")
}

// TestWatchBroken: a driver whose program fails, as after an upgrade of its libraries, is not given up while the kernel
// still shows the devices; parts of a divided one count with the whole.
func TestWatchBroken(t *testing.T) {
	r := migRig(t)
	r.met("0000:07:00.0", "NVIDIA A100-SXM4-80GB", "GPU-00000470-0000-4a00-8000-abcdef000000", "2")
	r.met("0000:0f:00.0", "NVIDIA A100-SXM4-80GB", "GPU-00000470-0001-4a00-8000-abcdef000001", "3")
	w := begin(t, r)
	w.program(`echo "Failed to initialize NVML: Driver/library version mismatch"; exit 18`)
	for range 3 {
		w.look()
	}
	if err := os.RemoveAll(filepath.Join(w.root, "proc/driver/nvidia/gpus/0000:0f:00.0")); err != nil {
		t.Fatal(err)
	}
	w.look()
	w.look("GPU-00000470-0001: no longer there")
	if err := os.RemoveAll(filepath.Join(w.root, "proc")); err != nil {
		t.Fatal(err)
	}
	w.look("GPU-00000470-0001: no longer there")
	w.look("MIG-3a7f0001: version mismatch", "MIG-3a7f0002: version mismatch", "MIG-3a7f0003: version mismatch", "GPU-00000470-0001: no longer there")
}

// TestWatchAMD: a device whose node has gone is told.
func TestWatchAMD(t *testing.T) {
	r := newRig(t).says("query", "No devices were found").amdNode("1", 7, 128, 0x100).amdNode("2", 8, 129, 0x200)
	w := begin(t, r)
	w.look()
	if err := os.Remove(filepath.Join(w.root, "dev/dri/renderD129")); err != nil {
		t.Fatal(err)
	}
	w.look()
	w.look("GPU-0000000000000008: no longer there")
}

// TestWatchRuns: a watch looks by itself, ends when it is closed, and does not begin for declared devices.
func TestWatchRuns(t *testing.T) {
	r := newRig(t).says("query", "550-reset.xml")
	found := r.mustFind()
	var once sync.Once
	told := make(chan string, 1)
	watch := StartWatch(Watching{
		Finder: r.finder(), Devices: found.Devices, Every: time.Millisecond,
		Tell: func(id, _ string) { once.Do(func() { told <- id }) }, Note: t.Logf,
	})
	select {
	case id := <-told:
		if !strings.HasPrefix(id, "GPU-00000550-0000") {
			t.Error(id)
		}
	case <-time.After(time.Minute):
		t.Error("nothing was told")
	}
	watch.Close()
	declared, err := Declared(3, "gpu")
	if err := errors.Join(err); err != nil {
		t.Fatal(err)
	}
	StartWatch(Watching{Devices: declared.Devices, Every: time.Nanosecond}).Close() // without a finder it would panic
}
