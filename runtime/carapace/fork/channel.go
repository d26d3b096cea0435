//go:build linux

package fork

// This file reads and writes the socket between a process and its starter.

import (
	"io"

	"golang.org/x/sys/unix"
)

// Channel is one end of a socket. It blocks the thread instead of using Go's poller. On a busy host, each switch to
// another thread waits for a processor.
type Channel int

func (c Channel) Read(into []byte) (int, error) {
	for {
		n, err := unix.Read(int(c), into)
		switch {
		case err == unix.EINTR:
			continue
		case err == nil && n == 0:
			return 0, io.EOF
		}
		return max(n, 0), err
	}
}

func (c Channel) Write(text []byte) (int, error) {
	for written := 0; written < len(text); {
		n, err := unix.SendmsgN(int(c), text[written:], nil, nil, unix.MSG_NOSIGNAL)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return written, err
		}
		written += n
	}
	return len(text), nil
}
