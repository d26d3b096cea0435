// Package api has the generated calls of the client API, and what a client or a gateway needs beside them.
package api

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/messages"
)

// This file owns how an Outcome travels: as a gRPC status, with the Outcome
// itself as the status's detail. Each code has a gRPC code of its own, so that
// a client learns what went wrong even where a proxy has dropped the detail.

// MaxReplyBytes bounds an answer: a gang of the largest size, with the exact devices of every rank, is shorter.
// messages.MaxMessageBytes bounds what comes in.
const MaxReplyBytes = 64 << 20

// LeaderTrailer is the trailer in which a scheduler that does not lead names the one that does.
const LeaderTrailer = "synapse-leader"

// RetryAfterTrailer is the trailer that says, in whole seconds, when a client that was refused for asking too much may
// come again.
const RetryAfterTrailer = "retry-after"

// statusCodes maps our codes to gRPC's. CONFLICT is AlreadyExists and not FailedPrecondition, which INFEASIBLE needs.
var statusCodes = map[messages.Code]codes.Code{
	messages.Code_CODE_INVALID:     codes.InvalidArgument,
	messages.Code_CODE_NOT_FOUND:   codes.NotFound,
	messages.Code_CODE_CONFLICT:    codes.AlreadyExists,
	messages.Code_CODE_NOT_ALLOWED: codes.PermissionDenied,
	messages.Code_CODE_INFEASIBLE:  codes.FailedPrecondition,
	messages.Code_CODE_UNAVAILABLE: codes.Unavailable,
	messages.Code_CODE_EXHAUSTED:   codes.ResourceExhausted,
}

// outcomeCodes maps back; the last ones are codes with which gRPC itself answers. A code that is not here is a fault of
// the server or of the way to it.
var outcomeCodes = map[codes.Code]messages.Code{
	codes.InvalidArgument:    messages.Code_CODE_INVALID,
	codes.NotFound:           messages.Code_CODE_NOT_FOUND,
	codes.AlreadyExists:      messages.Code_CODE_CONFLICT,
	codes.PermissionDenied:   messages.Code_CODE_NOT_ALLOWED,
	codes.FailedPrecondition: messages.Code_CODE_INFEASIBLE,
	codes.Unavailable:        messages.Code_CODE_UNAVAILABLE,
	codes.ResourceExhausted:  messages.Code_CODE_EXHAUSTED,

	codes.Unauthenticated: messages.Code_CODE_NOT_ALLOWED,
}

// StatusOf is an outcome as an error; nil if all went well.
func StatusOf(o *messages.Outcome) error {
	if o.GetCode() == messages.Code_CODE_OK {
		return nil
	}
	code, ok := statusCodes[o.GetCode()]
	if !ok {
		code = codes.Unknown
	}
	s := status.New(code, sentence(o))
	if detailed, err := s.WithDetails(o); err == nil {
		s = detailed
	}
	return s.Err()
}

// sentence is an outcome in one sentence, for clients that read only a status's message.
func sentence(o *messages.Outcome) string {
	refusal := messages.FieldError{Field: o.GetField(), Text: o.GetText(), Hint: o.GetHint()}
	return refusal.Error()
}

// OutcomeOf returns the outcome in an error of a call. Its code is UNSPECIFIED if it says nothing that people could act
// on: a deadline, a fault of the server. It is nil for no error.
func OutcomeOf(err error) *messages.Outcome {
	if err == nil {
		return nil
	}
	s, _ := status.FromError(err)
	for _, detail := range s.Details() {
		if o, ok := detail.(*messages.Outcome); ok {
			return o
		}
	}
	return &messages.Outcome{Code: outcomeCodes[s.Code()], Text: s.Message()}
}
