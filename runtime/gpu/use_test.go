package gpu

import (
	"testing"
	"time"
)

// This file tests the activity of devices.

// TestUse checks which texts of a driver are an activity. Texts without a number are unknown, and never no activity.
func TestUse(t *testing.T) {
	for text, want := range map[string]int64{"0 %": 0, "97 %": 97, "100 %": 100} {
		got := (&reported{busy: text, used: "512 MiB"}).use()
		if got == nil || got.Percent != want || got.MemoryBytes != 512<<20 {
			t.Errorf("%q is %+v", text, got)
		}
	}
	for _, text := range []string{"", "N/A", "[N/A] %", "%", "0", "-1 %", "101 %", "the functionality is deprecated"} {
		if got := (&reported{busy: text, used: "1 MiB"}).use(); got != nil {
			t.Errorf("%q is %+v, want unknown", text, got)
		}
	}
}

// TestUses checks that the watch publishes the activity of each device that reports one, and that old readings are
// unknown.
func TestUses(t *testing.T) {
	r := newRig(t).says("query", "535.xml")
	f := r.finder()
	found, err := f.Find(t.Context())
	if err != nil || len(found.Devices) == 0 {
		t.Fatal(found, err)
	}
	w := newWatch(Watching{Finder: f, Devices: found.Devices, Uses: &Uses{}, Tell: func(string, string) {},
		Well: func(string) {}, Note: t.Logf})
	id := found.Devices[0].Gpu.Id
	if _, known := w.w.Uses.Of(id); known {
		t.Error("it is known before the first check")
	}
	w.look(t.Context())
	if use, known := w.w.Uses.Of(id); !known || use != *found.Devices[0].Use {
		t.Errorf("the activity is %+v, %v", use, known)
	}
	w.w.Uses.at = time.Now().Add(-usesFor)
	if _, known := w.w.Uses.Of(id); known {
		t.Error("an old reading is known")
	}
	w.w.Uses.note([]Device{{Gpu: found.Devices[0].Gpu}})
	if _, known := w.w.Uses.Of(id); known {
		t.Error("a device without a reading is known")
	}
}
