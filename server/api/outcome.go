// Package api contains the generated code of the client API, and helpers for clients and gateways.
package api

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/messages"
)

// This file converts an Outcome to a gRPC status and back. The status contains the Outcome as a detail. Each code
// of an Outcome has its own gRPC code, so that clients get the code even if a proxy removes the detail.

// MaxReplyBytes limits the size of a reply. A gang of the largest size, with the exact devices of every rank, fits.
// messages.MaxMessageBytes limits the size of a request.
const MaxReplyBytes = 64 << 20

// LeaderTrailer is the trailer in which a standby scheduler names the leader.
const LeaderTrailer = "synapse-leader"

// RetryAfterTrailer is the trailer with the number of seconds after which a client may retry a call that exceeded
// its limit.
const RetryAfterTrailer = "retry-after"

// statusCodes maps the codes of an Outcome to gRPC codes. CONFLICT is AlreadyExists, because INFEASIBLE uses
// FailedPrecondition.
var statusCodes = map[messages.Code]codes.Code{
	messages.Code_CODE_INVALID:     codes.InvalidArgument,
	messages.Code_CODE_NOT_FOUND:   codes.NotFound,
	messages.Code_CODE_CONFLICT:    codes.AlreadyExists,
	messages.Code_CODE_NOT_ALLOWED: codes.PermissionDenied,
	messages.Code_CODE_INFEASIBLE:  codes.FailedPrecondition,
	messages.Code_CODE_UNAVAILABLE: codes.Unavailable,
	messages.Code_CODE_EXHAUSTED:   codes.ResourceExhausted,
}

// outcomeCodes maps gRPC codes back. The last entries are codes that gRPC itself returns. A code without an entry
// is a fault of the server or of the network.
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

// StatusOf returns an outcome as an error, or nil for success.
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

// sentence formats an outcome as one sentence, for clients that read only the message of a status.
func sentence(o *messages.Outcome) string {
	refusal := messages.FieldError{Field: o.GetField(), Text: o.GetText(), Hint: o.GetHint()}
	return refusal.Error()
}

// OutcomeOf returns the outcome in the error of a call, or nil for no error. If the caller cannot act on the error,
// such as a timeout or a fault of the server, the code is UNSPECIFIED.
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
