package authn

import (
	"encoding/binary"
	"errors"
	"sync"
)

// This file owns how the frames of a connection are followed: as far as it takes to know how much of requests is on its
// way, and no further. Whether they make sense is gRPC's to say, which reads them next.

// The parts of HTTP/2 that matter here.
const (
	prefaceBytes = 24
	headBytes    = 9

	frameData    = 0
	frameHeaders = 1
	frameReset   = 3

	flagEnds   = 0x1
	flagPadded = 0x8
)

// frames follows what goes one way over a connection.
type frames struct {
	skip   int // bytes of the preface that are still to come
	head   [headBytes]byte
	got    int // of the head
	left   int // of the payload
	pad    int // of that, at its end; less than 0 while the first byte, which says so, is to come
	kind   byte
	flags  byte
	stream uint32
}

// follow tells of each part of what DATA frames carry, and of each frame's end.
func (f *frames) follow(b []byte, part func([]byte), end func()) {
	n := min(f.skip, len(b))
	f.skip, b = f.skip-n, b[n:]
	for len(b) > 0 {
		if f.got < headBytes {
			n := copy(f.head[f.got:], b)
			f.got, b = f.got+n, b[n:]
			if f.got < headBytes {
				return
			}
			f.begin()
		}
		n := min(f.left, len(b))
		if f.kind == frameData {
			f.data(b[:n], part)
		} else {
			f.left -= n
		}
		b = b[n:]
		if f.left == 0 {
			f.got = 0
			end()
		}
	}
}

// begin reads a head that is whole.
func (f *frames) begin() {
	f.left = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
	f.kind, f.flags = f.head[3], f.head[4]
	f.stream = binary.BigEndian.Uint32(f.head[5:]) & (1<<31 - 1)
	f.pad = 0
	if f.flags&flagPadded != 0 {
		f.pad = -1
	}
}

// ends reports whether a frame that is over is the last one of its stream this way.
func (f *frames) ends() bool { return f.kind <= frameHeaders && f.flags&flagEnds != 0 }

// data tells of what a DATA frame carries, without its padding.
func (f *frames) data(b []byte, part func([]byte)) {
	if f.pad < 0 && len(b) > 0 {
		f.pad, f.left, b = int(b[0]), f.left-1, b[1:]
	}
	carried := min(len(b), max(0, f.left-max(0, f.pad)))
	f.left -= len(b)
	if carried > 0 {
		part(b[:carried])
	}
}

// prefixBytes is the length of what gRPC says before each message: whether it is compressed, and how long it is.
const prefixBytes = 5

// request counts what is on its way on one stream.
type request struct {
	prefix [prefixBytes]byte
	got    int  // of the prefix
	left   int  // of the message
	held   int  // was announced, and is not answered
	nth    int  // message of the stream
	whole  bool // nothing more comes
}

// maxFollowed bounds the streams that may be open as far as both ends know: gRPC's bound, and those that it is about to
// refuse.
const maxFollowed = 1024

var errTooMany = errors.New("too many requests were begun on one connection")

// traffic has what is known of the requests on one connection.
type traffic struct {
	mu      sync.Mutex
	in, out frames
	newest  uint32 // the last stream that was opened
	open    map[uint32]*request
}

func newTraffic() *traffic {
	return &traffic{in: frames{skip: prefaceBytes}, open: map[uint32]*request{}}
}

// came follows what a client sent, and returns how many more bytes of requests are on their way by that.
func (t *traffic) came(b []byte) (more int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.in.follow(b, func(part []byte) {
		if q := t.open[t.in.stream]; q != nil {
			more += q.carries(part)
		}
	}, func() {
		switch {
		case t.in.kind == frameHeaders && t.in.stream > t.newest:
			t.newest = t.in.stream
			t.open[t.newest] = &request{}
			if len(t.open) > maxFollowed {
				err = errTooMany
			}
		case t.in.kind == frameReset:
			more -= t.over(t.in.stream)
		}
		if q := t.open[t.in.stream]; q != nil && t.in.ends() {
			q.whole = true
		}
	})
	return more, err
}

// went follows what a server sent: of a stream that it ends nothing is on its way any more.
func (t *traffic) went(b []byte) (less int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.out.follow(b, func([]byte) {}, func() {
		if t.out.kind == frameReset || t.out.ends() {
			less += t.over(t.out.stream)
		}
	})
	return less
}

// over forgets a stream, and returns what was on its way there.
func (t *traffic) over(stream uint32) int {
	q := t.open[stream]
	if q == nil {
		return 0
	}
	delete(t.open, stream)
	return q.held
}

// unfinished counts the bytes that were announced of requests of which the client has yet to send something, or to say
// that this was all.
func (t *traffic) unfinished() (bytes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, q := range t.open { //order: a sum has none
		if !q.whole {
			bytes += q.held
		}
	}
	return bytes
}

// carries follows the messages of a stream. The first one counts until the stream ends, for its call is decoded and
// served meanwhile; where others follow it, the one before has been read, and so counts no longer.
func (q *request) carries(part []byte) (more int) {
	for len(part) > 0 {
		if q.got < prefixBytes {
			n := copy(q.prefix[q.got:], part)
			q.got, part = q.got+n, part[n:]
			if q.got < prefixBytes {
				return more
			}
			more -= q.held
			q.held, q.nth = 0, q.nth+1
			q.left = int(binary.BigEndian.Uint32(q.prefix[1:]))
			if q.left <= maxRequestBytes { // a longer one is refused by that alone
				q.held = q.left
				more += q.left
			}
		}
		n := min(q.left, len(part))
		q.left, part = q.left-n, part[n:]
		if q.left > 0 {
			continue
		}
		q.got = 0
		if q.nth > 1 {
			more -= q.held
			q.held = 0
		}
	}
	return more
}
