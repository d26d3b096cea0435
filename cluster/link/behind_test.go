package link

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/yi-json/synapse/cluster/entrance"
	testpace "github.com/yi-json/synapse/test/able/pace"
)

// This file owns a cluster's machines that come back all at once, and have one address between them.

// TestManyBehindOneAddress: 2,000 machines behind one address, all of which lost their scheduler in the same moment,
// are linked again within a minute, through the entrance and the gate, though one address may have no more than 256
// handshakes under way.
func TestManyBehindOneAddress(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it makes 2,000 handshakes")
	}
	const many = 2000
	by, dials := secured(t)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hall{tb: t, system: newSystem(), ears: make(chan heard, 1<<16), address: inner.Addr().String()}
	h.listener = entrance.New(inner, entrance.Options{Count: h.count})
	h.server = NewServer(h.system, Options{Credentials: by.Credentials(), Count: h.count})
	h.guards = by.ServerOptions()
	var machines []*Client
	for i := range many {
		o := machineOptions(fmt.Sprintf("n%04d", i), fmt.Sprintf("m%04d", i), h.address)
		o.Credentials = dials
		machines = append(machines, Dial(newSystem(), o))
	}
	defer func() {
		for _, m := range machines {
			go m.Close()
		}
	}()
	time.Sleep(time.Second) // all of them are connected by now, as far as the kernel goes, and wait
	began := time.Now()
	serve(t, h)
	// The minute is one of a machine that has nothing else to do: beside other tests it is the processor's that counts.
	before := processTime(t)
	for h.of(countUp) < many && time.Since(began) < 5*time.Minute {
		if time.Since(began) > testpace.Of(time.Minute) && processTime(t)-before > time.Minute {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("%d machines were linked within %s, %s of a processor; %d were told to come again", h.of(countUp),
		time.Since(began).Round(10*time.Millisecond), (processTime(t) - before).Round(10*time.Millisecond),
		h.of("entrance.refused"))
	if up := h.of(countUp); up < many {
		t.Errorf("after a minute %d of %d are linked", up, many)
	}
}
