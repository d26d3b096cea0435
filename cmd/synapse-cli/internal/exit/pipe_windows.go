package exit

import (
	"errors"
	"io"

	"golang.org/x/sys/windows"
)

// This file owns how Windows says that a reader is gone.

// Closed reports whether an error says that the reader is gone, for which Windows has two errors.
func Closed(err error) bool {
	return errors.Is(err, windows.ERROR_NO_DATA) || errors.Is(err, windows.ERROR_BROKEN_PIPE) ||
		errors.Is(err, io.ErrClosedPipe)
}
