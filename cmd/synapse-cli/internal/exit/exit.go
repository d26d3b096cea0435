// Package exit has the exit codes of the commands, and errors with their words for people: a line, and a hint where
// there is one.
package exit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/messages"
)

// The exit codes.
const (
	OK          = 0
	Failed      = 1
	Misuse      = 2
	NotFound    = 3
	Conflict    = 4
	NotAllowed  = 5
	TimedOut    = 6
	Infeasible  = 7
	NotRun      = 125
	Unavailable = 8
	Interrupted = 130 // 128 + SIGINT
)

// Failure is an error of this program, with its exit code.
type Failure struct {
	Code int
	Text string   // empty: all has been said
	More []string // further lines
	Hint string
}

// Error is its first line.
func (f *Failure) Error() string { return f.Text }

// With ends with a code and without a text.
func With(code int) error {
	if code == OK {
		return nil
	}
	return &Failure{Code: code}
}

// Usage refuses a command line.
func Usage(format string, args ...any) error {
	return &Failure{Code: Misuse, Text: fmt.Sprintf(format, args...)}
}

// Hint refuses a command line, and says what to do.
func Hint(hint, format string, args ...any) error {
	return &Failure{Code: Misuse, Text: fmt.Sprintf(format, args...), Hint: hint}
}

// Words are what an error says to people.
func Words(err error) (text, hint string) {
	var f *Failure
	var e *client.Error
	switch {
	case errors.As(err, &f):
		return f.Text, f.Hint
	case errors.As(err, &e):
		return err.Error(), messages.OneLine(e.Hint)
	case errors.Is(err, context.DeadlineExceeded):
		return "timed out", ""
	}
	return strings.Join(strings.Fields(err.Error()), " "), ""
}

// Code is the exit code of an error.
func Code(err error) int {
	var f *Failure
	if errors.As(err, &f) {
		return f.Code
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return TimedOut
	}
	var e *client.Error
	if !errors.As(err, &e) {
		return Failed
	}
	if e.TimedOut {
		return TimedOut
	}
	return map[messages.Code]int{
		messages.Code_CODE_INVALID:     Misuse,
		messages.Code_CODE_NOT_FOUND:   NotFound,
		messages.Code_CODE_CONFLICT:    Conflict,
		messages.Code_CODE_NOT_ALLOWED: NotAllowed,
		messages.Code_CODE_INFEASIBLE:  Infeasible,
		messages.Code_CODE_UNAVAILABLE: Unavailable,
		messages.Code_CODE_EXHAUSTED:   Unavailable,
		messages.Code_CODE_UNSPECIFIED: Failed,
	}[e.Code]
}

// Failures reports what failed of several actions. The first failure gives the exit code and is reported at the end.
type Failures struct {
	Tell  func(error) // of each but the first
	First error
}

// Note takes an error, or none.
func (f *Failures) Note(err error) {
	switch {
	case err == nil, Closed(err):
	case f.First == nil:
		f.First = err
	default:
		f.Tell(err)
	}
}
