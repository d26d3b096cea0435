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

// This file owns how much of the machine's memory is taken for what nobody needs any more: how far the heap grows
// before it is collected, and when what is left goes back. A heap that may always grow to five times what lives would
// be five times what a crowd of clients brings, and stay that large for as long as the scheduler has little to do.

const (
	// heapGrowth lets the heap grow to five times what lives before it is collected, for a fifth of a gang's cost was the
	// collector's. That goes for what has lived for a while: what has come since is taken for a crowd's, which may be
	// gone in a moment, and the heap does not grow with it by more than half.
	heapGrowth  = 400
	crowdGrowth = 50
	spareGrowth = 32 << 20 // in any case
	// lastingAfter is how long it takes until what has come is taken for what stays.
	lastingAfter = 5 * time.Minute

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

// growth is by how many percent a heap may grow in which so much lives, of which so much has for a while.
func growth(live, lasting uint64) int {
	live = max(1, live)
	return int(min(heapGrowth, max(crowdGrowth, spareGrowth*100/live, lasting*heapGrowth/live)))
}

// lasts is how much of what lives has for a while, where so much had some time ago.
func lasts(before, live uint64, since time.Duration) uint64 {
	if live <= before {
		return live
	}
	return before + uint64(float64(live-before)*min(1, since.Seconds()/lastingAfter.Seconds()))
}

// boundGrowth has the heap grow as far as it should by what lives in it. It does so again after each collection, which
// it notices by something that nobody refers to.
func boundGrowth(lasting uint64, at time.Time) {
	live, now := readHeap().live, time.Now()
	if lasting == 0 {
		lasting = live
	}
	lasting = lasts(lasting, live, now.Sub(at))
	debug.SetGCPercent(growth(live, lasting))
	runtime.SetFinalizer(new([16]byte), func(*[16]byte) { boundGrowth(lasting, now) })
}

// resting is a store that keeps memory of what was written last, and gives it back when nothing is.
type resting interface{ Rest() error }

// giveBack looks again and again until ctx ends.
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
