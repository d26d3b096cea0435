// Package goodput counts where the GPU time of a cluster goes: every thousandth of every GPU is in exactly one class at
// every moment, from the moment at which its machine joins until it is removed. It is pure: its caller knows the time
// and what each machine has, and passes both in.
//
// No class is computed as what the others leave. What a machine has is passed in class by class, its capacity beside
// that, and both are summed apart: a machine whose classes do not make up its capacity cannot be believed, and counts
// as broken as a whole.
package goodput

// This file owns the classes, and the sums.

// Class says what a GPU does, or why it is idle.
type Class uint8

// The classes.
const (
	Productive Class = iota // a gang that has passed its start barrier has it
	Starting                // it is reserved, or its gang is not past the barrier yet
	Stopping                // its gang has ended, and evidence is missing that nothing of it runs
	Lost                    // it was productive, and what it did was lost with its gang
	Kept                    // it is free, and kept for a promise
	Wanted                  // it is free, and some job waits that could use its type
	Unwanted                // it is free, and none does
	Broken                  // it, or its machine, is out of service by a fault
	Closed                  // it is free, and people closed its machine
	Classes
)

// Words name the classes.
var Words = [Classes]string{
	"productive", "starting", "stopping", "lost", "kept", "idle_wanted", "idle_unwanted", "broken", "closed",
}

// Causes bounds the numbers of the causes by which work is lost.
const Causes = 32

// Amounts are GPUs times time, in thousandths of a GPU times milliseconds.
type Amounts struct {
	Of   [Classes]int64
	Lost [Causes]int64 // Of[Lost] by cause
	// Capacity is what there was. It is not computed from the classes.
	Capacity int64
}

// Sum is that of all classes.
func (a *Amounts) Sum() (sum int64) {
	for _, n := range a.Of {
		sum += n
	}
	return sum
}

// Plus adds.
func (a *Amounts) Plus(b *Amounts) {
	for i := range b.Of {
		a.Of[i] += b.Of[i]
	}
	for i := range b.Lost {
		a.Lost[i] += b.Lost[i]
	}
	a.Capacity += b.Capacity
}

// Kind says of whom sums are.
type Kind uint8

// The kinds. The sums of a day are the same in each: what no owner, or no queue, has is in the row without a name.
const (
	Cluster Kind = iota
	Owners
	Queues
	Kinds
)

// The bounds on what is kept.
const (
	maxDays      = 400 // of the cluster
	maxNamedDays = 31  // of owners and queues
	maxNames     = 100 // that are told apart in a day: those that came first
	// Rest names the row of all others.
	Rest = "*"
)

// dayMs is a day: all of them are in UTC.
const dayMs = 24 * 60 * 60 * 1000

// DayOf is the day of a time.
func DayOf(ms int64) int64 { return ms / dayMs }

// Row is where the GPU time of a day went, of the cluster, an owner or a queue.
type Row struct {
	Kind Kind
	Day  int64 // since 1970
	Name string
	Amounts
}

// key names a row.
type key struct {
	kind Kind
	day  int64
	name string
}

// openRow grows while its day is the present one.
type openRow struct {
	rate     [Classes]int64 // GPUs in each class now, in thousandths
	capacity int64          // GPUs that there are
	paid     int64          // up to when it is summed
	sum      Amounts
}

// pay sums up to now.
func (r *openRow) pay(now int64) {
	ms := now - r.paid
	if ms <= 0 {
		return
	}
	r.paid = now
	for i, rate := range r.rate {
		r.sum.Of[i] += rate * ms
	}
	r.sum.Capacity += r.capacity * ms
}
