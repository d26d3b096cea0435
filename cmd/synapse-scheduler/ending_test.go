package main

import (
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/cluster/host"
	"github.com/yi-json/synapse/cluster/link"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/server/gateway"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests the order in which a scheduler ends: clients and nodes, then the lease, then the store. If it
// released the lease first, another scheduler would lead while this one still answers.

// ending is a scheduler that leads one node. It is also the scheduler's fake lease and store, and inspects the
// scheduler when either is released.
type ending struct {
	*store.Memory
	*testing.T
	s       *scheduler
	address string
	did     []string
}

func (e *ending) Renew(uint64) error                 { return nil }
func (e *ending) Leading() (store.Leadership, error) { return store.Leadership{}, nil }

func (e *ending) Resign(uint64) error {
	e.did = append(e.did, "resign")
	if n := e.s.host.Counts()["link.down"]; n != 1 {
		e.Errorf("the lease is given back, and %d nodes were let go", n)
	}
	if !e.refuses() {
		e.Error("the lease is given back, and clients are still served")
	}
	return nil
}

// refuses reports whether calls are refused. A few earlier calls may still be answered.
func (e *ending) refuses() bool {
	for range 20 {
		_, err := e.s.gateway.GetJob(e.Context(), &messages.GetJob{Job: "j1"})
		if err != nil && strings.Contains(err.Error(), "shutting down") {
			return true
		}
	}
	return false
}

func (e *ending) Close() error {
	e.did = append(e.did, "close")
	if conn, err := net.Dial("tcp", e.address); err == nil {
		conn.Close()
		e.Error("the store is closed, and the port is still open")
	}
	return e.Memory.Close()
}

// led starts a scheduler with a shared store, and a node that is linked to it.
func led(t *testing.T) *ending {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &ending{Memory: store.NewMemory(), T: t, address: listener.Addr().String()}
	e.s = &scheduler{
		options: options{store: "postgres://db/x", advertise: e.address, policy: policy.DefaultSettings()},
		log:     host.NewLogIn("text", io.Discard, false), store: e, lease: e,
	}
	if err := e.s.build(listener); err != nil {
		t.Fatal(err)
	}
	epoch, err := e.Lead("me")
	if err != nil {
		t.Fatal(err)
	}
	e.s.lead(t.Context(), epoch)
	go func() { _ = e.s.server.Serve(e.s.connlimit) }()
	node := link.Dial(host.New(e.s.log).System(), link.Options{
		Node: "n1", MachineID: "m1", Schedulers: []string{e.address},
		Incarnation: &messages.Incarnation{BootId: "boot", StartedNs: 7},
	})
	t.Cleanup(node.Close)
	for until := pace.Until(10 * time.Second); e.s.host.Counts()["link.up"] == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the node is not linked")
		}
	}
	return e
}

// TestEndsInOrder checks that a leader releases its lease after it has stopped serving, and closes its store last.
// A standby has no lease.
func TestEndsInOrder(t *testing.T) {
	for _, c := range []struct {
		name  string
		leads bool
		want  []string
	}{{"leader", true, []string{"resign", "close"}}, {"standby", false, []string{"close"}}} {
		t.Run(c.name, func(t *testing.T) {
			e := led(t)
			if !c.leads {
				e.s.leads.Store(&gateway.Leader{Address: "head2:9000"})
			}
			e.s.end(make(chan os.Signal))
			if did := slices.Compact(e.did); !slices.Equal(did, c.want) { // the port also closes its store
				t.Errorf("it did %v, want %v", did, c.want)
			}
		})
	}
}
