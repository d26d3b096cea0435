package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file formats errors: an HTTP status for each code of an Outcome, and the Outcome itself.

// The codes of errors before any call.
var (
	invalid    = messages.Code_CODE_INVALID.String()
	notAllowed = messages.Code_CODE_NOT_ALLOWED.String()
	exhausted  = messages.Code_CODE_EXHAUSTED.String()
)

// ErrWho and ErrLater classify an error of Options.Caller: the request is not authenticated, or the identity cannot
// be checked now.
var (
	ErrWho   = errors.New("caller is unknown: authentication required")
	ErrLater = errors.New("caller cannot be verified now")
)

// LeaderHeader names the leader in an answer of a standby scheduler.
const LeaderHeader = "Synapse-Leader"

// refusal is an Outcome with its HTTP status.
type refusal struct {
	status int
	after  string // seconds until a retry; empty: unknown

	Code  string `json:"code"`
	Field string `json:"field,omitempty"`
	Text  string `json:"text"`
	Hint  string `json:"hint,omitempty"`
}

func (r *refusal) Error() string { return r.Text }

// statuses maps the codes of an Outcome to HTTP statuses, and statusesOf maps gRPC's own codes.
var (
	statuses = map[messages.Code]int{
		messages.Code_CODE_INVALID:     http.StatusBadRequest,
		messages.Code_CODE_NOT_FOUND:   http.StatusNotFound,
		messages.Code_CODE_CONFLICT:    http.StatusConflict,
		messages.Code_CODE_NOT_ALLOWED: http.StatusForbidden,
		messages.Code_CODE_INFEASIBLE:  http.StatusUnprocessableEntity,
		messages.Code_CODE_UNAVAILABLE: http.StatusServiceUnavailable,
		messages.Code_CODE_EXHAUSTED:   http.StatusTooManyRequests,
	}
	statusesOf = map[codes.Code]int{
		codes.Unimplemented: http.StatusNotImplemented, codes.DeadlineExceeded: http.StatusGatewayTimeout,
	}
)

// refusalOf converts an error into a refusal.
func refusalOf(err error) *refusal {
	var r *refusal
	if errors.As(err, &r) {
		return r
	}
	words := strings.ReplaceAll(err.Error(), "\n", ": ")
	switch {
	case errors.Is(err, ErrWho):
		return &refusal{status: http.StatusUnauthorized, Code: notAllowed, Field: "Authorization", Text: words}
	case errors.Is(err, ErrLater):
		return &refusal{status: http.StatusServiceUnavailable, Code: messages.Code_CODE_UNAVAILABLE.String(), Text: words}
	}
	if _, ok := status.FromError(err); !ok {
		return &refusal{status: http.StatusForbidden, Code: notAllowed, Field: "Authorization", Text: words}
	}
	o := api.OutcomeOf(err)
	r = &refusal{Code: o.GetCode().String(), Field: o.GetField(), Text: o.GetText(), Hint: o.GetHint()}
	if r.status = statuses[o.GetCode()]; r.status == 0 {
		if r.status = statusesOf[status.Code(err)]; r.status == 0 {
			r.status = http.StatusInternalServerError
		}
	}
	return r
}

// refusal returns the refusal of a call, with the field name that the caller used.
func (c *call) refusal(err error) *refusal {
	r := *refusalOf(err)
	r.Field = publicPath(c.in.Descriptor(), r.Field)
	return &r
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, err error) {
	r := refusalOf(err)
	if r.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
		w.Header().Set("Connection", "close") // each further guess of a token costs a handshake, as with gRPC
	}
	if r.after != "" {
		w.Header().Set("Retry-After", r.after)
	}
	w.Header().Set("Content-Type", typeJSON)
	patient(w)
	w.WriteHeader(r.status)
	_ = json.NewEncoder(w).Encode(failed{r}) // the client may have disconnected
}

// failed is an error instead of an answer.
type failed struct {
	Error *refusal `json:"error"`
}

// tell sets the headers for the trailer of a call.
func tell(w http.ResponseWriter, said metadata.MD) {
	for from, to := range map[string]string{ //order: each header is independent
		api.RetryAfterTrailer: "Retry-After", api.LeaderTrailer: LeaderHeader,
	} {
		if all := said.Get(from); len(all) > 0 {
			w.Header().Set(to, all[0])
		}
	}
}
