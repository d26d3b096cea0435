package main

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/store"
)

// This file limits the memory of garbage: how far the heap grows before a collection, and when free memory is
// returned to the host. If the heap could always grow to five times its live part, a peak of clients would need
// five times its memory, and an idle scheduler would keep this memory.

const (
	// heapGrowth lets the heap grow to five times its live part before a collection. With more frequent
	// collections, they took a fifth of the CPU time of a gang. This applies to memory that has been live for a
	// while. Recent memory may belong to a short peak, so the heap grows by at most half of it.
	heapGrowth  = 400
	crowdGrowth = 50
	spareGrowth = 32 << 20 // the minimum
	// usualGrowth is the growth from which a heap may only double. 100,000 waiting jobs have 575 MB of live memory, and
	// the heap could grow to 2.9 GB. Doubling costs 6% more CPU time at most.
	usualGrowth = 256 << 20
	// lastingAfter is the time after which recent memory counts as lasting.
	lastingAfter = 5 * time.Minute

	lookAtMemory = 10 * time.Second
	// spareMemory is the minimum that is kept.
	spareMemory = 32 << 20
	// againAfter is the pause after a return of memory if the heap has barely grown since. Each return costs a
	// collection.
	againAfter = 20 * time.Second
)

// heap holds measurements of the heap.
type heap struct {
	held        uint64 // memory of the host, used or free
	live        uint64 // after the last collection
	collections uint64
}

// idle reports whether much memory is held and no collection has run since the previous measurement. A heap that
// fills so slowly may start small again. The live part may have shrunk since the last collection, so it is not
// compared.
func (h heap) idle(before heap) bool {
	return h.collections == before.collections && h.held > spareMemory+h.live/2
}

func readHeap() heap {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/gc/cycles/total:gc-cycles"},
	}
	metrics.Read(samples)
	return heap{
		held: samples[0].Value.Uint64() - samples[1].Value.Uint64(), live: samples[2].Value.Uint64(),
		collections: samples[3].Value.Uint64(),
	}
}

// growth returns the percentage by which a heap may grow, from its live part and the lasting part of it.
func growth(live, lasting uint64) int {
	live = max(1, live)
	wide := min(lasting*heapGrowth, max(usualGrowth, lasting)*100)
	return int(min(heapGrowth, max(crowdGrowth, spareGrowth*100/live, wide/live)))
}

// lasts returns the lasting part of the live memory, from its value some time ago.
func lasts(before, live uint64, since time.Duration) uint64 {
	if live <= before {
		return live
	}
	return before + uint64(float64(live-before)*min(1, since.Seconds()/lastingAfter.Seconds()))
}

// boundGrowth sets the growth of the heap for its live part, and repeats this after each collection. A finalizer of
// an unreachable object detects the collection.
func boundGrowth(lasting uint64, at time.Time) {
	live, now := readHeap().live, time.Now()
	if lasting == 0 {
		lasting = live
	}
	lasting = lasts(lasting, live, now.Sub(at))
	debug.SetGCPercent(growth(live, lasting))
	runtime.SetFinalizer(new([16]byte), func(*[16]byte) { boundGrowth(lasting, now) })
}

// resting is a store that caches recent writes and can release this memory.
type resting interface{ Rest() error }

// giveBack returns free memory at intervals until ctx ends.
func giveBack(ctx context.Context, from any, log actors.Log) {
	before, after, at := readHeap(), uint64(0), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookAtMemory):
		}
		if r, is := from.(resting); is {
			if err := r.Rest(); err != nil && !errors.Is(err, store.ErrClosed) {
				log.Info("The store cannot release the memory of the last writes: %v", err)
			}
		}
		now := readHeap()
		if now.idle(before) && (now.held > after+after/2 || time.Since(at) > againAfter) {
			debug.FreeOSMemory()
			now = readHeap()
			after, at = now.held, time.Now()
		}
		before = now
	}
}
