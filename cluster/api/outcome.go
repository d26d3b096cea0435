// Package api is the client API: the generated calls of Synapse, and what a
// client or a gateway needs beside them.
package api

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/messages"
)

// This file owns how an Outcome travels: as a gRPC status, with the Outcome
// itself as the status's detail. Each code has a gRPC code of its own, so that
// a client learns what went wrong even where a proxy has dropped the detail.

// MaxReplyBytes is what an answer may weigh: a gang of the largest size, with
// the exact devices of every rank. What comes in is bounded by
// messages.MaxMessageBytes.
const MaxReplyBytes = 64 << 20

// LeaderTrailer is where a scheduler that does not lead says who does.
const LeaderTrailer = "synapse-leader"

// statusCodes leads from ours to gRPC's. CONFLICT is AlreadyExists and not
// FailedPrecondition, which INFEASIBLE needs.
var statusCodes = map[messages.Code]codes.Code{
	messages.Code_CODE_INVALID:     codes.InvalidArgument,
	messages.Code_CODE_NOT_FOUND:   codes.NotFound,
	messages.Code_CODE_CONFLICT:    codes.AlreadyExists,
	messages.Code_CODE_NOT_ALLOWED: codes.PermissionDenied,
	messages.Code_CODE_INFEASIBLE:  codes.FailedPrecondition,
	messages.Code_CODE_UNAVAILABLE: codes.Unavailable,
	messages.Code_CODE_EXHAUSTED:   codes.ResourceExhausted,
}

// outcomeCodes leads back. Below them stand the codes that gRPC itself answers
// with. What is not in here is a fault of the server or of the way to it.
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

// StatusOf is the error that an outcome is; nil where all went well.
func StatusOf(o *messages.Outcome) error {
	if o.GetCode() == messages.Code_CODE_OK {
		return nil
	}
	code, known := statusCodes[o.GetCode()]
	if !known {
		code = codes.Unknown
	}
	s := status.New(code, sentence(o))
	if detailed, err := s.WithDetails(o); err == nil {
		s = detailed
	}
	return s.Err()
}

// sentence is an outcome for those who read only a status's message.
func sentence(o *messages.Outcome) string {
	refusal := messages.FieldError{Field: o.GetField(), Text: o.GetText(), Hint: o.GetHint()}
	return refusal.Error()
}

// OutcomeOf is what an error of a call says. Its code is UNSPECIFIED where it
// says nothing that people could act on: a deadline, a fault of the server. It
// is nil for no error.
func OutcomeOf(err error) *messages.Outcome {
	if err == nil {
		return nil
	}
	s, _ := status.FromError(err)
	for _, detail := range s.Details() {
		if o, is := detail.(*messages.Outcome); is {
			return o
		}
	}
	return &messages.Outcome{Code: outcomeCodes[s.Code()], Text: s.Message()}
}
