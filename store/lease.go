package store

import (
	"errors"
	"time"
)

// This file owns the words about a lease: how a database that several schedulers
// share says which of them leads.

// ErrLed: somebody else's lease has not run out. The error around it says whose.
var ErrLed = errors.New("somebody else leads")

// Leadership is who leads.
type Leadership struct {
	Holder string
	Epoch  uint64
	Left   time.Duration // of the lease; 0 where it has run out
}
