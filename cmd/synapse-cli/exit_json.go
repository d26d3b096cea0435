package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
)

// This file owns errors as JSON, for programs that request -o json.

// errorObject is an error on stderr.
type errorObject struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	ExitCode   int             `json:"exitCode"`
	Message    string          `json:"message"`
	Hint       string          `json:"hint,omitempty"`
	Details    []string        `json:"details,omitempty"`
	Problems   []problemObject `json:"problems,omitempty"`
}

// problemObject is a mistake in a job file or in a flag.
type problemObject struct {
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// endAsJSON prints an error as an object, and returns the exit code.
func (a *app) endAsJSON(err error) int {
	o := errorObject{APIVersion: "synapse/v1", Kind: "Error", ExitCode: exit.Code(err)}
	var problems jobfile.Problems
	var failure *exit.Failure
	switch {
	case errors.As(err, &problems):
		o.ExitCode, o.Message = exit.Misuse, strings.Join(problems.Lines(""), "; ")
	case errors.Is(err, context.Canceled):
		return exit.Interrupted
	default:
		o.Message, o.Hint = exit.Words(err)
	}
	if errors.As(err, &failure) {
		o.Details, problems = failure.More, failure.Problems
	}
	for _, p := range problems {
		o.Problems = append(o.Problems, problemObject{p.Line, p.Column, p.Path, p.Text, p.Hint})
	}
	if o.Message == "" && len(o.Problems) == 0 {
		return o.ExitCode // everything was already printed, for example how the job ended
	}
	if writeErr := show.Object(a.errs, "json", o); writeErr != nil {
		return exit.Failed
	}
	return o.ExitCode
}

// errorsAsAsked sets the format of errors for a command line that could not be parsed. The parser stops at the first
// wrong flag, so -o json may follow that flag.
func (a *app) errorsAsAsked(args []string) {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	for i, word := range args {
		separate := (word == "-o" || word == "--output") && i+1 < len(args) && args[i+1] == "json"
		if separate || word == "-ojson" || word == "-o=json" || word == "--output=json" {
			a.style.Format = "json"
		}
	}
}
