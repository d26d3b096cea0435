package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able/pace"
)

// watching holds a rig under watch, and the reports of the last check.
type watching struct {
	*rig
	watch *Watch
	told  []string
	well  []string
	notes []string
}

// begin starts a watch of the rig's current devices. The test triggers each check.
func begin(t *testing.T, r *rig) *watching {
	t.Helper()
	finder := r.finder()
	found, err := finder.Find(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	w := &watching{rig: r}
	w.watch = newWatch(Watching{
		Finder: finder, Devices: found.Devices,
		Tell: func(id, why string) { w.told = append(w.told, id+": "+why) },
		Well: func(id string) { w.well = append(w.well, id) },
		Note: func(format string, arguments ...any) { w.notes = append(w.notes, fmt.Sprintf(format, arguments...)) },
	})
	return w
}

// look runs one check, and expects reports about these devices with these words, in order.
func (w *watching) look(want ...string) {
	w.t.Helper()
	w.told, w.well = nil, nil
	w.watch.look(context.Background())
	ok := len(w.told) == len(want)
	for i := range want {
		id, why, _ := strings.Cut(want[i], ": ")
		ok = ok && strings.HasPrefix(w.told[i], id) && strings.Contains(w.told[i], why)
	}
	if !ok {
		w.t.Errorf("reported %q, want %q", w.told, want)
	}
}

const (
	h1 = "GPU-00000535-0001-4a00-8000-abcdef000001"
)

// looks runs n checks, and expects the same reports each time.
func (w *watching) looks(n int, want ...string) {
	w.t.Helper()
	for range n {
		w.look(want...)
	}
}

// isWell checks whether the last check reported a device as healthy.
func (w *watching) isWell(id string, want bool) {
	w.t.Helper()
	if slices.Contains(w.well, id) != want {
		w.t.Errorf("%s is reported as healthy: %v", id, !want)
	}
}

// TestWatchLost checks that a device that the driver calls lost is reported at the first check, and stays withdrawn
// while it only seems to be back.
func TestWatchLost(t *testing.T) {
	w := begin(t, newRig(t).says("query", "535.xml"))
	w.look()
	w.says("query", "535-lost.txt")
	w.look(h1 + ": Unknown Error")
	w.look(h1 + ": Unknown Error")
	w.says("query", "535.xml")
	w.look(h1 + ": Unknown Error")
	w.look(h1 + ": Unknown Error")
	tells(t, w.notes, h1+" looks healthy again; it returns to service after 10 healthy checks")
}

// TestWatchWell checks that a device returns to service after several consecutive healthy checks, and is reported as
// healthy from then on. An unhealthy or unknown check restarts the count.
func TestWatchWell(t *testing.T) {
	r := newRig(t).says("query", "535.xml")
	r.met("0000:43:00.0", "NVIDIA H100 80GB HBM3", h1, "1")
	w := begin(t, r)
	lost := h1 + ": Unknown Error"
	w.looks(wellAtFirst)
	w.isWell(h1, true) // it was never withdrawn here, but an earlier agent may have withdrawn it
	for _, not := range []func(){
		func() { w.says("query", "535-lost.txt") },
		func() { w.program("echo Failed to initialize NVML; exit 18") },
		func() { w.watch.w.Finder.smi.stuck = make(chan struct{}) },
	} {
		w.says("query", "535-lost.txt")
		w.look(lost)
		w.says("query", "535.xml")
		w.watch.state[h1].faults = 1
		w.looks(wellAtFirst-1, lost)
		answering, err := os.ReadFile(w.smi())
		if err != nil {
			t.Fatal(err)
		}
		not()
		w.look(lost)
		w.watch.w.Finder.smi.stuck = nil
		if err := os.WriteFile(w.smi(), answering, 0o755); err != nil {
			t.Fatal(err)
		}
		w.says("query", "535.xml")
		w.looks(wellAtFirst-1, lost)
		w.isWell(h1, false)
		w.look()
		w.isWell(h1, true)
		w.look()
		w.isWell(h1, true)
	}
	if last := w.notes[len(w.notes)-1]; !strings.Contains(last,
		h1+" was healthy in 10 checks and returns to service; it was withdrawn because") {
		t.Error(last)
	}
}

// TestWatchFlaps checks that each further fault doubles the wait, up to a day, and that a healthy day resets it.
func TestWatchFlaps(t *testing.T) {
	w := begin(t, newRig(t).says("query", "550-reset.xml"))
	bad := "GPU-00000550-0000-4a00-8000-abcdef000000"
	if w.watch.state[bad] == nil {
		t.Fatalf("the rig has no %s", bad)
	}
	d := Device{Gpu: &messages.Gpu{Id: bad}}
	for _, want := range []int{10, 20, 40, 80, 160, 320, 640, 1280, 2560, 2880, 2880} {
		w.watch.state[bad].told = "" // as if it had just returned to service
		w.watch.giveUp(d, "it is bad")
		w.told, w.well = nil, nil
		for range want - 1 {
			w.watch.isWell(d)
		}
		w.isWell(bad, false)
		if len(w.told) != want-1 {
			t.Errorf("reported %d times while it was withdrawn, want %d", len(w.told), want-1)
		}
		if want < maxWell {
			w.watch.isWell(d)
			w.isWell(bad, true)
		}
	}
	for range maxWell {
		w.watch.isWell(d)
	}
	w.watch.giveUp(d, "it is bad")
	if wait := w.watch.state[bad].wait(); wait != wellAtFirst {
		t.Errorf("after a day of health the wait is %d looks", wait)
	}
}

// TestWatchFault checks that a device that needs a reset is reported at once, and one that may be drained is not.
func TestWatchFault(t *testing.T) {
	r := newRig(t)
	w := begin(t, r.says("query", "550-reset.xml"))
	w.look("GPU-00000550-0000: requires a reset")
	tells(t, w.notes)
}

// TestWatchVanished checks that a device is withdrawn if two documents in a row omit it, and not after one.
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
	w.look(h1 + ": has disappeared")
}

// TestWatchSilent checks a driver that does not answer. The doubt is reported. Devices are withdrawn only if the kernel
// no longer shows them either. AMD's devices are not affected.
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
	w.look("GPU-00000418-0001: has disappeared")
	tells(t, w.notes, "cannot be checked", "answers again", "cannot be checked")
}

// TestWatchBroken checks a driver whose program fails, as after an upgrade of its libraries. Devices are not withdrawn
// while the kernel shows them. Parts count with their GPU.
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
	w.look("GPU-00000470-0001: has disappeared")
	if err := os.RemoveAll(filepath.Join(w.root, "proc")); err != nil {
		t.Fatal(err)
	}
	w.look("GPU-00000470-0001: has disappeared")
	w.look("MIG-3a7f0001: version mismatch", "MIG-3a7f0002: version mismatch", "MIG-3a7f0003: version mismatch",
		"GPU-00000470-0001: has disappeared")
}

// TestWatchAMD checks that a device whose node has vanished is reported.
func TestWatchAMD(t *testing.T) {
	r := newRig(t).says("query", "No devices were found").amdNode("1", 7, 128, 0x100).amdNode("2", 8, 129, 0x200)
	w := begin(t, r)
	w.look()
	if err := os.Remove(filepath.Join(w.root, "dev/dri/renderD129")); err != nil {
		t.Fatal(err)
	}
	w.look()
	w.look("GPU-0000000000000008: has disappeared")
}

// TestWatchRuns checks that a watch runs checks by itself, ends when closed, and does not start for declared devices.
func TestWatchRuns(t *testing.T) {
	r := newRig(t).says("query", "550-reset.xml")
	found := r.mustFind()
	var once sync.Once
	told := make(chan string, 1)
	watch := StartWatch(Watching{
		Finder: r.finder(), Devices: found.Devices, Every: time.Millisecond, Well: func(string) {},
		Tell: func(id, _ string) { once.Do(func() { told <- id }) }, Note: t.Logf,
	})
	select {
	case id := <-told:
		if !strings.HasPrefix(id, "GPU-00000550-0000") {
			t.Error(id)
		}
	case <-time.After(pace.Of(time.Minute)):
		t.Error("nothing was reported")
	}
	watch.Close()
	declared, err := Declared(3, "gpu")
	if err := errors.Join(err); err != nil {
		t.Fatal(err)
	}
	StartWatch(Watching{Devices: declared.Devices, Every: time.Nanosecond}).Close() // a watch without a finder would panic
}
