package store

import (
	"errors"
	"time"
)

// This file owns what a database that several schedulers share says about its lease: which of them leads.

// ErrLed: the lease of another scheduler has not run out. The error around it names that scheduler.
var ErrLed = errors.New("somebody else leads")

// Leadership says which scheduler leads.
type Leadership struct {
	Holder string
	Epoch  uint64
	Left   time.Duration // of the lease; 0 where it has run out
}
