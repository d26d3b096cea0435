package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// This file owns when memory that nobody needs any more goes back to the machine. The heap may grow to five times what
// lives before it is collected (heapGrowth), so after a crowd of clients it would stay as large as they made it for as
// long as the scheduler has little to do.

const (
	lookAtMemory = 10 * time.Second
	// spareMemory is what is kept in any case.
	spareMemory = 32 << 20
	// againAfter is how long a heap is left alone that was given back and has hardly grown since: to look what lives in it
	// costs a collection.
	againAfter = 20 * time.Second
)

// heap is what is looked at.
type heap struct {
	held        uint64 // of the machine's memory, in use or not
	live        uint64 // by the last collection
	collections uint64
}

// idle reports whether much is held and nothing was collected since the look before: a heap that fills so slowly may as
// well begin small again. What lives may have become far less since the last collection, so it does not count.
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

// giveBack looks again and again until ctx ends.
func giveBack(ctx context.Context) {
	before, after, at := readHeap(), uint64(0), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookAtMemory):
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
