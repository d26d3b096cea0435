package entrance

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"
)

// plug is a connection of which the other end says whatever is read.
type plug struct {
	net.Conn
	from   net.Addr
	closed bool
}

func (p *plug) RemoteAddr() net.Addr       { return p.from }
func (p *plug) Read(b []byte) (int, error) { return copy(b, "x"), nil }
func (p *plug) Close() error               { p.closed = true; return nil }

// desk is a listener that is handed its connections.
type desk struct {
	*Listener
	t     *testing.T
	now   time.Time
	lines []string
	next  int
}

func newDesk(t *testing.T, limits Limits) *desk {
	d := &desk{t: t, now: time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)}
	d.Listener = New(nil, Options{
		Limits: limits, Vain: Rate{1 << 20, 1 << 20}, Now: func() time.Time { return d.now },
		Log: func(format string, args ...any) { d.lines = append(d.lines, fmt.Sprintf(format, args...)) },
	})
	return d
}

// comes is one more connection, as Accept has it; nil: it was refused.
func (d *desk) comes(from string) *Conn {
	d.next++
	p := &plug{from: &net.TCPAddr{IP: net.ParseIP(from), Port: 1 + d.next}}
	c, old := d.admit(p)
	if old != nil {
		old.Conn.Close()
	}
	return c
}

// says is the first word of a connection, and whether it may go on.
func says(c *Conn) bool {
	_, err := c.Read(make([]byte, 8))
	return err == nil
}

func open(c *Conn) bool { return c != nil && !c.Conn.(*plug).closed }

// shows holds who is there against what is wanted, a letter each: o open, c closed.
func (d *desk) shows(want string, all ...*Conn) {
	d.t.Helper()
	got := ""
	for _, c := range all {
		got += map[bool]string{true: "o", false: "c"}[open(c)]
	}
	if got != want {
		d.t.Errorf("the connections are %s, want %s", got, want)
	}
}

// TestSilentMakeRoom: the one that has been silent for longest goes for the next of the same source, and one that
// speaks stays.
func TestSilentMakeRoom(t *testing.T) {
	d := newDesk(t, Limits{100, 100, 100, 2, 100, 100})
	a, b := d.comes("10.0.0.1"), d.comes("10.0.0.1")
	other := d.comes("10.0.0.2")
	if !says(a) {
		t.Error("it may not speak")
	}
	c := d.comes("10.0.0.1")
	d.shows("oooo", a, b, other, c)
	e := d.comes("10.0.0.1")
	d.shows("oocoo", a, other, b, c, e)
	if len(d.lines) != 1 || !strings.Contains(d.lines[0], "Closed connections from 10.0.0.1 that said nothing") {
		t.Errorf("it said %q", d.lines)
	}
	d.comes("10.0.0.1")
	if len(d.lines) != 1 {
		t.Errorf("it said %q", d.lines)
	}
}

// TestCrowdedMakesRoom: where all are too many, the source with most of them makes room.
func TestCrowdedMakesRoom(t *testing.T) {
	d := newDesk(t, Limits{100, 100, 4, 3, 100, 100})
	honest := d.comes("10.0.0.2")
	a, b, c := d.comes("10.0.0.1"), d.comes("10.0.0.1"), d.comes("10.0.0.1")
	next := d.comes("10.0.0.3")
	d.shows("ocooo", honest, a, b, c, next)
}

// TestHandshakesHaveBounds: who speaks and finds no room is refused, until one of those before it has taken too long.
func TestHandshakesHaveBounds(t *testing.T) {
	d := newDesk(t, Limits{100, 100, 100, 100, 3, 2})
	a, b, c := d.comes("10.0.0.1"), d.comes("10.0.0.1"), d.comes("10.0.0.1")
	if !says(a) || !says(b) || says(c) {
		t.Error("of three, two may speak")
	}
	d.shows("ooc", a, b, c)
	other := d.comes("10.0.0.2")
	if !says(other) {
		t.Error("another source is refused with it")
	}
	d.now = d.now.Add(stalled)
	e := d.comes("10.0.0.1")
	if !says(e) {
		t.Error("it waits for one that has stalled")
	}
	d.shows("cooo", a, b, e, other)
	b.Entered()
	if f := d.comes("10.0.0.1"); !says(f) {
		t.Error("whoever has entered still takes a place")
	}
	d.shows("o", b) // whoever is proved loses nothing to those who come
	if len(d.lines) != 1 || !strings.Contains(d.lines[0], "Refused a connection from 10.0.0.1: 2 of its handshakes") {
		t.Errorf("it said %q", d.lines)
	}
}

// TestOpenHaveBounds: also those that are proved, in all and of one source.
func TestOpenHaveBounds(t *testing.T) {
	d := newDesk(t, Limits{3, 2, 100, 100, 100, 100})
	enter := func(from string) *Conn {
		c := d.comes(from)
		if c != nil && says(c) {
			c.Entered()
		}
		return c
	}
	a, b, c := enter("10.0.0.1"), enter("10.0.0.1"), enter("10.0.0.1")
	d.shows("ooc", a, b, c)
	d.shows("oc", enter("10.0.0.2"), enter("10.0.0.3"))
	a.Close()
	d.shows("o", enter("10.0.0.3"))
}

// TestHandshakesHaveARate: a burst as of a whole cluster that comes back, and then so many a second.
func TestHandshakesHaveARate(t *testing.T) {
	d := newDesk(t, Limits{1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20})
	begun := func(n int) (may int) {
		for range n {
			c := d.comes("10.0.0.1")
			if says(c) {
				may++
			}
			c.Close()
		}
		return may
	}
	if may := begun(5000); may != 4096 {
		t.Errorf("%d begin at once", may)
	}
	d.now = d.now.Add(time.Second)
	if may := begun(5000); may != 500 {
		t.Errorf("%d begin in a second", may)
	}
}

// TestNetworksOfIPv6: a machine has 64 bits of addresses, which are one source.
func TestNetworksOfIPv6(t *testing.T) {
	d := newDesk(t, Limits{100, 100, 100, 1, 100, 100})
	a, b, c := d.comes("2001:db8::1"), d.comes("2001:db8::2:2"), d.comes("2001:db8:0:1::1")
	d.shows("coo", a, b, c)
	if !strings.Contains(d.lines[0], "2001:db8::/64") {
		t.Errorf("it said %q", d.lines)
	}
	if mapped := d.comes("::ffff:10.0.0.1"); d.comes("10.0.0.1") == nil || open(mapped) {
		t.Error("an address has two names")
	}
}

// TestNothingIsLeft: whatever connections do, in whatever order, the sums are right, no bound is passed, and at the end
// nothing is remembered.
func TestNothingIsLeft(t *testing.T) {
	for seed := range uint64(200) {
		draw := rand.New(rand.NewPCG(seed, 1))
		limits := Limits{12, 8, 5, 3, 4, 2}
		d := newDesk(t, limits)
		var all []*Conn
		for range 300 {
			switch d.now = d.now.Add(time.Duration(draw.IntN(1000)) * time.Millisecond); draw.IntN(5) {
			case 0, 1:
				if c := d.comes(fmt.Sprintf("10.0.0.%d", draw.IntN(4))); c != nil {
					all = append(all, c)
				}
			default:
				if len(all) == 0 {
					continue
				}
				c := all[draw.IntN(len(all))]
				[]func(){func() { says(c) }, c.Entered, func() { c.Close() }}[draw.IntN(3)]()
			}
			d.check(all)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		for _, c := range all {
			c.Close()
		}
		d.now = d.now.Add(time.Minute)
		d.forgetAll()
		if len(d.sources) != 0 || d.open+d.silent+d.speaking != 0 {
			t.Fatalf("seed %d: %d sources are left, %d %d %d", seed, len(d.sources), d.open, d.silent, d.speaking)
		}
	}
}

func (d *desk) check(all []*Conn) {
	open, silent, speaking := 0, 0, 0
	for _, s := range d.sources {
		open, silent, speaking = open+s.open, silent+s.silent.Len(), speaking+s.speaking.Len()
		if s.open > d.o.Limits.OpenOfSource || s.silent.Len() > d.o.Limits.SilentOfSource ||
			s.speaking.Len() > d.o.Limits.SpeakingOfSource {
			d.t.Errorf("%s has %d, %d silent, %d speaking", s, s.open, s.silent.Len(), s.speaking.Len())
		}
	}
	there := 0
	for _, c := range all {
		if !c.Conn.(*plug).closed {
			there++
		}
	}
	if open != d.open || open != there || silent != d.silent || speaking != d.speaking || d.open > d.o.Limits.Open ||
		silent > d.o.Limits.Silent || speaking > d.o.Limits.Speaking {
		d.t.Errorf("%d of %d are open, %d of %d silent, %d of %d speaking, and %d are there", d.open, open, d.silent,
			silent, d.speaking, speaking, there)
	}
}

// TestCalm: once a crowd has gone, and not before, what it took is given back.
func TestCalm(t *testing.T) {
	d := newDesk(t, Limits{1 << 20, 1 << 20, 1 << 20, 10, 100, 100})
	d.o.Calm = func() {}
	d.watched = true // as if somebody waited already
	for range 2 * crowded {
		d.comes("10.0.0.1")
	}
	if d.calm() {
		t.Error("a crowd was here a moment ago")
	}
	if !d.calm() || d.watched {
		t.Error("nobody was turned away since")
	}
}
