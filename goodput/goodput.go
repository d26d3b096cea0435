// Package goodput accounts for all GPU time of a cluster. Each thousandth of each GPU is in exactly one class at every
// moment, from the time when its node joins until the node is removed. The package is pure: its caller passes the time
// and the state of each node.
//
// No class is computed as a remainder. The caller passes the amount of each class and, separately, the capacity of the
// node. Both are summed independently. If the classes of a node do not add up to its capacity, the input is
// inconsistent, and the complete node counts as broken.
package goodput

// This file has the classes and the sums.

// Class is the use of a GPU, or the reason why it is idle.
type Class uint8

// The classes.
const (
	Productive Class = iota // held by a gang that has passed its start barrier
	Starting                // reserved, or held by a gang that has not passed the barrier
	Stopping                // the gang has ended, and the exit of its tasks is not confirmed
	Lost                    // was productive, but the work was lost with the gang
	Kept                    // free, and reserved for a waiting job
	Wanted                  // free, and a waiting job could use its type
	Unwanted                // free, and no waiting job could use its type
	Broken                  // out of service because of a fault of the GPU or its node
	Closed                  // free, and an operator made its node unschedulable
	Classes
)

// Words has the names of the classes.
var Words = [Classes]string{
	"productive", "starting", "stopping", "lost", "kept", "idle_wanted", "idle_unwanted", "broken", "closed",
}

// Causes limits the numbers of the causes of lost work.
const Causes = 32

// Amounts are GPU time: thousandths of a GPU times milliseconds.
type Amounts struct {
	Of   [Classes]int64
	Lost [Causes]int64 // Of[Lost] by cause
	// Capacity is the GPU time that existed. It is not computed from the classes.
	Capacity int64
}

// Sum returns the sum of all classes.
func (a *Amounts) Sum() (sum int64) {
	for _, n := range a.Of {
		sum += n
	}
	return sum
}

// Plus adds b to a.
func (a *Amounts) Plus(b *Amounts) {
	for i := range b.Of {
		a.Of[i] += b.Of[i]
	}
	for i := range b.Lost {
		a.Lost[i] += b.Lost[i]
	}
	a.Capacity += b.Capacity
}

// Kind is the kind of subject of a row.
type Kind uint8

// The kinds. The rows of a day add up to the same sums in each kind. The row without a name has the time that belongs
// to no owner or queue.
const (
	Cluster Kind = iota
	Owners
	Queues
	Kinds
)

// The limits of the stored rows.
const (
	maxDays      = 400 // of the cluster
	maxNamedDays = 31  // of owners and queues
	maxNames     = 100 // names with separate rows per day: the first ones of the day
	// Rest is the name of the row for all other names.
	Rest = "*"
)

// dayMs is the length of a day. Days are in UTC.
const dayMs = 24 * 60 * 60 * 1000

// DayOf returns the day of a time.
func DayOf(ms int64) int64 { return ms / dayMs }

// Row is the GPU time of one day, of the cluster, an owner or a queue.
type Row struct {
	Kind Kind
	Day  int64 // days since 1970
	Name string
	Amounts
}

// key identifies a row.
type key struct {
	kind Kind
	day  int64
	name string
}

// openRow is a row that still grows if its day is the current one.
type openRow struct {
	rate     [Classes]int64 // GPUs in each class now, in thousandths
	capacity int64          // all GPUs now, in thousandths
	paid     int64          // the time up to which sum is complete
	sum      Amounts
}

// pay adds the time up to now to the sums.
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
