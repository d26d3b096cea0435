package gpu

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// keeping returns a rig whose devices were kept by a first start.
func keeping(t *testing.T) (*rig, Record) {
	t.Helper()
	r := migRig(t)
	r.met("0000:07:00.0", "NVIDIA A100-SXM4-80GB", "GPU-00000470-0000-4a00-8000-abcdef000000", "2")
	r.amdNode("1", 7, 128, 0x100)
	record := Record{File: filepath.Join(t.TempDir(), "gpus"), BootID: "boot-1"}
	first, again, err := r.finder().FindAgain(context.Background(), record)
	if err != nil || again || len(first.Devices) < 4 {
		t.Fatalf("%+v, %v, %v", first, again, err)
	}
	return r, record
}

// TestKept checks that a second start in the same boot has the complete result of the first one without running a
// program.
func TestKept(t *testing.T) {
	r, record := keeping(t)
	want := r.mustFind()
	r.program("exec sleep 60")
	got, again, err := r.finder().FindAgain(context.Background(), record)
	if err != nil || !again {
		t.Fatalf("%v, %v", again, err)
	}
	expect(t, "devices", words(got.Devices), words(want.Devices))
	expect(t, "notes", got.Notes, want.Notes)
	for i, d := range got.Devices {
		if !reflect.DeepEqual(d.Gpu.String(), want.Devices[i].Gpu.String()) || d.NUMA != want.Devices[i].NUMA ||
			d.Fault != want.Devices[i].Fault {
			t.Errorf("%+v, want %+v", d, want.Devices[i])
		}
	}
}

// TestKeptNoMore checks that all sources are read after a reboot, for other devices, and for a torn or foreign record.
func TestKeptNoMore(t *testing.T) {
	write := func(change func([]byte) []byte) func(*rig, *Record) {
		return func(r *rig, record *Record) {
			data, err := os.ReadFile(record.File)
			if err == nil {
				err = os.WriteFile(record.File, change(data), 0o600)
			}
			if err != nil {
				r.t.Fatal(err)
			}
		}
	}
	for name, change := range map[string]func(*rig, *Record){
		"another boot":      func(_ *rig, record *Record) { record.BootID = "boot-2" },
		"one more GPU":      func(r *rig, _ *Record) { r.met("0000:99:00.0", "NVIDIA A100-SXM4-80GB", "GPU-9", "9") },
		"one GPU less":      func(r *rig, _ *Record) { _ = os.RemoveAll(filepath.Join(r.root, driverDir)) },
		"one more part":     func(r *rig, _ *Record) { r.has("proc/driver/nvidia/capabilities/gpu2/mig/gi9/ci0/access", "") },
		"another driver":    func(r *rig, _ *Record) { r.has("sys/module/nvidia/version", "999.1") },
		"one more AMD node": func(r *rig, _ *Record) { r.has(topologyDir+"/9/properties", "") },
		"no record":         func(_ *rig, record *Record) { _ = record.Forget() },
		"a folder": func(_ *rig, record *Record) {
			_ = record.Forget()
			_ = os.Mkdir(record.File, 0o700)
		},
		"empty":   write(func([]byte) []byte { return nil }),
		"torn":    write(func(data []byte) []byte { return data[:len(data)/2] }),
		"flipped": write(func(data []byte) []byte { return []byte(strings.Replace(string(data), "nvidia", "nvidio", 1)) }),
		"foreign": write(func([]byte) []byte { return []byte(`{"sum":0,"kept":null}`) }),
		"older": write(func(data []byte) []byte {
			return []byte(strings.Replace(string(data), `"version":1`, `"version":0`, 1))
		}),
	} {
		t.Run(name, func(t *testing.T) {
			r, record := keeping(t)
			change(r, &record)
			if found, again, err := r.finder().FindAgain(context.Background(), record); again || err != nil ||
				len(found.Devices) == 0 {
				t.Errorf("%+v, %v, %v", found, again, err)
			}
		})
	}
}

// TestKeptNot checks that a result without the driver is not kept, and neither is an empty result.
func TestKeptNot(t *testing.T) {
	for name, r := range map[string]*rig{
		"nothing": newRig(t).says("query", "No devices were found"),
		"by /proc": func() *rig {
			r := newRig(t).met("0000:07:00.0", "NVIDIA A100-SXM4-80GB", "GPU-00000470-0000-4a00-8000-abcdef000000", "2")
			r.program("exit 9")
			return r
		}(),
	} {
		record := Record{File: filepath.Join(t.TempDir(), "gpus"), BootID: "boot-1"}
		if _, again, err := r.finder().FindAgain(context.Background(), record); err != nil || again {
			t.Errorf("%s: %v, %v", name, again, err)
		}
		if _, err := os.Stat(record.File); err == nil {
			t.Errorf("%s: was kept", name)
		}
	}
}

// TestWatchDiffers checks that the watch reports once that a start would find other devices, and not if it could not
// look.
func TestWatchDiffers(t *testing.T) {
	w := begin(t, newRig(t).says("query", "535.xml"))
	differ := 0
	w.watch.w.Differ = func() { differ++ }
	w.look()
	w.program("exit 9")
	w.look()
	if differ > 0 {
		t.Error("reported before any change")
	}
	w = begin(t, newRig(t).says("query", "535.xml"))
	w.watch.w.Differ = func() { differ++ }
	w.watch.w.Devices = w.watch.w.Devices[1:] // as if the first device had appeared later
	delete(w.watch.state, "GPU-00000535-0000-4a00-8000-abcdef000000")
	w.look()
	w.look()
	if differ != 1 {
		t.Errorf("reported %d times", differ)
	}
}
