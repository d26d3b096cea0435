//go:build linux

package carapace

// This file defines the messages between the two processes of a detour (detour.go). An order goes in, and reports come
// out, over one socket. The end of the connection means that the other process has died. Both processes run the same
// binary, so the format may change in any version.

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/yi-json/synapse/runtime/fault"
)

// order holds all inputs for the maker of a container. Paths are host paths, as seen before the root changes.
type order struct {
	Spec Spec `json:"spec"`
	// Base is an existing directory to mount on.
	Base     string `json:"base"`
	Rootless bool   `json:"rootless,omitempty"`
	// Join lists the files of cgroup v1 that the command writes itself into.
	Join []string `json:"join,omitempty"`
	// Leaf is the cgroup of v2 in which the command is created.
	Leaf string `json:"leaf,omitempty"`
	// Devices lists the granted device nodes.
	Devices []node `json:"devices,omitempty"`
	// Views lists the cgroups to show at /sys/fs/cgroup: by controller on v1, under "" on v2.
	Views map[string]string `json:"views,omitempty"`
}

// node is a device node to make: its path, its kind as a file mode, and its number.
type node struct {
	Path   string `json:"path"`
	Mode   uint32 `json:"mode"`
	Number uint64 `json:"number"`
}

// report holds one message of the second process. The order is made, run (sent by the starter), started, exited. A
// failure replaces one of them.
type report struct {
	Kind string `json:"kind"`
	// Pid is the pid of init of the container that was made.
	Pid int `json:"pid,omitempty"`
	// Code, Step, Reason and Fault describe a failure.
	Code   int         `json:"code,omitempty"`
	Step   string      `json:"step,omitempty"`
	Reason string      `json:"reason,omitempty"`
	Fault  fault.Fault `json:"fault,omitempty"`
	// Status is the command's wait status. It is init's status if the command's end is unknown.
	Status   uint32 `json:"status,omitempty"`
	ByItself bool   `json:"byItself,omitempty"`
	// Unenforced lists the requests that cannot be enforced.
	Unenforced []string `json:"unenforced,omitempty"`
}

const (
	reportMade    = "made"
	reportRun     = "run"
	reportStarted = "started"
	reportFailed  = "failed"
	reportExited  = "exited"
)

// send writes one message and a line feed. JSON contains no line feed.
func send(to io.Writer, message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	_, err = to.Write(append(text, '\n'))
	return err
}

// receive reads one message. The sender runs the same binary, but the limit protects this process from its bugs.
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
