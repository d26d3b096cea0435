package httpapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
)

// This file limits the size of requests, and how much of them is in memory at once. It reads a body only after the
// caller is authenticated.

const (
	// littleBytes is the largest body that needs no reserved memory. Package authn limits the number of such
	// bodies per caller.
	littleBytes = 64 << 10
	// maxBytes is the largest body. gRPC has the same limit for messages, whose JSON is longer.
	maxBytes = messages.MaxMessageBytes
	// largeBytes is the memory for all large bodies together. largeWait limits the wait for a part of it.
	largeBytes = 5 << 20
	largeWait  = 3 * time.Second
	// maxLine limits a line of a stream of requests.
	maxLine = 1 << 20
)

// bodies manages the memory for large bodies: one body per caller.
type bodies struct {
	room *semaphore.Weighted
	wait time.Duration // limit of the wait for memory

	mu sync.Mutex
	of map[string]bool
}

// take reserves memory for a large body; give returns it.
func (b *bodies) take(ctx context.Context, whom string, bytes int64) (give func(), err error) {
	b.mu.Lock()
	other := b.of[whom]
	b.of[whom] = true
	b.mu.Unlock()
	if other {
		return nil, &refusal{status: http.StatusTooManyRequests, Code: exhausted, after: "1",
			Text: "another large request of this user is in progress", Hint: "send large requests one after another"}
	}
	ctx, cancel := context.WithTimeout(ctx, b.wait)
	defer cancel()
	forget := func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.of, whom)
	}
	if b.room.Acquire(ctx, bytes) != nil {
		forget()
		return nil, &refusal{status: http.StatusTooManyRequests, Code: exhausted, after: "1",
			Text: "too many large requests are in progress", Hint: "try again in a few seconds"}
	}
	return func() { b.room.Release(bytes); forget() }, nil
}

// read reads a request into a message.
func (a *API) read(w http.ResponseWriter, r *http.Request, c *call, who *Caller, q proto.Message) error {
	text, give, err := a.text(w, r, c.name, who)
	defer give()
	if err != nil {
		return err
	}
	return decode(text, q)
}

// text reads the body of a request. The caller calls give when the body is no longer in memory.
func (a *API) text(w http.ResponseWriter, r *http.Request, call string, who *Caller) (
	text []byte, give func(), err error) {
	give = func() {}
	switch n := r.ContentLength; {
	case n < 0:
		return nil, give, &refusal{status: http.StatusLengthRequired, Code: invalid, Field: "Content-Length",
			Text: "is missing", Hint: "send the length of the request"}
	case n > maxBytes:
		return nil, give, &refusal{status: http.StatusRequestEntityTooLarge, Code: invalid, Field: "Content-Length",
			Text: fmt.Sprintf("is %d, more than %d", n, maxBytes)}
	case n > littleBytes:
		if give, err = a.bodies.take(r.Context(), who.Whom, n); err != nil {
			return nil, func() {}, err
		}
	}
	if who.Comes != nil {
		came, err := who.Comes(call)
		if err != nil {
			return nil, give, err
		}
		defer came()
	}
	text, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxBytes))
	if err != nil {
		err = &refusal{status: http.StatusBadRequest, Code: invalid, Text: "request is incomplete: " + err.Error()}
	}
	return text, give, err
}

// decode reads a message from JSON. An empty body is an empty message.
func decode(text []byte, q proto.Message) error {
	if len(text) == 0 {
		return nil
	}
	err := decodePublic(text, q)
	if err == nil {
		return nil
	}
	words := strings.TrimSpace(strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto:"))
	o := &refusal{status: http.StatusBadRequest, Code: invalid, Text: words,
		Hint: "see GET " + Prefix + "openapi.json for the fields of each call"}
	if named := fieldNamed.FindStringSubmatch(words); named != nil {
		o.Field = strings.Trim(named[1], `":`)
		if now := renamedField(q.ProtoReflect().Descriptor(), o.Field); now != "" {
			o.Hint = "use " + now
		}
	}
	return o
}

// fieldNamed finds the name of the wrong field in an error of the decoder.
var fieldNamed = regexp.MustCompile(`field ("[^"]*"|[^\s:]+)`)
