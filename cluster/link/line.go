package link

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/grpc"

	"github.com/yi-json/synapse/cluster/link/envelope"
)

// This file owns one end of one stream: its reader, its outbox, and how the two end together.

// stream is the interface of a gRPC stream at either end.
type stream interface {
	Context() context.Context
	envelope.Stream
}

// line is one end of a stream.
type line struct {
	o      *Options
	system *actor.ActorSystem
	stream stream
	ours   string // address of this end
	theirs string // address of the peer
	reader reader
	out    outbox

	// known is the peer's address for the local actors. It differs from theirs only for a node that came under a name
	// which another node holds.
	known atomic.Pointer[string]

	// rack is the path of the Rack that has welcomed the node, at a scheduler's end, or nil. The node's heartbeats and
	// reports may go only to that Rack.
	rack atomic.Pointer[string]

	hangUp func()                   // ends a node's end; a scheduler's end ends by returning
	conn   grpc.ClientConnInterface // the connection, at a node's end only

	once sync.Once
	over chan struct{}
	why  error
}

// newLine creates one end of a stream. The argument may is the table of permitted incoming messages.
func newLine(o *Options, system *actor.ActorSystem, s stream, ours, theirs string, may table) *line {
	l := &line{o: o, system: system, stream: s, ours: ours, theirs: theirs, over: make(chan struct{})}
	l.known.Store(&l.theirs)
	l.reader = reader{line: l, may: may, pace: pace{clock: o.Clock}}
	l.out = outbox{send: l.send, failed: l.failed, count: o.Count}
	return l
}

// send writes one frame.
func (l *line) send(batch []envelope.Letter) error {
	return envelope.Send(l.stream, envelope.Pack(l.ours, l.theirs, batch))
}

// ofRack reports whether a Rack is the node's own, or may still become it.
func (l *line) ofRack(path string) bool {
	own := l.rack.Load()
	return own == nil || *own == path
}

// end closes the line once. The first reason is kept.
func (l *line) end(why error) {
	l.once.Do(func() {
		l.why = why
		close(l.over)
		l.out.end()
		if l.hangUp != nil {
			l.hangUp()
		}
	})
}

// failed ends the line when the writer fails. io.EOF is left to the reader, which gets the reason of the stream's end.
func (l *line) failed(err error) {
	if !errors.Is(err, io.EOF) {
		l.end(err)
	}
}

func (l *line) ended() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

// errSilent is the reason of a stream that ended without one.
var errSilent = errors.New("other end closed the stream")

// read delivers messages until the stream ends. It reports whether the other end's last message was read.
func (l *line) read() (last bool) {
	var frame envelope.Frame
	for !l.ended() {
		if err := envelope.Receive(l.stream, &frame); err != nil {
			l.end(err)
			return true
		}
		if l.ended() {
			return false // a newer stream has taken its place, so its messages are out of date
		}
		wait := l.reader.frame(frame.Bytes())
		frame.Free()
		if wait <= 0 {
			continue
		}
		l.o.Count(countPaced, 1)
		select {
		case <-l.o.Clock.After(wait):
		case <-l.stream.Context().Done():
		case <-l.over:
		}
	}
	return false
}
