package connlimit

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"
)

// plug is a connection whose other end is the test.
type plug struct {
	net.Conn
	from   net.Addr
	closed bool
	gone   bool
}

func (p *plug) RemoteAddr() net.Addr { return p.from }
func (p *plug) Close() error         { p.closed = true; return nil }

// desk is a listener that gets its connections from the test. No one calls its Accept.
type desk struct {
	*Listener
	t     *testing.T
	now   time.Time
	lines []string
	port  int
}

func newDesk(t *testing.T, limits Limits) *desk {
	d := &desk{t: t, now: time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)}
	d.Listener = New(closable{}, Options{
		Limits: limits, Now: func() time.Time { return d.now },
		Log:  func(format string, args ...any) { d.lines = append(d.lines, fmt.Sprintf(format, args...)) },
		Gone: func(c net.Conn) bool { return c.(*plug).gone },
	})
	t.Cleanup(func() { d.Close() }) // stops its timers
	return d
}

// roomy returns limits that no test reaches. Each test lowers the limit that it is about.
func roomy() Limits {
	const many = 1 << 20
	return Limits{many, many, many, many, many}
}

// comes adds a connection, or returns nil if it was refused.
func (d *desk) comes(from string) *Conn {
	d.port++
	return d.admit(&plug{from: &net.TCPAddr{IP: net.ParseIP(from), Port: 1 + d.port}})
}

// speaks adds a connection that sends data.
func (d *desk) speaks(from string) *Conn {
	c := d.comes(from)
	if c != nil {
		d.Listener.speaks(c)
	}
	return c
}

// said is a connection that sends data at once and records its deadline.
type said struct {
	plug
	deadline time.Time
	set      int
}

func (s *said) Read(b []byte) (int, error) { return copy(b, "hello"), nil }

func (s *said) SetReadDeadline(at time.Time) error {
	s.deadline, s.set = at, s.set+1
	return nil
}

// TestDeadlineEndsWithTheFirstByte checks that a connection may pause for any time after its first byte, and that
// no data is lost.
func TestDeadlineEndsWithTheFirstByte(t *testing.T) {
	d := newDesk(t, roomy())
	d.o.Gone = func(net.Conn) bool { return false }
	raw := &said{plug: plug{from: &net.TCPAddr{IP: net.ParseIP("10.0.0.1"), Port: 1}}}
	c := d.admit(raw)
	c.listens()
	if raw.set != 2 || !raw.deadline.IsZero() || raw.closed {
		t.Errorf("after its first byte %d deadlines were set, %v is left; closed: %v", raw.set, raw.deadline, raw.closed)
	}
	if c.state != begun {
		t.Errorf("it is in the state %v", c.state)
	}
	var text []byte
	for len(text) < 4 {
		piece := make([]byte, 3)
		n, err := c.Read(piece)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, piece[:n]...)
	}
	if string(text) != "hhel" { // the byte that was read first, and the following data
		t.Errorf("it is read as %q", text)
	}
}

// shows compares the states of connections with the wanted ones, one letter each: s silent, w waiting, b begun, e
// entered, c closed.
func (d *desk) shows(want string, all ...*Conn) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	got := ""
	for _, c := range all {
		if c == nil {
			got += "c"
			continue
		}
		if got += string("swbec"[c.state]); c.Conn.(*plug).closed != (c.state == left) {
			d.t.Errorf("a connection is in state %d, and closed is %t", c.state, c.Conn.(*plug).closed)
		}
	}
	if got != want {
		d.t.Errorf("the connections are %s, want %s", got, want)
	}
}

// TestSilentMakeRoom checks that the oldest silent connection of any source is closed for a new one. A connection
// that has sent data stays.
func TestSilentMakeRoom(t *testing.T) {
	limits := roomy()
	limits.Silent = 3
	d := newDesk(t, limits)
	a, b := d.speaks("10.0.0.1"), d.comes("10.0.0.1")
	other := d.comes("10.0.0.2")
	c := d.comes("10.0.0.1")
	d.shows("bsss", a, b, other, c)
	e := d.comes("10.0.0.3")
	d.shows("bscss", a, other, b, c, e)
	if len(d.lines) != 1 || !strings.Contains(d.lines[0], "Closed silent connections from 10.0.0.1") {
		t.Errorf("it logged %q", d.lines)
	}
	d.comes("10.0.0.1") // replaces the one from 10.0.0.2
	d.comes("10.0.0.1")
	d.shows("ccs", other, c, e)
	if len(d.lines) != 2 {
		t.Errorf("it logged %q", d.lines)
	}
}

// TestOpenHaveBounds checks the limits of authenticated connections, in total and per source.
func TestOpenHaveBounds(t *testing.T) {
	limits := roomy()
	limits.Open, limits.OpenOfSource = 3, 2
	d := newDesk(t, limits)
	enter := func(from string) *Conn {
		c := d.speaks(from)
		if c != nil {
			c.Entered()
		}
		return c
	}
	a, b, c := enter("10.0.0.1"), enter("10.0.0.1"), enter("10.0.0.1")
	d.shows("eec", a, b, c)
	d.shows("ec", enter("10.0.0.2"), enter("10.0.0.3"))
	a.Close()
	d.shows("e", enter("10.0.0.3"))
}

// TestNetworksOfIPv6 checks that a /64 network of IPv6 is one source.
func TestNetworksOfIPv6(t *testing.T) {
	limits := roomy()
	limits.OpenOfSource = 1
	d := newDesk(t, limits)
	a, b, c := d.comes("2001:db8::1"), d.comes("2001:db8::2:2"), d.comes("2001:db8:0:1::1")
	d.shows("scs", a, b, c)
	if !strings.Contains(d.lines[0], "2001:db8::/64") {
		t.Errorf("it logged %q", d.lines)
	}
	mapped := d.comes("::ffff:10.0.0.1")
	d.shows("sc", mapped, d.comes("10.0.0.1")) // a mapped address equals the IPv4 address
}

// TestNothingIsLeft checks random sequences of events. The counts are right, no limit is exceeded, no connection
// waits without a reason, and nothing is remembered at the end.
func TestNothingIsLeft(t *testing.T) {
	for seed := range uint64(200) {
		draw := rand.New(rand.NewPCG(seed, 1))
		d := newDesk(t, Limits{16, 10, 5, 4, 2})
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
				[]func(){
					func() { d.Listener.speaks(c) }, c.Entered, func() { c.Close() }, func() { c.Conn.(*plug).gone = true },
				}[draw.IntN(4)]()
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
		for _, s := range d.sources { //order: each is checked separately
			d.forget(s)
		}
		if len(d.sources) != 0 || d.open+d.silent.Len()+d.ring.Len()+d.begun != 0 {
			t.Fatalf("seed %d: %d sources are left, %d %d %d %d", seed, len(d.sources), d.open, d.silent.Len(),
				d.ring.Len(), d.begun)
		}
	}
}

// check compares the counts with the connections and with the limits.
func (d *desk) check(all []*Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	limits, sums, sources := d.o.Limits, [5]int{}, map[*source]*[5]int{}
	for _, c := range all {
		sums[c.state]++
		if sources[c.from] == nil {
			sources[c.from] = &[5]int{}
		}
		sources[c.from][c.state]++
	}
	open := len(all) - sums[left]
	if open != d.open || sums[silent] != d.Listener.silent.Len() || sums[begun] != d.Listener.begun {
		d.t.Errorf("it counts %d open, %d silent, %d begun; there are %d, %v", d.open, d.Listener.silent.Len(),
			d.Listener.begun, open, sums)
	}
	if open > limits.Open || sums[silent] > limits.Silent || sums[begun] > limits.Begun {
		d.t.Errorf("%v are beyond %v", sums, limits)
	}
	for s, of := range sources { //order: each is checked separately
		if of[waiting] != s.line.Len() || of[begun] != s.begun {
			d.t.Errorf("%s counts %d waiting, %d begun; there are %v", s, s.line.Len(), s.begun, of)
		}
		if open := of[silent] + of[waiting] + of[begun] + of[entered]; open != s.open || open > limits.OpenOfSource ||
			of[begun] > limits.BegunOfSource {
			d.t.Errorf("%v of %s, which counts %d, are beyond %v", of, s, s.open, limits)
		}
		if s.line.Len() > 0 && sums[begun] < limits.Begun && of[begun] < limits.BegunOfSource {
			d.t.Errorf("%d of %s wait, and there is room", s.line.Len(), s)
		}
	}
}
