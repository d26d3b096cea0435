package gateway

// This file tests many concurrent watches.

import (
	"fmt"
	"testing"

	"google.golang.org/grpc"

	"github.com/yi-json/synapse/messages"
)

// TestCrowdedWatchesMissNothing checks that each of many watches gets every change, in order.
func TestCrowdedWatchesMissNothing(t *testing.T) {
	r := newRoom(t)
	s, _ := r.lead()
	d := r.door(s, Options{})
	ctx := timely(t)
	var all []grpc.ServerStreamingClient[messages.Event]
	for range 20 {
		all = append(all, d.watches(ctx, &messages.Watch{Jobs: true, Nodes: true}))
	}
	r.join("n1", s)
	for d.event(all[0]).Text != "node n1 up, with 64 CPUs and 8 GPUs" {
	}
	last := ""
	for i := range 8 {
		last = d.submit(gpuJob(fmt.Sprint("j", i), 1, 8))
	}
	for i, w := range all {
		seq := uint64(0)
		for e := d.event(w); ; e = d.event(w) {
			if seq != 0 && e.Seq != seq+1 {
				t.Fatalf("watch %d: event %d came after %d", i, e.Seq, seq)
			}
			if seq = e.Seq; e.GetJob().GetRecord().GetId() == last {
				break
			}
		}
	}
}
