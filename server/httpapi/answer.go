package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// This file writes answers: a single one, or several with one per line. A line contains a result or an error. An
// error is the last line. The last chunk of HTTP marks a complete answer, so a client can detect an interrupted
// one.

const (
	// writeWithin limits how long a client may take to read a part of an answer.
	writeWithin = 10 * time.Second
	// beatEvery is the interval of empty lines in an idle answer. They let both ends detect a lost connection.
	beatEvery = 15 * time.Second
	// maxUnread limits the number of answers that wait to be written.
	maxUnread = 32
)

// patient extends the deadline for the next write. A writer without deadlines needs none.
func patient(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeWithin))
}

// once makes a call with a single answer.
func once(ctx context.Context, w http.ResponseWriter, c *call, on grpc.ClientConnInterface, q proto.Message) {
	var said metadata.MD
	reply := c.out.New().Interface()
	err := on.Invoke(ctx, c.name, q, reply, grpc.Trailer(&said))
	tell(w, said)
	var text []byte
	if err == nil {
		text, err = encode(reply)
	}
	if err != nil {
		refuse(w, c.refusal(why(ctx, err)))
		return
	}
	w.Header().Set("Content-Type", typeJSON)
	patient(w)
	_, _ = w.Write(append(text, '\n')) // the client may have disconnected
}

// stream makes a call with a stream of answers.
func (a *API) stream(
	ctx context.Context, w http.ResponseWriter, c *call, on grpc.ClientConnInterface, q proto.Message,
) {
	s, err := on.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, c.name)
	if err == nil {
		err = s.SendMsg(q)
	}
	if err == nil {
		err = s.CloseSend()
	}
	if err != nil {
		refuse(w, c.refusal(why(ctx, err)))
		return
	}
	a.answer(ctx, w, c, s)
}

// converse makes a call with streams in both directions.
func (a *API) converse(
	ctx context.Context, cancel context.CancelCauseFunc, w http.ResponseWriter, r *http.Request, c *call,
	on grpc.ClientConnInterface,
) {
	out := http.NewResponseController(w)
	w.Header().Set("Connection", "close") // the body may stay unread, and a deadline wakes its reader
	err := out.EnableFullDuplex()
	if err == nil {
		err = out.SetReadDeadline(time.Time{}) // requests may arrive at any time
	}
	var s grpc.ClientStream
	if err == nil {
		s, err = on.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, c.name)
	}
	if err != nil {
		refuse(w, c.refusal(why(ctx, err)))
		return
	}
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		if err := ask(r.Body, c, s); err != nil {
			cancel(err)
		}
	}()
	a.answer(ctx, w, c, s)
	cancel(nil)
	_ = out.SetReadDeadline(time.Now()) // stops reading the body after the answer
	<-asked
}

// ask sends each line of a body as a request.
func ask(body io.Reader, c *call, s grpc.ClientStream) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		q := c.in.New().Interface()
		if err := decode(lines.Bytes(), q); err != nil {
			return err
		}
		if err := s.SendMsg(q); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return &refusal{status: http.StatusBadRequest, Code: invalid, Text: "request stream was interrupted: " +
			err.Error(),
			Hint: "send one JSON object per line, with a newline after the last"}
	}
	return s.CloseSend()
}

// received holds one of several answers, or the end of the answers.
type received struct {
	m   proto.Message
	err error
}

// receive receives all answers, until the call or the context ends.
func receive(ctx context.Context, c *call, s grpc.ClientStream) <-chan received {
	parts := make(chan received, maxUnread)
	go func() {
		for {
			p := received{m: c.out.New().Interface()}
			p.err = s.RecvMsg(p.m)
			select {
			case parts <- p:
			case <-ctx.Done():
				return
			}
			if p.err != nil {
				return
			}
		}
	}()
	return parts
}

// first waits until a call has begun to answer: by its header, its first answer, or its end. If nothing arrives for
// a while, the answer has begun too.
func (a *API) first(ctx context.Context, s grpc.ClientStream, parts <-chan received) (p received, ok bool) {
	begun := make(chan bool, 1)
	go func() {
		header, _ := s.Header() // an error also ends the call
		begun <- header != nil
	}()
	select {
	case p = <-parts:
		return p, true
	case headed := <-begun:
		if headed {
			return received{}, false
		}
	case <-time.After(a.beat):
		return received{}, false
	}
	select {
	case p = <-parts:
		return p, true
	case <-ctx.Done():
		return received{err: ctx.Err()}, true
	}
}

// answer writes the answers of a call as they arrive. An error before the first answer gets an HTTP status.
func (a *API) answer(ctx context.Context, w http.ResponseWriter, c *call, s grpc.ClientStream) {
	parts := receive(ctx, c, s)
	p, ok := a.first(ctx, s, parts)
	if ok && p.err != nil && p.err != io.EOF {
		tell(w, s.Trailer())
		refuse(w, c.refusal(why(ctx, p.err)))
		return
	}
	w.Header().Set("Content-Type", typeLines)
	out := lines{to: w, buffer: bufio.NewWriter(w)}
	if out.flush(); ok && !out.take(ctx, p) {
		return
	}
	beat := time.NewTicker(a.beat)
	defer beat.Stop()
	for out.err == nil {
		if len(parts) == 0 {
			out.flush()
		}
		select {
		case p := <-parts:
			if !out.take(ctx, p) {
				return
			}
			beat.Reset(a.beat)
		case <-beat.C:
			out.write([]byte("\n"))
		case <-ctx.Done():
			out.fail(why(ctx, ctx.Err()))
			return
		}
	}
}

// why returns the reason why a call ended. A refusal by the request's reader or the session is more specific than
// err.
func why(ctx context.Context, err error) error {
	var r *refusal
	if errors.As(context.Cause(ctx), &r) {
		return r
	}
	return err
}

// lines writes answers to a client that may read slowly.
type lines struct {
	to     http.ResponseWriter
	buffer *bufio.Writer
	err    error
}

func (l *lines) write(text []byte) {
	if l.err == nil {
		patient(l.to)
		_, l.err = l.buffer.Write(text)
	}
}

func (l *lines) flush() {
	if l.err == nil {
		patient(l.to)
		l.err = errors.Join(l.buffer.Flush(), http.NewResponseController(l.to).Flush())
	}
}

// take writes an answer, and reports whether more may follow.
func (l *lines) take(ctx context.Context, p received) bool {
	switch {
	case p.err == io.EOF:
		l.flush()
		return false
	case p.err != nil:
		l.fail(why(ctx, p.err))
		return false
	}
	l.result(p.m)
	return true
}

func (l *lines) result(m proto.Message) {
	text, err := encode(m)
	if err != nil {
		l.fail(err)
		l.err = err
		return
	}
	l.write([]byte(`{"result":`))
	l.write(text)
	l.write([]byte("}\n"))
}

// fail writes an error as the last line.
func (l *lines) fail(err error) {
	text, _ := json.Marshal(failed{refusalOf(err)}) // a refusal contains only text
	l.write(append(text, '\n'))
	l.flush()
}
