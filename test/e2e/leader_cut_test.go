package e2e

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests a leader that is cut off from its database, from nodes and from clients, and formats times.

// relay forwards connections at one of our addresses to the database's socket.
func (c *council) relay(t *testing.T, at string) string {
	t.Helper()
	listener, err := net.Listen("tcp", at+":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	store, err := url.Parse(c.store)
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(store.Query().Get("host"), ".s.PGSQL.5432")
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("unix", socket)
			if err != nil {
				from.Close()
				continue
			}
			go func() { _, _ = io.Copy(to, from); to.Close() }()
			go func() { _, _ = io.Copy(from, to); from.Close() }()
		}
	}()
	host, port, _ := net.SplitHostPort(listener.Addr().String())
	store.RawQuery = url.Values{
		"host": {host}, "port": {port}, "user": {store.Query().Get("user")}, "sslmode": {"disable"},
	}.Encode()
	return store.String()
}

// TestLeaderCutOff checks that a leader which reaches neither the database nor nodes nor clients is replaced, and ends
// by itself without a message.
func TestLeaderCutOff(t *testing.T) {
	i := newIsland(t)
	c := emptyCouncil(t)
	ours := c.store
	c.members[0].address, c.store = i.Machine+":0", c.relay(t, i.Address)
	c.members[0].process = i.launch("scheduler-0", "synapse-scheduler",
		append(c.seatArgs(0), "--insecure", "--insecure")...)
	c.await(0)
	if leads, _ := c.leader(); leads != 0 {
		t.Fatal("the first scheduler is alone but does not lead")
	}
	c.store = ours
	for seat := 1; seat < seats; seat++ {
		c.seat(seat)
		c.await(seat)
	}
	c.seated()
	c.node("n1", "r1")
	c.node("n2", "r1")
	spec, starts := witness(t, 2, 4, "exec sleep 600")
	long := c.submit(spec)
	c.cluster.await(long, "running")

	i.cut()
	fresh, freshStarts := witness(t, 2, 1, "exit 0")
	id, took := c.admitted(fresh, 20*time.Second)
	t.Logf("the leader cut off: the next gang ran after %s", took.Round(time.Millisecond))
	if took > pace.Of(12*time.Second) {
		t.Errorf("the next gang ran %s after the leader was cut off", took)
	}
	c.ends(0, 10*time.Second, 1, "this scheduler no longer leads")
	i.heal()
	c.cluster.await(id, "succeeded")
	if s := c.job(long); s.Phase != "running" || s.Record.Runs != 1 || starts() != 2 || freshStarts() != 2 {
		t.Errorf("the running gang is %s after %d attempts and %d starts; the next one started %d times",
			s.Phase, s.Record.Runs, starts(), freshStarts())
	}
}

// spread formats the median, the 99th percentile and the maximum of some times.
func spread(all []time.Duration) string {
	if len(all) == 0 {
		return "none"
	}
	slices.Sort(all)
	at := func(percent int) time.Duration {
		return all[min(len(all)*percent/100, len(all)-1)].Round(time.Millisecond)
	}
	return fmt.Sprintf("the next gang ran after p50 %s, p99 %s, at most %s", at(50), at(99), at(100))
}
