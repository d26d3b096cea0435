//go:build linux

// What Start and the container's init say to each other, over one socket: an order goes in, reports come out, and the end
// of the connection means the death of the other side. Both ends are the same binary, so the form may change at will.
package carapace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// order is all that init needs to know. Paths are the machine's, as seen before the root changes.
type order struct {
	Spec Spec `json:"spec"`
	// Base is an existing directory to mount upon.
	Base     string `json:"base"`
	Rootless bool   `json:"rootless,omitempty"`
	// Join are the files of cgroup v1 that the launching thread writes itself into.
	Join []string `json:"join,omitempty"`
	// Leaf is the cgroup of v2 that the command is born in.
	Leaf string `json:"leaf,omitempty"`
	// PidsFile takes the true limit of processes once the launching thread no longer needs room for itself.
	PidsFile string `json:"pidsFile,omitempty"`
	// Back is the file by which that thread leaves again; where it cannot be opened, the thread leaves by ending.
	Back string `json:"back,omitempty"`
	// Devices are the granted nodes to make, as they are on the machine.
	Devices []node `json:"devices,omitempty"`
	// Views are the cgroups to show at /sys/fs/cgroup: by controller on v1, the only one under "" on v2.
	Views map[string]string `json:"views,omitempty"`
}

// node is a device node to make: its path, its kind as a file mode, and its number.
type node struct {
	Path   string `json:"path"`
	Mode   uint32 `json:"mode"`
	Number uint64 `json:"number"`
}

// report is what init says: started, or failed, or exited; one of the three closes its life.
type report struct {
	Kind string `json:"kind"`
	// Code, Step and Reason tell a failure.
	Code   int    `json:"code,omitempty"`
	Step   string `json:"step,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Status is the command's wait status.
	Status uint32 `json:"status,omitempty"`
	// Unenforced is what init found it could not do.
	Unenforced []string `json:"unenforced,omitempty"`
}

const (
	reportStarted = "started"
	reportFailed  = "failed"
	reportExited  = "exited"
)

// channel is one end of the socket. It blocks a thread rather than going through Go's poller: on a busy machine each
// detour over another thread costs a turn in the queue for a processor.
type channel int

func (c channel) Read(into []byte) (int, error) {
	for {
		n, err := unix.Read(int(c), into)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return 0, os.ErrDeadlineExceeded
		case err == nil && n == 0:
			return 0, io.EOF
		}
		return max(n, 0), err
	}
}

func (c channel) Write(text []byte) (int, error) {
	for written := 0; written < len(text); {
		n, err := unix.SendmsgN(int(c), text[written:], nil, nil, unix.MSG_NOSIGNAL)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return written, os.ErrDeadlineExceeded
		case err != nil:
			return written, err
		}
		written += n
	}
	return len(text), nil
}

// bound limits how long one read or write may take; zero is for ever.
func (c channel) bound(limit time.Duration) error {
	value := unix.NsecToTimeval(limit.Nanoseconds())
	return errors.Join(unix.SetsockoptTimeval(int(c), unix.SOL_SOCKET, unix.SO_RCVTIMEO, &value),
		unix.SetsockoptTimeval(int(c), unix.SOL_SOCKET, unix.SO_SNDTIMEO, &value))
}

// send writes one message, ended by a line feed: JSON has none inside.
func send(to io.Writer, message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	_, err = to.Write(append(text, '\n'))
	return err
}

// receive reads one message. The other end is our own binary, but a bug there must not fill the memory here.
func receive(from *bufio.Reader, message any) error {
	var text []byte
	for {
		part, err := from.ReadSlice('\n')
		text = append(text, part...)
		if len(text) > 2*maxSpecBytes {
			return fmt.Errorf("message longer than %d bytes", 2*maxSpecBytes)
		}
		if err == nil {
			return json.Unmarshal(text, message)
		}
		if err != bufio.ErrBufferFull {
			return err
		}
	}
}
