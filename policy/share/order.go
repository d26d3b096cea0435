package share

// This file owns the orders in which jobs have their turn.

// Order says which job goes first of those of one priority.
type Order uint8

const (
	// FIFO: the one that came first. What comes behind it starts where there is room, and none is kept.
	FIFO Order = iota
	// Expected: the one that is expected to need the least. The planner looks ahead.
	Expected
	// Fair: the one whose owner has used least of late; of one owner's, as Expected. It is an order inside a queue.
	Fair
)

// String returns the word of the configuration file.
func (o Order) String() string { return [...]string{"fifo", "expected", "fair"}[o] }
