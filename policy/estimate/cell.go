package estimate

// This file owns one cell: what is known of how long the jobs of one kind run. All of
// it is in integers, for a multiplication that one processor fuses with an addition and
// another does not would tell another story to the next leader.
//
// A duration is in ticks of a tenth of a millisecond, so that the sum of a million jobs of
// ten years, as many that still run, and what coarser cells say stay within 64 bits.
// What an estimate loses by that is less than a millisecond. A count is in parts of 2^20.

import "math/bits"

const (
	tick    = 100_000 // ns
	oneJob  = 1 << 20
	mostSum = 1 << 62 // of ticks: two of them, and a third, are within an unsigned word

	// warm is of how many jobs a cell must know before those that still run no longer
	// count in it. Where only short ones have ended yet, the long ones that run say that
	// they are not the rule. To let them count for ever would be wrong: in a cell of a
	// steady flow the sum of what runs is always large.
	warm = 50
)

func ticksOf(ns int64) int64 { return ns / tick }

// cell holds what is known of one kind of jobs.
type cell struct {
	key CellKey
	// count and sum are of the durations that were learned, the older ones decayed.
	count, sum int64
	ended      int64 // how many were learned, none decayed; it stops at warm
	running    int64 // attempts that have begun
	starts     int64 // the sum of when they did: exposure is running · now − starts
	lines      int64 // that hold it
	worth      int64 // the least worth goes where there are too many: see Cells.learn
	at         int   // its place among those that are kept for what they learned, or -1
}

func (x *cell) begin(at int64) {
	x.running++
	x.starts += ticksOf(at)
}

func (x *cell) end(began int64) {
	x.running--
	x.starts -= ticksOf(began)
}

// learn adds one duration.
func (x *cell) learn(ran int64) {
	if k := x.key.Level.memory(); k > 0 {
		x.count -= (x.count + k/2) / k
		x.sum -= (x.sum + k/2) / k
	}
	x.count += oneJob
	x.sum = min(x.sum+ticksOf(min(max(ran, 0), longest)), mostSum)
	x.ended = min(x.ended+1, warm)
}

// shrink returns the mean of the cell, drawn towards what the coarser cells say.
func (x *cell) shrink(coarser, now int64) int64 {
	if x.count == 0 && x.running == 0 {
		return coarser
	}
	total := uint64(x.sum) + uint64(coarser) + x.exposure(now)
	hi, lo := bits.Mul64(total, oneJob)
	lo, carry := bits.Add64(lo, uint64(x.count+oneJob)/2, 0)
	// The divisor is 2^20 at least, and what is above the 64 bits less than that.
	mean, _ := bits.Div64(hi+carry, lo, uint64(x.count+oneJob))
	return int64(min(mean, mostSum))
}

// exposure returns for how long the attempts that run have done so, as much of it as counts.
// Those of a burst count always: what is left of it is what runs longest.
func (x *cell) exposure(now int64) uint64 {
	ran := uint64(min(max(x.running*now-x.starts, 0), mostSum))
	if x.key.Level == ofBurst {
		return ran
	}
	hi, lo := bits.Mul64(ran, uint64(warm-x.ended))
	part, _ := bits.Div64(hi, lo, warm)
	return part
}
