//go:build unix

package exit

import (
	"errors"
	"io"
	"syscall"
)

// This file detects a closed pipe on Unix.

// Closed reports whether an error means that the reader is gone.
func Closed(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}
