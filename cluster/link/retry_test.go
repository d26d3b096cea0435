package link

import (
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/yi-json/synapse/clock"
)

// TestBusySchedulerIsTriedLessOften checks the pauses of a node whose connections are accepted and not answered. They
// grow up to a limit. When nobody accepts the connections, the node retries as often as before.
func TestBusySchedulerIsTriedLessOften(t *testing.T) {
	half := func() float64 { return 0.5 }
	r := newRetry()
	var pauses []time.Duration
	for range 9 {
		pauses = append(pauses, r.failed(true, 0, half))
	}
	if !slices.IsSorted(pauses) || pauses[0] != 75*time.Millisecond || pauses[8] != maxBusyRetry*3/4 {
		t.Errorf("it pauses for %v", pauses)
	}
	r.failed(false, 0, half)
	if pause := r.failed(false, 0, half); pause > maxRetry {
		t.Errorf("nobody accepts the connection, and the pause is %v", pause)
	}
}

// TestHintIsHonoured checks that a node retries at a random time within a scheduler's hint. A hint never shortens a
// pause, and it has a limit.
func TestHintIsHonoured(t *testing.T) {
	for _, c := range []struct {
		hint  time.Duration
		drawn float64
		want  time.Duration
	}{
		{0, 0.5, 75 * time.Millisecond},
		{10 * time.Second, 0.5, 5 * time.Second},
		{10 * time.Second, 0, 50 * time.Millisecond},
		{time.Hour, 0.5, maxHint / 2},
	} {
		r := newRetry()
		if got := r.failed(true, c.hint, func() float64 { return c.drawn }); got != c.want {
			t.Errorf("a hint of %v, drawn %v: it waits %v, want %v", c.hint, c.drawn, got, c.want)
		}
	}
	for text, want := range map[string]time.Duration{"": 0, "x": 0, "-5": 0, "0": 0, "1500": 1500 * time.Millisecond} {
		md := metadata.MD{}
		if text != "" {
			md = metadata.Pairs(keyPushback, text)
		}
		if got := hintOf(hinted(errors.New("refused"), md)); got != want {
			t.Errorf("%q is a hint of %v, want %v", text, got, want)
		}
	}
}

// TestClosingSchedulerSpreadsItsMachines checks that a scheduler which shuts down tells its nodes in which time to
// return. The time grows with their number.
func TestClosingSchedulerSpreadsItsMachines(t *testing.T) {
	h, waits := newHall(t, Options{}), make(chan time.Duration, 100)
	o := machineOptions("n1", "m1", h.address)
	o.Rand, o.Clock = func() float64 { return 1 }, hearing{clock.Real{}, waits}
	newCabin(t, o).linked(h)
	h.server.mu.Lock()
	for range 5000 { // as in a large cluster
		m := &machine{}
		m.line = newLine(h.server.o, h.system, nil, h.server.o.Address, "node-x", towardScheduler)
		h.server.streams[m] = struct{}{}
	}
	h.server.mu.Unlock()
	h.server.Close()
	want := comeBackWithin(5001)
	for limit := time.After(patience); ; {
		select {
		case got := <-waits:
			if got == want {
				return
			}
		case <-limit:
			t.Fatalf("the machine never waits for %v", want)
		}
	}
}

// hearing reports each wait.
type hearing struct {
	clock.Clock
	waits chan time.Duration
}

func (h hearing) After(d time.Duration) <-chan time.Time {
	select {
	case h.waits <- d:
	default:
	}
	return h.Clock.After(d)
}
