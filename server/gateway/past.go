package gateway

import (
	"bytes"
	"context"

	"google.golang.org/grpc"

	"github.com/yi-json/synapse/server/api"
)

// This file answers requests for the timeline of the cluster. The answers come from files of this process, without
// actors or the store.

// maxPasts limits the concurrent reads of the timeline, because each keeps a complete state in memory.
const maxPasts = 4

// maxPart limits the size of one part of an answer.
const maxPart = 256 << 10

// ReadPast sends the timeline.
func (g *Gateway) ReadPast(q *api.ReadPast, stream grpc.ServerStreamingServer[api.PastPart]) error {
	q.Principal = g.o.Principal(stream.Context())
	if err := g.admit(stream.Context(), q); err != nil {
		return err
	}
	var past Past
	if g.o.Past != nil {
		past = g.o.Past()
	}
	if past == nil {
		return api.StatusOf(unavailable("timeline is not stored by this scheduler",
			"set --timeline, and use a store on disk"))
	}
	ctx, cancel := timed(stream.Context())
	defer cancel()
	if err := g.read(ctx, g.pasts); err != nil {
		return err
	}
	defer func() { <-g.pasts }()
	w := &partWriter{ctx: ctx, to: stream}
	if err := stream.Send(&api.PastPart{SinceUnixMs: past.Since()}); err != nil {
		return err
	}
	last, err := q.GetUntilUnixMs(), error(nil)
	if q.GetStepMs() > 0 {
		err = past.Sums(q.GetAtUnixMs(), q.GetUntilUnixMs(), q.GetStepMs(), w.take)
	} else {
		last, err = past.Moments(q.GetAtUnixMs(), q.GetUntilUnixMs(), w.take)
	}
	switch {
	case ctx.Err() != nil:
		return lapsed(ctx.Err())
	case w.failed != nil:
		return w.failed
	case err != nil:
		return api.StatusOf(unavailable("timeline cannot be read: "+err.Error(), ""))
	}
	return stream.Send(&api.PastPart{Lines: w.lines.Bytes(), UntilUnixMs: last})
}

// partWriter sends lines in parts.
type partWriter struct {
	ctx    context.Context
	to     grpc.ServerStreamingServer[api.PastPart]
	lines  bytes.Buffer
	failed error
}

func (w *partWriter) take(line []byte) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	w.lines.Write(append(line, '\n'))
	if w.lines.Len() < maxPart {
		return nil
	}
	w.failed = w.to.Send(&api.PastPart{Lines: bytes.Clone(w.lines.Bytes())})
	w.lines.Reset()
	return w.failed
}
