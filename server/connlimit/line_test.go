package connlimit

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// This file tests the order of waiting connections. Time is virtual.

// inLine runs a test with a desk whose sources may fail two handshakes at once, and four per second.
func inLine(t *testing.T, limits Limits, test func(*desk)) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, limits)
		d.o.Vain, d.o.Now = Rate{PerSecond: 4, Burst: 2}, time.Now
		test(d)
		d.Close()
		time.Sleep(time.Minute) // stops its timers
	})
}

// closable is a listener that can only be closed.
type closable struct{ netListener }

func (closable) Close() error { return nil }

// begin adds this many connections that send data, and runs for a while. It returns the start times of the
// handshakes, and calls then for each.
func (d *desk) begin(from string, many int, lasting time.Duration, then func(*Conn)) (began []time.Duration) {
	start := time.Now()
	var all []*Conn
	for range many {
		all = append(all, d.speaks(from))
	}
	for end := start.Add(lasting); ; time.Sleep(10 * time.Millisecond) {
		synctest.Wait()
		for _, c := range all {
			if d.isBegun(c) {
				began = append(began, time.Since(start).Round(10*time.Millisecond))
				then(c)
			}
		}
		if !time.Now().Before(end) {
			return began
		}
	}
}

func (d *desk) isBegun(c *Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return c.state == begun
}

func closes(c *Conn) { c.Close() }

const quarter = time.Second / 4

// TestVainOnesStandInLine checks that failed handshakes are limited per source, and do not delay other sources.
func TestVainOnesStandInLine(t *testing.T) {
	inLine(t, roomy(), func(d *desk) {
		vain := d.begin("10.0.0.1", 5, time.Second, closes)
		if want := []time.Duration{0, 0, quarter, 2 * quarter, 3 * quarter}; !slices.Equal(vain, want) {
			t.Errorf("they began after %v, want %v", vain, want)
		}
		if other := d.begin("10.0.0.2", 2, 0, closes); !slices.Equal(other, []time.Duration{0, 0}) {
			t.Errorf("another source's began after %v", other)
		}
		time.Sleep(time.Minute)
		if vain := d.begin("10.0.0.1", 2, 0, closes); !slices.Equal(vain, []time.Duration{0, 0}) {
			t.Errorf("a minute later they began after %v", vain)
		}
	})
}

// TestProvedOnesWaitForNobody checks that authenticated connections are not limited, even from an address with
// failed handshakes.
func TestProvedOnesWaitForNobody(t *testing.T) {
	inLine(t, roomy(), func(d *desk) {
		began := d.begin("10.0.0.1", 20, 0, func(c *Conn) { c.Entered(); c.Close() })
		if len(began) != 20 || began[19] != 0 {
			t.Errorf("they began after %v", began)
		}
		vain := d.begin("10.0.0.1", 4, time.Second, closes)
		if want := []time.Duration{0, 0, quarter, 2 * quarter}; !slices.Equal(vain, want) {
			t.Errorf("those for nothing behind them began after %v, want %v", vain, want)
		}
	})
}

// TestHandshakesHaveBounds checks that a connection beyond the limit waits until an earlier one is authenticated,
// closed or timed out. Other sources do not wait.
func TestHandshakesHaveBounds(t *testing.T) {
	limits := roomy()
	limits.Begun, limits.BegunOfSource = 3, 2
	inLine(t, limits, func(d *desk) {
		d.o.Vain = Rate{}
		a, b, c := d.speaks("10.0.0.1"), d.speaks("10.0.0.1"), d.speaks("10.0.0.1")
		other := d.speaks("10.0.0.2")
		third := d.speaks("10.0.0.3")
		d.shows("bbwbw", a, b, c, other, third)
		b.Entered()
		d.shows("bebbw", a, b, c, other, third) // one more of this source starts, so all three places are used
		other.Entered()
		d.shows("bebeb", a, b, c, other, third)
		e, f := d.speaks("10.0.0.1"), d.speaks("10.0.0.3")
		d.shows("ww", e, f)
		time.Sleep(begunFor - time.Millisecond)
		d.shows("bww", a, e, f)
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		d.shows("cecec", a, b, c, other, third)
		if !d.isBegun(e) || !d.isBegun(f) {
			t.Error("they wait for those that took too long")
		}
		time.Sleep(2 * begunFor)
		d.shows("e", b) // an authenticated connection has no deadline
		// Several connections time out at the same moment, in any order.
		if !slices.ContainsFunc(d.lines, func(line string) bool {
			return strings.HasPrefix(line, "Closed a connection from 10.0.0.1: its handshake took")
		}) {
			t.Errorf("it logged %q", d.lines)
		}
	})
}

// TestSourcesTakeTurns checks that a single connection from one address is not delayed by many from another.
func TestSourcesTakeTurns(t *testing.T) {
	limits := roomy()
	limits.Begun, limits.BegunOfSource = 1, 1
	inLine(t, limits, func(d *desk) {
		d.o.Vain = Rate{}
		first := d.speaks("10.0.0.1")
		for range 100 {
			d.speaks("10.0.0.1")
		}
		alone := d.speaks("10.0.0.2")
		for turns := 0; !d.isBegun(alone); turns++ {
			if turns > 2 {
				t.Fatal("it waits behind the crowd of another source")
			}
			first = d.nextOf(first)
		}
	})
}

// nextOf lets a connection enter, and returns the next one whose handshake starts.
func (d *desk) nextOf(c *Conn) *Conn {
	d.mu.Lock()
	d.Listener.next = nil
	d.mu.Unlock()
	c.Entered()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.Listener.next) == 0 {
		return nil
	}
	return d.Listener.next[0]
}

// TestGoneArePassedOver checks that no handshake starts for a client that has disconnected.
func TestGoneArePassedOver(t *testing.T) {
	limits := roomy()
	limits.Begun, limits.BegunOfSource = 1, 1
	inLine(t, limits, func(d *desk) {
		d.o.Vain = Rate{}
		first, gone, stays := d.speaks("10.0.0.1"), d.speaks("10.0.0.1"), d.speaks("10.0.0.1")
		gone.Conn.(*plug).gone = true
		first.Entered()
		d.shows("ecb", first, gone, stays)
	})
}

// TestLongLines checks that a short list is served in order. After a long wait the newest connection is served
// first, because the oldest clients are about to give up.
func TestLongLines(t *testing.T) {
	limits := roomy()
	limits.Begun, limits.BegunOfSource = 1, 1
	inLine(t, limits, func(d *desk) {
		d.o.Vain = Rate{}
		now := d.speaks("10.0.0.1")
		var line []*Conn
		for range 100 {
			line = append(line, d.speaks("10.0.0.1"))
		}
		for i := range 10 {
			if now = d.nextOf(now); now != line[i] {
				t.Fatalf("turn %d is not the one's who came next", i)
			}
		}
		time.Sleep(longWait)
		last := d.speaks("10.0.0.1")
		if now = d.nextOf(now); now != last {
			t.Error("the last to come waits behind those who are about to give up")
		}
		for i := len(line) - 1; i >= 10; i-- { // all are served eventually
			if now = d.nextOf(now); now != line[i] {
				t.Fatalf("one of the last is not the %dth", i)
			}
		}
		if now = d.nextOf(now); now != nil {
			t.Error("somebody still waits")
		}
	})
}
