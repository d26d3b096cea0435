//go:build linux

package carapace

// What the two ends of a detour (detour.go) say to each other, over one socket: an order goes in, reports come out, and
// the end of the connection means the death of the other side. Both ends are the same binary, so the form may change at
// will.

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/yi-json/synapse/runtime/fault"
)

// order is all that the maker of a container needs to know. Paths are those of the machine, as seen before the root
// changes.
type order struct {
	Spec Spec `json:"spec"`
	// Base is an existing directory to mount upon.
	Base     string `json:"base"`
	Rootless bool   `json:"rootless,omitempty"`
	// Join are the files of cgroup v1 that the command writes itself into.
	Join []string `json:"join,omitempty"`
	// Leaf is the cgroup of v2 that the command is born in.
	Leaf string `json:"leaf,omitempty"`
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

// report holds one message of the starter: made, then run (by the starter), then started, then exited; or failed
// instead of one of them.
type report struct {
	Kind string `json:"kind"`
	// Pid is that of init, of a container that was made.
	Pid int `json:"pid,omitempty"`
	// Code, Step, Reason and Fault tell a failure.
	Code   int         `json:"code,omitempty"`
	Step   string      `json:"step,omitempty"`
	Reason string      `json:"reason,omitempty"`
	Fault  fault.Fault `json:"fault,omitempty"`
	// Status is the command's wait status, or init's where the command's end was not told.
	Status   uint32 `json:"status,omitempty"`
	ByItself bool   `json:"byItself,omitempty"`
	// Unenforced is what was found that cannot be done.
	Unenforced []string `json:"unenforced,omitempty"`
}

const (
	reportMade    = "made"
	reportRun     = "run"
	reportStarted = "started"
	reportFailed  = "failed"
	reportExited  = "exited"
)

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
