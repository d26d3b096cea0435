package slurmrest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/internal/slurm"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/server/httpapi"
)

// This file writes answers and errors in Slurm's form. Each answer has meta, errors and warnings.

// The numbers of Slurm's errors.
const (
	unspecified      = -1
	noController     = 1800
	backoff          = 1804
	invalidPartition = 2000
	accessDenied     = 2002
	nodesUnavailable = 2014
	invalidJobID     = 2017
	invalidNode      = 2018
	standbyMode      = 2027
	notSupported     = 2036
	invalidQuery     = 9000
	failParsing      = 9001
	unknownURL       = 9006
	unknownMethod    = 9007
	authFail         = 9008
)

// strerror has Slurm's texts of these numbers.
var strerror = map[int]string{
	unspecified:      "Unspecified error",
	noController:     "Unable to contact slurm controller (connect failure)",
	backoff:          "Rate limit exceeded, please retry momentarily",
	invalidPartition: "Invalid partition name specified",
	accessDenied:     "Access/permission denied",
	nodesUnavailable: "Requested node configuration is not available",
	invalidJobID:     "Invalid job id specified",
	invalidNode:      "Invalid node name specified",
	standbyMode:      "Slurm backup controller in standby mode",
	notSupported:     "Requested operation not supported on this system",
	invalidQuery:     "Query empty or not RFC7320 compliant",
	failParsing:      "Failure during parsing",
	unknownURL:       "Unable find requested URL",
	unknownMethod:    "Requested HTTP query method is not supported at URL endpoint",
	authFail:         "Authentication failure",
}

// warning is a warning of an answer.
type warning struct {
	Description string `json:"description"`
	Source      string `json:"source"`
}

// problem is an error of an answer.
type problem struct {
	status      int // 0: 400
	number      int
	description string
	source      string
}

func (p *problem) Error() string { return p.description }

// object returns the error in Slurm's form.
func (p *problem) object() map[string]any {
	source := p.source
	if source == "" {
		source = "synapse"
	}
	return map[string]any{"description": messages.OneLine(p.description), "error_number": p.number,
		"error": strerror[p.number], "source": source}
}

// explained converts an error of a call into the form of package client, which the searches for jobs need.
func explained(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause // the session has ended
	}
	o := api.OutcomeOf(err)
	text := o.GetText()
	if o.GetField() != "" {
		text = o.GetField() + ": " + text
	}
	return &client.Error{Code: o.GetCode(), Text: text, Hint: o.GetHint()}
}

// numbers maps the codes of the client API to Slurm's errors.
var numbers = map[messages.Code]int{
	messages.Code_CODE_INVALID: failParsing, messages.Code_CODE_NOT_FOUND: invalidJobID,
	messages.Code_CODE_CONFLICT: unspecified, messages.Code_CODE_NOT_ALLOWED: accessDenied,
	messages.Code_CODE_INFEASIBLE: nodesUnavailable, messages.Code_CODE_UNAVAILABLE: noController,
	messages.Code_CODE_EXHAUSTED: backoff,
}

// problemOf converts any error. An error of the client API keeps the HTTP status that it has there.
func problemOf(err error) *problem {
	var p *problem
	var refused *slurm.Refusal
	var failed *client.Error
	switch {
	case errors.As(err, &p):
		if p.status == 0 {
			p.status = http.StatusBadRequest
		}
		return p
	case errors.As(err, &refused):
		return &problem{status: http.StatusBadRequest, number: failParsing, description: refused.Error()}
	case errors.As(err, &failed):
		text := failed.Text
		if failed.Hint != "" {
			text += " (" + failed.Hint + ")"
		}
		p = &problem{status: httpapi.StatusOf(failed.Code), number: numbers[failed.Code], description: text}
	default:
		r := httpapi.Explain(err)
		p = &problem{status: r.Status, number: numbers[r.Code], description: r.Text}
		if r.Hint != "" {
			p.description += " (" + r.Hint + ")"
		}
		if r.Field != "" {
			p.description = r.Field + ": " + p.description
		}
	}
	switch {
	case p.status == http.StatusUnauthorized:
		p.number = authFail
	case p.number == 0:
		p.number = unspecified
	}
	return p
}

// fail answers with an error. The answer also has the lists of an answer, which clients read without looking.
func (q *exchange) fail(err error) {
	p := problemOf(err)
	if p.status == http.StatusUnauthorized {
		q.w.Header().Set("WWW-Authenticate", "Bearer")
		q.w.Header().Set("Connection", "close") // each further guess of a token costs a handshake
	}
	if p.number == noController && q.w.Header().Get(httpapi.LeaderHeader) != "" {
		p.number = standbyMode
	}
	body := q.envelope()
	body["errors"] = []any{p.object()}
	q.write(p.status, body)
}

// envelope returns the keys of each answer.
func (q *exchange) envelope() map[string]any {
	warnings := q.found
	if warnings == nil {
		warnings = []warning{}
	}
	return map[string]any{"meta": q.meta(), "errors": []any{}, "warnings": warnings}
}

// answer answers with some keys.
func (q *exchange) answer(keys map[string]any) error {
	body := q.envelope()
	for key, of := range keys { //order: the encoder sorts them
		body[key] = of
	}
	q.write(http.StatusOK, body)
	return nil
}

// writeWithin limits how long a client may take to read a part of an answer.
const writeWithin = 10 * time.Second

// patient extends the deadline for the next write. A writer without deadlines needs none.
func (q *exchange) patient() {
	_ = http.NewResponseController(q.w).SetWriteDeadline(time.Now().Add(writeWithin))
}

func (q *exchange) begin(status int) {
	h := q.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	q.patient()
	q.w.WriteHeader(status)
}

func (q *exchange) write(status int, body map[string]any) {
	q.begin(status)
	_ = json.NewEncoder(q.w).Encode(body) // the client may have disconnected
}

// updated holds the keys of a list with the time of the data.
func (q *exchange) updated(more ...string) map[string]any {
	keys := map[string]any{}
	for _, key := range append(more, "last_update") {
		keys[key] = slurm.Counted(q.o.Now().Unix())
	}
	return keys
}

// stream answers with a list under a key, one object at a time: the objects of many jobs need much more memory than the
// jobs.
func stream[T any](q *exchange, key string, all []T, of func(T) map[string]any, more map[string]any) error {
	q.begin(http.StatusOK)
	out := bufio.NewWriterSize(q.w, 64<<10)
	_, _ = out.WriteString(`{"` + key + `":[`)
	for i, one := range all {
		if i > 0 {
			_ = out.WriteByte(',')
		}
		text, err := json.Marshal(of(one))
		if err != nil {
			panic(err) // the objects contain only plain values
		}
		q.patient()
		if _, err = out.Write(text); err != nil {
			return nil // the client has disconnected
		}
	}
	body := q.envelope()
	for key, of := range more { //order: the encoder sorts them
		body[key] = of
	}
	rest, _ := json.Marshal(body)
	_, _ = out.WriteString("],")
	_, _ = out.Write(rest[1:])
	_ = out.Flush() // the client may have disconnected
	return nil
}
