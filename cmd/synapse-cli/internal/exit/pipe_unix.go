//go:build unix

package exit

import (
	"errors"
	"io"
	"syscall"
)

// This file owns how the Unix systems say that a reader is gone.

// Closed reports whether an error says that the reader is gone.
func Closed(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}
