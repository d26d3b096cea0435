package client

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file formats the errors of failed calls.

// Error describes a failed call in one line, with a hint about the fix.
type Error struct {
	Code     messages.Code // UNSPECIFIED for a fault of the server
	TimedOut bool
	Text     string
	Hint     string

	Scope bool // array elements were refused, and the command changes nothing
	moved bool // the server named another scheduler
}

// Error returns the text without the hint. Programs print the hint on a separate line.
func (e *Error) Error() string { return e.Text }

// explain converts an error of gRPC into an *Error. If the caller's context has ended, explain returns the
// context's error.
func (s *server) explain(caller context.Context, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	if caller.Err() != nil {
		return caller.Err()
	}
	said, _ := status.FromError(err)
	outcome := api.OutcomeOf(err)
	for _, detail := range said.Details() {
		if _, is := detail.(*messages.Outcome); is {
			return &Error{Code: outcome.GetCode(), Text: textOf(outcome), Hint: outcome.GetHint()}
		}
	}
	e := &Error{Code: outcome.GetCode(), Text: oneLine(said.Message())}
	switch said.Code() {
	case codes.Unavailable:
		if why := s.stale.Load(); why != nil {
			return asError(*why)
		}
		if r := s.refused.Load(); r != nil {
			return &Error{
				Code: messages.Code_CODE_NOT_ALLOWED, Text: "scheduler at " + s.address + ": " + oneLine(r.Error()),
				Hint: "log in with `synapse-cli login`, or set --tls or SYNAPSE_TLS to the folder of a user " +
					"certificate (see `synapse-cli init --help`)",
			}
		}
		e.Text, e.Hint = s.unreachable()
	case codes.DeadlineExceeded:
		e.TimedOut = true
		e.Text, e.Hint = "scheduler at "+s.address+" did not answer in time",
			"try again: the scheduler may be busy or taking over"
	case codes.Unimplemented:
		e.Text, e.Hint = "scheduler at "+s.address+" does not support this request",
			"run `synapse-cli version` to compare the versions"
	case codes.Internal, codes.Unknown, codes.DataLoss:
		e.Text, e.Hint = "scheduler at "+s.address+" failed: "+e.Text, "read the scheduler's log"
	}
	return e
}

// denied returns the permanent reason why there is no token to send, or nil.
func (s *server) denied() error {
	why := s.stale.Load()
	if why == nil || Lost(asError(*why)) {
		return nil
	}
	return *why
}

// asError returns the *Error in err, or makes one from the text of err.
func asError(err error) error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: messages.Code_CODE_INVALID, Text: oneLine(err.Error()),
		Hint: "run `synapse-cli contexts` for a list"}
}

// flagOf maps a field of the API to its flag. An empty flag means that the error text is complete without a
// name.
var flagOf = map[string]string{
	"request_id": "--request-id", "reason": "--reason", "deadline_ms": "--deadline", "ranks": "--rank",
	"time_limit_ms": "--time-limit", "priority": "--priority", "labels": "--label", "tail_bytes": "--tail-bytes",
	"tail_lines": "--tail", "owner": "--owner", "queue": "--queue", "name": "--name", "states": "--state",
	"since_unix_ms": "--since", "until_unix_ms": "--until", "begin_unix_ms": "--begin", "deadline_unix_ms": "--deadline",
	"array_most": "--array-max-running", "give_to": "--owner",
	"job": "", "node": "", "previous": "", "spec.gang": "",
}

// textOf returns the text of an outcome without its hint, in the units of the command line. It includes the
// name of the field if the name helps the user.
func textOf(o *messages.Outcome) string {
	field, text := messages.OneLine(o.GetField()), oneLine(jobfile.InUnits(o.GetField(), o.GetText()))
	whole, _, _ := strings.Cut(field, "[") // for an entry of a list, the flag of the list
	if flag, known := flagOf[whole]; known {
		field = flag
	}
	if field == "" || strings.HasPrefix(text, "unknown ") {
		return text
	}
	return field + ": " + text
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

const reachHint = "check that the scheduler is running and that --server or SYNAPSE_SERVER is correct; `synapse-cli " +
	"up` starts a local cluster"

// refuses reports whether the host of the server answers but no program listens on the port.
func (s *server) refuses() bool {
	last := s.dialed.Load()
	return last != nil && nobodyListens(*last)
}

// winsockRefused is the error number of Windows for a refused connection. Go's syscall.ECONNREFUSED has
// another value there.
const winsockRefused = syscall.Errno(10061)

func nobodyListens(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, winsockRefused)
}

// unreachable explains why the server is unreachable, with the cause from the dialer.
func (s *server) unreachable() (text, hint string) {
	text = "cannot reach the scheduler at " + s.address
	last := s.dialed.Load()
	if last == nil || *last == nil {
		return text + ": the connection was closed, or the program there is not a scheduler", reachHint
	}
	var dns *net.DNSError
	err := *last
	var op *net.OpError
	plain := err
	if errors.As(err, &op) && op.Err != nil {
		plain = op.Err
	}
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return text + ": unknown host", "correct --server or SYNAPSE_SERVER"
	case s.local():
		return text + ": " + oneLine(plain.Error()),
			"use --server HOST:PORT with --tls or a token: only root and the scheduler's user can use the socket"
	case nobodyListens(err):
		return text + ": connection refused", reachHint
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return text + ": no answer", "check for a firewall"
	default:
		return text + ": " + oneLine(plain.Error()), reachHint
	}
}

// Is reports whether an error is a scheduler's answer with this code.
func Is(err error, code messages.Code) bool {
	e := (*Error)(nil)
	if errors.As(err, &e) {
		return !e.TimedOut && e.Code == code
	}
	return inProcess(err, code)
}

// inProcess reports whether an error of a call inside the scheduler's process has this code. Such an error is gRPC's.
func inProcess(err error, code messages.Code) bool {
	said, is := status.FromError(err)
	return err != nil && is && said.Code() != codes.DeadlineExceeded && api.OutcomeOf(err).GetCode() == code
}
