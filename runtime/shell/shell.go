// Package shell is what synapse-exec and its machine's agent say to each other on the socket of a task: the call of a
// command in another task of the same attempt, and what goes to and fro. It owns the form of it, and no more: who may
// call whom is decided by the leader.
package shell

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// SocketName is the socket, beside the program in the task's folder.
const SocketName = "socket"

// Kind names the content of a frame.
type Kind byte

// A caller's first frame is its Exec, the agent's last one its End.
const (
	Exec      Kind = 'c' // JSON, of a Command
	Stdin     Kind = 'i'
	StdinEnds Kind = 'e'
	Signal    Kind = 's' // one byte, its number
	Stdout    Kind = 'o'
	Stderr    Kind = 'r'
	End       Kind = 'q' // JSON, of a Result
)

// Command holds the called command.
type Command struct {
	Host string   `json:"host"`
	Args []string `json:"args"`
}

// Result is how it ended.
type Result struct {
	Code int    `json:"code"`
	Text string `json:"text,omitempty"` // why it was not run, or broke off
}

// PieceBytes is the most that a frame has.
const PieceBytes = 64 << 10

// Send writes one frame at once.
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

// Receive reads one. Its end between two frames is io.EOF.
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
