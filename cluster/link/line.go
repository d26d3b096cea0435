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
	ours   string // our address on the wire
	theirs string // and the peer's
	reader reader
	out    outbox

	// known is the peer's address as the actors here know it. It differs from theirs only for a machine that came under a
	// name that another machine holds.
	known atomic.Pointer[string]

	// rack is the path of the Rack that has welcomed the machine, at a scheduler's end; nil: none has. The machine's
	// heartbeats and reports may go to that Rack alone.
	rack atomic.Pointer[string]

	hangUp func()                   // ends the stream of a machine; a scheduler ends its own by returning
	conn   grpc.ClientConnInterface // the connection below, at a machine's end only

	once sync.Once
	over chan struct{}
	why  error
}

// newLine makes one end of a stream; may is the table of what may come in.
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

// ofRack reports whether a Rack is the machine's own, or may yet become it.
func (l *line) ofRack(path string) bool {
	own := l.rack.Load()
	return own == nil || *own == path
}

// end closes the line, once; of several reasons the first one is kept.
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

// errSilent is the reason where a stream ended without one.
var errSilent = errors.New("the other end closed the stream")

// read delivers what comes until the stream ends. It reports whether the other end's last word was read.
func (l *line) read() (last bool) {
	var frame envelope.Frame
	for !l.ended() {
		if err := envelope.Receive(l.stream, &frame); err != nil {
			l.end(err)
			return true
		}
		if l.ended() {
			return false // a newer stream has taken its place: what arrives here is out of date
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
