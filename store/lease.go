package store

import (
	"errors"
	"time"
)

// This file owns the lease of a database that several schedulers share.

// ErrLed is returned if the lease of another scheduler has not expired. The error that wraps it names that scheduler.
var ErrLed = errors.New("another scheduler leads")

// Leadership names the leading scheduler.
type Leadership struct {
	Holder string
	Epoch  uint64
	Left   time.Duration // of the lease; 0: expired
}
