// Package exit defines the exit codes of the commands, and errors with a text and an optional hint for the user.
package exit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/clients/go/jobfile"
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

// Failure is an error with an exit code.
type Failure struct {
	Code int
	Text string   // empty: everything was already printed
	More []string // further lines
	Hint string
	// Problems lists the mistakes in a file. Text and More have them as lines.
	Problems jobfile.Problems
}

// Error returns the first line.
func (f *Failure) Error() string { return f.Text }

// With returns an error with an exit code and without a text.
func With(code int) error {
	if code == OK {
		return nil
	}
	return &Failure{Code: code}
}

// Usage returns an error for a wrong command line.
func Usage(format string, args ...any) error {
	return &Failure{Code: Misuse, Text: fmt.Sprintf(format, args...)}
}

// Hint returns an error for a wrong command line, with a hint.
func Hint(hint, format string, args ...any) error {
	return &Failure{Code: Misuse, Text: fmt.Sprintf(format, args...), Hint: hint}
}

// Words returns the text and the hint of an error.
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

// Code returns the exit code of an error.
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

// Failures collects the errors of several actions. The first error is returned at the end and defines the exit
// code.
type Failures struct {
	Tell  func(error) // called for all errors except the first
	First error
}

// Note adds an error, or nothing if err is nil.
func (f *Failures) Note(err error) {
	switch {
	case err == nil, Closed(err):
	case f.First == nil:
		f.First = err
	default:
		f.Tell(err)
	}
}
