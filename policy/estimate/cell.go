package estimate

// This file has one cell: the known run times of one kind of jobs. It uses only integers. Floating-point results differ
// between processors, for example by fused multiply-add, so the next leader could compute other estimates.
//
// A duration is in ticks of 0.1 ms. The sum of a million jobs of ten years, as many running jobs, and the values of
// coarser cells then fit into 64 bits. The rounding error of an estimate is below a millisecond. A count is in units of
// 2^-20.

import "math/bits"

const (
	tick    = 100_000 // ns
	oneJob  = 1 << 20
	mostSum = 1 << 62 // in ticks; the sum of two of them and a third still fits into an unsigned word

	// warm is the number of finished jobs after which running jobs no longer count in a cell. As long as only short
	// jobs have finished, the longer running ones show that short jobs are not typical. Counting running jobs
	// without limit would be wrong, because their sum is always large in a steady flow of jobs.
	warm = 50
)

func ticksOf(ns int64) int64 { return ns / tick }

// cell holds what is known of one kind of jobs.
type cell struct {
	key CellKey
	// count and sum are the number and the sum of the learned run times, with older ones decayed.
	count, sum int64
	ended      int64 // number of learned run times without decay, at most warm
	running    int64 // attempts that have begun
	starts     int64 // sum of their begin times: exposure is running · now − starts
	lines      int64 // number of lines that hold the cell
	worth      int64 // the cell with the least worth is evicted first: see Cells.learn
	at         int   // index among the cells with learned run times, or -1
}

func (x *cell) begin(at int64) {
	x.running++
	x.starts += ticksOf(at)
}

func (x *cell) end(began int64) {
	x.running--
	x.starts -= ticksOf(began)
}

// learn adds one run time.
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
	// The divisor is at least 2^20, and the upper word is smaller.
	mean, _ := bits.Div64(hi+carry, lo, uint64(x.count+oneJob))
	return int64(min(mean, mostSum))
}

// exposure returns the run time of the running attempts, as far as it counts. In the cell of a burst it counts
// completely, because the remaining jobs of a burst are the longest.
func (x *cell) exposure(now int64) uint64 {
	ran := uint64(min(max(x.running*now-x.starts, 0), mostSum))
	if x.key.Level == ofBurst {
		return ran
	}
	hi, lo := bits.Mul64(ran, uint64(warm-x.ended))
	part, _ := bits.Div64(hi, lo, warm)
	return part
}
