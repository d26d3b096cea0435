// Package shell defines the messages between synapse-exec and the node's agent on the socket of a task. They call a
// command in another task of the same attempt and carry its streams, or concern the task's own job. The leader decides
// which calls are permitted.
package shell

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// SocketName is the name of the socket, next to the helper program in the task's folder.
const SocketName = "socket"

// Kind names the content of a frame.
type Kind byte

// The caller's first frame is Exec or Own. The agent's last frame is End.
const (
	Exec      Kind = 'c' // a Command as JSON
	Own       Kind = 'j' // a verb for the task's own job, one of Verbs
	Stdin     Kind = 'i'
	StdinEnds Kind = 'e'
	Signal    Kind = 's' // its number in one byte
	Stdout    Kind = 'o'
	Stderr    Kind = 'r'
	End       Kind = 'q' // a Result as JSON
)

// Verbs lists what a task may request for its own job. The answer of each is End, and before it, for "show", lines
// NAME=value in Stdout.
var Verbs = []string{"show", "requeue", "requeue-hold", "cancel"}

// A task that has saved a checkpoint sends one line instead of frames, so that any program can do so without a library:
// the word Ack, the number of the request and the step. The agent answers with the line Acked, or with the word Refused
// and the reason.
const (
	Ack     = "ack"
	Acked   = "ok"
	Refused = "error:"
)

// MaxAck is the maximum number of bytes of the line.
const MaxAck = 64

// Command holds the called command.
type Command struct {
	Host string   `json:"host"`
	Args []string `json:"args"`
}

// Result describes how the command ended.
type Result struct {
	Code int    `json:"code"`
	Text string `json:"text,omitempty"` // why it did not run, or why the session broke off
}

// PieceBytes is the maximum size of a frame.
const PieceBytes = 64 << 10

// Send writes one frame with one write.
func Send(to io.Writer, kind Kind, body []byte) error {
	if len(body) > PieceBytes {
		return fmt.Errorf("a frame of %d bytes is too long", len(body))
	}
	frame := make([]byte, 5, 5+len(body))
	frame[0] = byte(kind)
	binary.BigEndian.PutUint32(frame[1:], uint32(len(body)))
	_, err := to.Write(append(frame, body...))
	return err
}

// Receive reads one frame. It returns io.EOF if the stream ends between two frames.
func Receive(from io.Reader) (Kind, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > PieceBytes {
		return 0, nil, fmt.Errorf("a frame of %d bytes is too long", n)
	}
	body := make([]byte, n)
	_, err := io.ReadFull(from, body)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return Kind(head[0]), body, err
}
