package gpu

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file owns the activity of devices. The checks of the watch read it with everything else, so it costs no call of
// its own. The driver reports the share of its last second in which a kernel ran. Parts of a divided GPU have no such
// number, and their activity is unknown.

// Use is the activity of one device.
type Use struct {
	Percent     int64 // share of time in which the device was busy
	MemoryBytes int64 // in use
}

// usesFor is the age from which a reading is no longer known. It is longer than two checks of the watch.
const usesFor = 75 * time.Second

// Uses holds the last readings of a node's devices. The zero Uses is empty, and nil is always empty.
type Uses struct {
	mu  sync.Mutex
	all map[string]Use
	at  time.Time
}

// note replaces the readings. A device without a reading is unknown.
func (u *Uses) note(devices []Device) {
	if u == nil {
		return
	}
	all := map[string]Use{}
	for _, d := range devices {
		if d.Use != nil {
			all[d.Gpu.GetId()] = *d.Use
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all, u.at = all, time.Now()
}

// Of returns the last reading of a device; false: it is unknown.
func (u *Uses) Of(id string) (Use, bool) {
	if u == nil {
		return Use{}, false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	use, known := u.all[id]
	return use, known && time.Since(u.at) < usesFor
}

// use returns the activity that a document reports. A divided GPU reports none.
func (g *reported) use() *Use {
	percent, unit := strings.CutSuffix(g.busy, "%")
	if !unit {
		return nil
	}
	return useOf(percent, strconv.FormatInt(mebibytes(g.used), 10))
}

// useOf returns the activity for a text with a percentage, and one with bytes; nil: the percentage is unknown.
func useOf(percent, bytes string) *Use {
	n, err := strconv.ParseInt(strings.TrimSpace(percent), 10, 64)
	if err != nil || n < 0 || n > 100 {
		return nil
	}
	memory, err := strconv.ParseInt(strings.TrimSpace(bytes), 10, 64)
	if err != nil {
		memory = 0
	}
	return &Use{Percent: n, MemoryBytes: min(max(memory, 0), messages.MaxMemoryBytes)}
}
