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

// This file owns how a failed call reads.

// Error is why a call failed: one line, and what to do about it.
type Error struct {
	Code     messages.Code // UNSPECIFIED where the fault is the server's
	TimedOut bool
	Text     string
	Hint     string

	Scope bool // elements of an array are refused: a command that meets it changes nothing
	moved bool // another scheduler was named instead
}

// Error is the text alone; the hint is shown on a line of its own.
func (e *Error) Error() string { return e.Text }

// explain turns what gRPC says into an *Error. What the caller's own context
// ended stays the context's error.
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

// denied is why there is no token to show, and will be none.
func (s *server) denied() error {
	why := s.stale.Load()
	if why == nil || Lost(asError(*why)) {
		return nil
	}
	return *why
}

// asError is an error in our own words, or one that says those of somebody else.
func asError(err error) error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: messages.Code_CODE_INVALID, Text: oneLine(err.Error()),
		Hint: "run `synapse-cli contexts` for a list"}
}

// flagOf maps a field of the API to its flag; empty: the text of the refusal is complete without it.
var flagOf = map[string]string{
	"request_id": "--request-id", "reason": "--reason", "deadline_ms": "--deadline", "ranks": "--rank",
	"time_limit_ms": "--time-limit", "priority": "--priority", "labels": "--label", "tail_bytes": "--tail-bytes",
	"tail_lines": "--tail", "owner": "--owner", "queue": "--queue", "name": "--name", "states": "--state",
	"since_unix_ms": "--since", "until_unix_ms": "--until", "begin_unix_ms": "--begin",
	"array_most": "--array-max-running", "give_to": "--owner",
	"job": "", "node": "", "previous": "", "spec.gang": "",
}

// textOf is an outcome without its hint, in the units of the command line. The field is named where it tells the user
// something.
func textOf(o *messages.Outcome) string {
	field, text := messages.OneLine(o.GetField()), oneLine(jobfile.InUnits(o.GetField(), o.GetText()))
	whole, _, _ := strings.Cut(field, "[") // of a list, the flag is of each entry
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

// refuses reports whether the machine is there and nothing listens on it now.
func (s *server) refuses() bool {
	last := s.dialed.Load()
	return last != nil && nobodyListens(*last)
}

// winsockRefused is how Windows says that nobody listens there; its syscall.ECONNREFUSED is a number that Go made up.
const winsockRefused = syscall.Errno(10061)

func nobodyListens(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, winsockRefused)
}

// unreachable says why the server is not there, in the words of the dialer.
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

// Is reports whether an error is a scheduler's answer with a code.
func Is(err error, code messages.Code) bool {
	e := (*Error)(nil)
	return errors.As(err, &e) && !e.TimedOut && e.Code == code
}
