package exit

import (
	"errors"
	"io"

	"golang.org/x/sys/windows"
)

// This file detects a closed pipe on Windows.

// Closed reports whether an error means that the reader is gone. Windows has two such errors.
func Closed(err error) bool {
	return errors.Is(err, windows.ERROR_NO_DATA) || errors.Is(err, windows.ERROR_BROKEN_PIPE) ||
		errors.Is(err, io.ErrClosedPipe)
}
