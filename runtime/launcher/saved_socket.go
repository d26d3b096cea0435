package launcher

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/file"
	"github.com/yi-json/synapse/runtime/progress"
	"github.com/yi-json/synapse/runtime/shell"
)

// This file accepts acknowledgements of saved checkpoints on the socket of the task. The socket proves which task sends
// them. They are written to the task's directory, which only the agent can change, so they outlive the agent. From
// there on they are like the lines of an acknowledgement file (saved.go).

const heardName = "saved" // in the task's directory

var errNoSocket = errors.New("the task has no socket on this node, so it cannot acknowledge (checkpoint.ack: socket)" +
	"; use ack: file")

func (t *task) savesBySocket() bool {
	return t.Spec.GetCheckpoint().GetAck() == messages.SaveAck_SAVE_ACK_SOCKET
}

// hearSaved serves a connection whose first byte was that of an acknowledgement.
func (t *task) hearSaved(conn *net.UnixConn) {
	line, err := restOfLine(conn)
	switch {
	case err != nil:
	case !t.isOurs(conn):
		err = errOthers
	case !t.ask(func() { err = t.acknowledge(shell.Ack[:1] + line) }): // after the request that is on its way
		return
	}
	if err == nil {
		fmt.Fprintln(conn, shell.Acked)
		t.followSaved()
		return
	}
	fmt.Fprintln(conn, shell.Refused, messages.AsText(err.Error()))
}

// restOfLine reads byte by byte, because the sender may leave the connection open after the line.
func restOfLine(from io.Reader) (string, error) {
	var line []byte
	for b := make([]byte, 1); len(line) < shell.MaxAck; line = append(line, b[0]) {
		if _, err := io.ReadFull(from, b); err != nil {
			return "", fmt.Errorf("the line has no end: %w", err)
		}
		if b[0] == '\n' {
			return string(line), nil
		}
	}
	return "", fmt.Errorf("the line is longer than %d bytes", shell.MaxAck)
}

// acknowledge records one line of the task.
func (t *task) acknowledge(line string) error {
	request, step, err := parseAck(line)
	s := &t.progress.saves
	s.mu.Lock()
	defer s.mu.Unlock()
	switch _, asked := os.Lstat(Notice(t.Scratch)); {
	case err != nil:
		return err
	case !t.savesBySocket():
		return errors.New("the job does not acknowledge by its socket: set `ack: socket` in `checkpoint`")
	case t.phase != phaseRunning || s.request == 0 && asked != nil: // a new agent may not know the request yet
		return errors.New("no request to save is open")
	case s.lines >= mostSaved:
		return fmt.Errorf("the task has already sent %d acknowledgements for this request", mostSaved)
	}
	s.lines++
	if s.request != 0 && request != s.request {
		t.l.send(t.to, &messages.TaskSaved{Id: messages.ToTaskID(t.Key), Saved: &messages.RankSaved{
			Rank: int32(t.Key.Rank), Request: request, Steps: []int64{step},
		}}) // it is only counted
		return fmt.Errorf("request %d is not open; the open request is %d", request, s.request)
	}
	return t.writeHeard(request, step)
}

// parseAck parses the line of a task.
func parseAck(line string) (request uint64, step int64, err error) {
	words := strings.Fields(line)
	if len(words) != 3 || words[0] != shell.Ack {
		return 0, 0, fmt.Errorf("%q is not an acknowledgement: write `%s REQUEST STEP`", line, shell.Ack)
	}
	request, err = strconv.ParseUint(words[1], 10, 64)
	if err != nil || request == 0 {
		return 0, 0, fmt.Errorf("%q is not a request: use the number in $SYNAPSE_NOTICE", words[1])
	}
	step, err = strconv.ParseInt(words[2], 10, 64)
	if err != nil || step < 0 || step > messages.MaxSteps {
		return 0, 0, fmt.Errorf("%q is not a step: use a whole number from 0 to %d", words[2], int64(messages.MaxSteps))
	}
	return request, step, nil
}

// writeHeard adds a step to the steps of a request. It drops those of other requests.
func (t *task) writeHeard(request uint64, step int64) error {
	steps, err := t.readHeard(request)
	var text []byte
	for _, n := range append(steps, step) {
		text = fmt.Appendf(text, "%d %d\n", request, n)
	}
	if err == nil {
		err = file.Replace(filepath.Join(t.home, heardName), text)
	}
	if err != nil {
		return fmt.Errorf("the node cannot record the acknowledgement: %w", err)
	}
	return nil
}

// readHeard returns the recorded steps of a request.
func (t *task) readHeard(request uint64) ([]int64, error) {
	text, err := os.ReadFile(filepath.Join(t.home, heardName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return progress.SavedSteps(text, request), nil
}
