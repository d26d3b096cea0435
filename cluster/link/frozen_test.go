package link

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/yi-json/synapse/actors"
	testpace "github.com/yi-json/synapse/test/able/pace"
)

// This file owns the tests of links whose other end goes silent: a pulled cable, the loss of one direction, or a
// stopped process. Time is virtual.

// cable is a connection whose directions can be lost. Data written into a lost direction is accepted and never arrives.
type cable struct {
	net.Conn
	outLost, inLost *atomic.Bool
}

func (c cable) Write(b []byte) (int, error) {
	if c.outLost.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// Read drops arriving data while the incoming direction is lost.
func (c cable) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.inLost.Load() {
			return n, err
		}
	}
}

// quiet returns a scheduler and a node that are connected by a cable, in virtual time.
func quiet(t *testing.T) (h *hall, n *cabin, out, in *atomic.Bool) {
	listener := bufconn.Listen(1 << 20)
	h = &hall{tb: t, system: newSystem(), ears: make(chan heard, 1<<10)}
	h.server = NewServer(h.system, Options{Count: h.count})
	for _, path := range schedulerEars {
		ear(h.system, path, func(m heard) { h.ears <- m })
	}
	h.grpc = grpc.NewServer(ServerOptions(nil)...)
	h.server.Register(h.grpc)
	go h.grpc.Serve(listener)

	out, in = &atomic.Bool{}, &atomic.Bool{}
	o := machineOptions("n1", "m1", "scheduler.example:9000")
	o.Dialer = func(ctx context.Context, _ string) (net.Conn, error) {
		c, err := listener.DialContext(ctx)
		return cable{c, out, in}, err
	}
	n = newCabin(t, o)
	return h, n, out, in
}

func TestFrozenLinksAreNoticed(t *testing.T) {
	template() // created outside of the virtual time
	for _, c := range []struct {
		name    string
		out, in bool
	}{{"from the machine", true, false}, {"to the machine", false, true}, {"both ways", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, n, out, in := quiet(t)
				synctest.Wait()
				h.up("n1")
				time.Sleep(time.Minute) // an idle link stays open
				if h.of(countDown)+n.of(countDown) != 0 {
					t.Fatal("an idle link broke")
				}
				began := time.Now()
				out.Store(c.out)
				in.Store(c.in)
				hears(t, h.ears, "LinkDown", func(m heard) bool { return m.message == actors.LinkDown{Node: "n1"} })
				if took := time.Since(began); took > testpace.Of(15*time.Second) {
					t.Errorf("the scheduler noticed after %v", took)
				}
				for n.of(countDown) == 0 {
					time.Sleep(100 * time.Millisecond)
				}
				if took := time.Since(began); took > testpace.Of(15*time.Second) {
					t.Errorf("the machine noticed after %v", took)
				}
				time.Sleep(time.Minute)
				out.Store(false)
				in.Store(false)
				mended := time.Now()
				h.up("n1")
				// The last attempt may have started just before. The node waits for an answer, pauses, and tries again.
				if took := time.Since(mended); took > greetTimeout+maxBusyRetry {
					t.Errorf("linked again after %v", took)
				}
				works(t, h, n, 1)
				n.client.Close()
				h.close()
				synctest.Wait()
			})
		})
	}
}

// TestHalfAFrame checks that a peer which starts a frame and never ends it loses its connection, even after it was
// accepted.
func TestHalfAFrame(t *testing.T) {
	template()
	synctest.Test(t, func(t *testing.T) {
		listener := bufconn.Listen(1 << 20)
		h := &hall{tb: t, system: newSystem(), ears: make(chan heard, 1<<10)}
		h.server = NewServer(h.system, Options{Count: h.count})
		h.grpc = grpc.NewServer(ServerOptions(nil)...)
		h.server.Register(h.grpc)
		go h.grpc.Serve(listener)
		c, err := listener.DialContext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		settings := []byte{0, 0, 0, 4, 0, 0, 0, 0, 0}
		headers := []byte{0, 0, 1, 1, 0, 0, 0, 0, 1, 0x83} // of stream 1, which never end
		c.Write(append(append([]byte(firstWords), settings...), headers...))
		stopped := make(chan struct{})
		go func() { // but a byte now and then arrives
			defer close(stopped)
			for {
				time.Sleep(time.Second)
				if _, err := c.Write([]byte{0}); err != nil {
					return
				}
			}
		}()
		io.Copy(io.Discard, c)
		if took := time.Since(began); took > testpace.Of(16*time.Second) {
			t.Errorf("it was closed after %v", took)
		}
		c.Close()
		<-stopped
		h.close()
	})
}
