package connlimit

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// This file tests a listener on a real port.

type netListener interface{ net.Listener }

func open(t *testing.T, limits Limits) *Listener {
	t.Helper()
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := New(at, Options{Limits: limits})
	t.Cleanup(func() { l.Close() })
	return l
}

func dial(t *testing.T, l *Listener, words string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, words); err != nil {
		t.Fatal(err)
	}
	return c
}

func accept(t *testing.T, l *Listener) *Conn {
	t.Helper()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return c.(*Conn)
}

// TestWordsArriveWhole checks that all data of a client arrives, and that earlier silent or closed connections do
// not delay it.
func TestWordsArriveWhole(t *testing.T) {
	l := open(t, roomy())
	dial(t, l, "")
	dial(t, l, "").Close()
	dial(t, l, "hello")
	c := accept(t, l)
	words := make([]byte, 5)
	if _, err := io.ReadFull(c, words); err != nil || string(words) != "hello" {
		t.Errorf("%q, %v", words, err)
	}
}

// TestClientsThatHungUp checks that the kernel reports a disconnected client although it has unread data.
func TestClientsThatHungUp(t *testing.T) {
	limits := roomy()
	limits.Begun, limits.BegunOfSource = 1, 1
	l := open(t, limits)
	var gone atomic.Int64
	l.o.Count = func(name string, n int64) {
		if name == countGone {
			gone.Add(n)
		}
	}
	dial(t, l, "first")
	first := accept(t, l)
	leaves := dial(t, l, "leaves")
	waits := func(many int) {
		for limit := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			l.mu.Lock()
			n := 0
			for _, s := range l.sources { //order: a sum does not depend on it
				n += s.line.Len()
			}
			l.mu.Unlock()
			if n == many {
				return
			}
			if time.Now().After(limit) {
				t.Fatalf("%d wait, want %d", n, many)
			}
		}
	}
	waits(1)
	leaves.Close()
	dial(t, l, "stays")
	waits(2)
	first.Entered()
	c, words := accept(t, l), make([]byte, 5)
	if _, err := io.ReadFull(c, words); err != nil || string(words) != "stays" || gone.Load() != 1 {
		t.Errorf("%q has the turn, %v; %d had gone", words, err, gone.Load())
	}
}

// TestCloseEndsTheLine checks that Close closes all silent and waiting connections.
func TestCloseEndsTheLine(t *testing.T) {
	limits := roomy()
	limits.Begun, limits.BegunOfSource = 1, 1
	l := open(t, limits)
	all := []net.Conn{dial(t, l, "first")}
	first := accept(t, l)
	all = append(all, dial(t, l, "waits"), dial(t, l, ""))
	l.Close()
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed listener answers %v", err)
	}
	for _, c := range all[1:] {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, errTimeout(err)) {
			t.Errorf("a connection in line stays open: %v", err)
		}
	}
	if _, err := first.Write([]byte("x")); err != nil {
		t.Errorf("one that was handed on is closed: %v", err)
	}
}

// errTimeout returns the error if it is a timeout.
func errTimeout(err error) error {
	var of net.Error
	if errors.As(err, &of) && of.Timeout() {
		return err
	}
	return errors.New("none")
}
