package entrance

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// line is a desk whose sources may make two handshakes for nothing at once, and four a second.
func line(t *testing.T, limits Limits) *desk {
	d := newDesk(t, limits)
	d.o.Vain, d.o.Now = Rate{PerSecond: 4, AtOnce: 2}, time.Now
	return d
}

var many = Limits{100, 100, 100, 100, 100, 100}

// speaks has so many connections say their first word, one after the other, and answers when each went on.
func (d *desk) speaks(from string, many int, went *[]time.Duration, then func(*Conn)) {
	began := time.Now()
	for range many {
		c := d.comes(from)
		go func() {
			if says(c) {
				*went = append(*went, time.Since(began))
			}
			then(c)
		}()
		synctest.Wait()
	}
}

// TestVainOnesStandInLine: a source whose handshakes come to nothing has some at once and then so many a second, the
// first to come first, and no other source waits with it.
func TestVainOnesStandInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := line(t, many)
		var vain, other []time.Duration
		d.speaks("10.0.0.1", 5, &vain, func(c *Conn) { c.Close() })
		d.speaks("10.0.0.2", 2, &other, func(c *Conn) { c.Close() })
		time.Sleep(time.Second)
		synctest.Wait()
		const each = time.Second / 4
		if want := []time.Duration{0, 0, each, 2 * each, 3 * each}; !slices.Equal(vain, want) {
			t.Errorf("they went on after %v, want %v", vain, want)
		}
		if !slices.Equal(other, []time.Duration{0, 0}) {
			t.Errorf("another source's went on after %v", other)
		}
		time.Sleep(time.Minute)
		vain = nil
		d.speaks("10.0.0.1", 2, &vain, func(c *Conn) { c.Close() })
		if !slices.Equal(vain, []time.Duration{0, 0}) {
			t.Errorf("a minute later they went on after %v", vain)
		}
	})
}

// TestGoodOnesWaitForNobody: one of which something came gives the place in line to the next, so that any number of
// such come at once; twice gives one place. To be proved gives none.
func TestGoodOnesWaitForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := line(t, many)
		var went []time.Duration
		d.speaks("10.0.0.1", 20, &went, func(c *Conn) { c.Entered(); c.Served(); c.Served() })
		if len(went) != 20 || went[19] != 0 {
			t.Errorf("they went on after %v", went)
		}
		var vain []time.Duration
		d.speaks("10.0.0.1", 4, &vain, func(c *Conn) { c.Entered(); c.Close() })
		time.Sleep(time.Second)
		synctest.Wait()
		const each = time.Second / 4
		if want := []time.Duration{0, 0, each, 2 * each}; !slices.Equal(vain, want) {
			t.Errorf("those for nothing behind them began after %v, want %v", vain, want)
		}
	})
}

// TestLineIsLeft: whoever is closed in line holds up nobody; whoever waits there has not stalled, so that its place
// goes to nobody else.
func TestLineIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := many
		limits.SpeakingOfSource = 1
		d := line(t, limits)
		d.o.Vain = Rate{PerSecond: 1, AtOnce: 1}
		var vain, went []time.Duration
		d.speaks("10.0.0.1", 1, &vain, func(c *Conn) { c.Close() })
		gone := d.comes("10.0.0.1")
		go func() {
			if says(gone) {
				t.Error("it was closed, and goes on")
			}
		}()
		synctest.Wait()
		gone.Close()
		d.speaks("10.0.0.1", 1, &went, func(*Conn) {})
		if says(d.comes("10.0.0.1")) {
			t.Error("one goes on in the place of another that waits in line")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if !slices.Equal(went, []time.Duration{time.Second}) {
			t.Errorf("the next went on after %v, want a second", went)
		}
	})
}
