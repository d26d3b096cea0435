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

// This file owns what a request may bring, and what of it is in memory at the same time. A body is read when it is
// known whose it is, and no sooner.

const (
	// littleBytes is how large a body may be that waits for nobody. Each caller has some of those on their way, as the
	// gate says.
	littleBytes = 64 << 10
	// maxBytes is the largest; messages are no larger on the wire of gRPC, and their JSON is longer.
	maxBytes = messages.MaxMessageBytes
	// largeBytes is what all large ones may have together, and largeWait for how long one waits for a part of that.
	largeBytes = 5 << 20
	largeWait  = 3 * time.Second
	// maxLine bounds a line of a stream of requests.
	maxLine = 1 << 20
)

// bodies are the large ones that are on their way: one of each caller.
type bodies struct {
	room *semaphore.Weighted
	wait time.Duration // for a part of it

	mu sync.Mutex
	of map[string]bool
}

// take makes room for a large body; give gives that back.
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
	switch n := r.ContentLength; {
	case n < 0:
		return &refusal{status: http.StatusLengthRequired, Code: invalid, Field: "Content-Length", Text: "is missing",
			Hint: "send the length of the request"}
	case n > maxBytes:
		return &refusal{status: http.StatusRequestEntityTooLarge, Code: invalid, Field: "Content-Length",
			Text: fmt.Sprintf("is %d, more than %d", n, maxBytes)}
	case n > littleBytes:
		give, err := a.bodies.take(r.Context(), who.Whom, n)
		if err != nil {
			return err
		}
		defer give()
	}
	if who.Comes != nil {
		came, err := who.Comes(c.name)
		if err != nil {
			return err
		}
		defer came()
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBytes))
	if err != nil {
		return &refusal{status: http.StatusBadRequest, Code: invalid, Text: "request is incomplete: " + err.Error()}
	}
	return decode(text, q)
}

// decode reads a message's JSON. Nothing at all is a message in which nothing is said.
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

// fieldNamed finds which field is wrong, where the decoder says so.
var fieldNamed = regexp.MustCompile(`field ("[^"]*"|[^\s:]+)`)
