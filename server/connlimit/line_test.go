package connlimit

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// This file owns the tests of whose turn is next. Time is virtual.

// inLine runs a test at a desk whose sources may make two handshakes for nothing at once, and four a second.
func inLine(t *testing.T, limits Limits, test func(*desk)) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, limits)
		d.o.Vain, d.o.Now = Rate{PerSecond: 4, AtOnce: 2}, time.Now
		test(d)
		d.Listener.Listener = closable{}
		d.Close()
		time.Sleep(time.Minute) // its timers end
	})
}

// closable is a listener that is only closed.
type closable struct{ netListener }

func (closable) Close() error { return nil }

// begin has so many connections speak, and runs for a while. It answers how long after the beginning each handshake
// began. Then is called for each that does.
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

// TestVainOnesStandInLine: a source whose handshakes come to nothing has some at once and then so many a second, and no
// other source waits with it.
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

// TestGoodOnesWaitForNobody: a connection of which something came gives its place in line to the next, so that any
// number of such come at once; twice gives one place. To be proved gives none.
func TestGoodOnesWaitForNobody(t *testing.T) {
	inLine(t, roomy(), func(d *desk) {
		began := d.begin("10.0.0.1", 20, 0, func(c *Conn) { c.Entered(); c.Served(); c.Served() })
		if len(began) != 20 || began[19] != 0 {
			t.Errorf("they began after %v", began)
		}
		vain := d.begin("10.0.0.1", 4, time.Second, func(c *Conn) { c.Entered(); c.Close() })
		if want := []time.Duration{0, 0, quarter, 2 * quarter}; !slices.Equal(vain, want) {
			t.Errorf("those for nothing behind them began after %v, want %v", vain, want)
		}
	})
}

// TestHandshakesHaveARate: a burst as of a whole cluster that comes back, and then so many a second. The others wait;
// nobody is refused.
func TestHandshakesHaveARate(t *testing.T) {
	inLine(t, roomy(), func(d *desk) {
		d.o.Vain, d.all = Free(), Rate{PerSecond: 500, AtOnce: 4096}
		at := map[time.Duration]int{}
		for _, after := range d.begin("10.0.0.1", 5000, 999*time.Millisecond, closes) {
			if after > 0 {
				after = time.Second
			}
			at[after]++
		}
		if at[0] != 4096 || at[time.Second] < 490 || at[time.Second] > 510 {
			t.Errorf("%d begin at once, and %d within a second, want 4096 and 500", at[0], at[time.Second])
		}
		if len(d.lines) != 0 {
			t.Errorf("it logged %q", d.lines)
		}
	})
}

// TestHandshakesHaveBounds: a connection that finds no room waits, until one before it is proved, leaves, or has taken
// too long. Another source does not wait with it.
func TestHandshakesHaveBounds(t *testing.T) {
	limits := roomy()
	limits.Begun, limits.BegunOfSource = 3, 2
	inLine(t, limits, func(d *desk) {
		d.o.Vain = Free()
		a, b, c := d.speaks("10.0.0.1"), d.speaks("10.0.0.1"), d.speaks("10.0.0.1")
		other := d.speaks("10.0.0.2")
		third := d.speaks("10.0.0.3")
		d.shows("bbwbw", a, b, c, other, third)
		b.Entered()
		d.shows("bewbb", a, b, c, other, third) // of one source the second may not begin while all three are taken
		other.Entered()
		d.shows("bebeb", a, b, c, other, third)
		e, f := d.speaks("10.0.0.1"), d.speaks("10.0.0.3")
		d.shows("ww", e, f)
		time.Sleep(stalledAfter + time.Millisecond)
		synctest.Wait()
		d.shows("ce", a, b)
		if !d.isBegun(e) && !d.isBegun(f) {
			t.Error("they wait for one that has stalled")
		}
		time.Sleep(stalledAfter)
		d.shows("e", b) // a proved one loses nothing to those who come
		if want := "Closed a connection from 10.0.0.1: its handshake took"; len(d.lines) == 0 ||
			!strings.HasPrefix(d.lines[0], want) {
			t.Errorf("it logged %q", d.lines)
		}
	})
}

// TestSourcesTakeTurns: one that waits alone at its address is not behind a crowd at another one.
func TestSourcesTakeTurns(t *testing.T) {
	limits := roomy()
	limits.Begun, limits.BegunOfSource = 1, 1
	inLine(t, limits, func(d *desk) {
		d.o.Vain = Free()
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

// nextOf lets the connection that has begun enter, and answers the one that begins then.
func (d *desk) nextOf(c *Conn) *Conn {
	c.Entered()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.begun.Len() == 0 {
		return nil
	}
	return d.begun.Front().Value.(*Conn)
}

// TestKnownSourcesHaveMostTurns: beside strangers from many addresses, the nodes that were here before have three turns
// of four, and the strangers have the fourth.
func TestKnownSourcesHaveMostTurns(t *testing.T) {
	limits := roomy()
	limits.Begun, limits.BegunOfSource = 1, 1
	inLine(t, limits, func(d *desk) {
		d.o.Vain = Free()
		for i := range 50 { // something came of their connections
			c := d.speaks(fmt.Sprintf("10.1.0.%d", i))
			c.Entered()
			c.Served()
			c.Close()
		}
		now := d.speaks("10.9.9.9")
		for i := range 100 {
			d.speaks(fmt.Sprintf("10.2.0.%d", i))
		}
		for i := range 100 {
			d.speaks(fmt.Sprintf("10.1.0.%d", i))
		}
		for i := range 50 { // the store has them; they wait in line by now
			d.Know(netip.AddrFrom4([4]byte{10, 1, 0, byte(50 + i)}))
		}
		from := map[string]int{}
		for range 120 {
			now = d.nextOf(now)
			from[now.from.String()[:4]]++
		}
		if from["10.1"] != 90 || from["10.2"] != 30 {
			t.Errorf("of 120 turns the known had %d and the strangers %d", from["10.1"], from["10.2"])
		}
		time.Sleep(knownFor)
		for now = d.nextOf(now); now != nil; {
			now = d.nextOf(now)
		}
		if s := d.source(sourceOf(d.comes("10.1.0.1").Conn)); s.class(time.Now()) != strange {
			t.Error("a source is known for ever")
		}
	})
}

// TestGoneArePassedOver: no handshake is begun for a client that has hung up while it waited.
func TestGoneArePassedOver(t *testing.T) {
	limits := roomy()
	limits.Begun, limits.BegunOfSource = 1, 1
	inLine(t, limits, func(d *desk) {
		d.o.Vain = Free()
		first, gone, stays := d.speaks("10.0.0.1"), d.speaks("10.0.0.1"), d.speaks("10.0.0.1")
		gone.Conn.(*plug).gone = true
		first.Entered()
		d.shows("ecb", first, gone, stays)
	})
}

// TestLongLinesAreDrawn: a short line is served in order. If the first has waited for long, clients give up soon, and
// it is any one's turn: to take the oldest each time would be to take who is about to go.
func TestLongLinesAreDrawn(t *testing.T) {
	limits := roomy()
	limits.Begun, limits.BegunOfSource = 1, 1
	inLine(t, limits, func(d *desk) {
		d.o.Vain = Free()
		now := d.speaks("10.0.0.1")
		var line []*Conn
		for range 1000 {
			line = append(line, d.speaks("10.0.0.1"))
		}
		for i := range 10 {
			if now = d.nextOf(now); now != line[i] {
				t.Fatalf("turn %d is not the one's who came next", i)
			}
		}
		time.Sleep(longWait)
		later := 0
		for range 100 {
			now = d.nextOf(now)
			if slices.Index(line, now) > 500 {
				later++
			}
		}
		if later < 20 || later > 80 {
			t.Errorf("of 100 turns in a long line %d were of its later half", later)
		}
		for now != nil { // and everybody has a turn
			now = d.nextOf(now)
		}
		if d.waiting != 0 {
			t.Errorf("%d still wait", d.waiting)
		}
	})
}

// TestFullLineLosesItsOldest: beyond its bound a line loses the connection that has waited for longest, of the source
// with most of them.
func TestFullLineLosesItsOldest(t *testing.T) {
	limits := roomy()
	limits.Begun, limits.BegunOfSource, limits.Waiting, limits.WaitingOfSource = 1, 1, 4, 3
	inLine(t, limits, func(d *desk) {
		d.o.Vain = Free()
		d.speaks("10.0.0.9")
		a, b, c, e := d.speaks("10.0.0.1"), d.speaks("10.0.0.1"), d.speaks("10.0.0.1"), d.speaks("10.0.0.1")
		d.shows("cwww", a, b, c, e)
		other, third := d.speaks("10.0.0.2"), d.speaks("10.0.0.3")
		d.shows("cwwww", b, c, e, other, third)
	})
}
