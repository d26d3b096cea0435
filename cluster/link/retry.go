package link

import (
	"errors"
	"runtime"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/yi-json/synapse/clock/backoff"
)

// This file owns the retries of a node, and the hints of a scheduler about them. An entire cluster loses its scheduler
// at the same moment. Nodes therefore double their pauses up to a limit, and each waits a random part of the pause.

// keyPushback is gRPC's name of a server's hint when to retry, in milliseconds. Older agents ignore it.
const keyPushback = "grpc-retry-pushback-ms"

// retry holds the pauses between a node's attempts.
type retry struct {
	pause time.Duration // before the next attempt, without the random part
}

func newRetry() retry { return retry{pause: minRetry} }

// failed counts an attempt, and returns the pause before the next one. The argument reached reports that the connection
// was accepted. A scheduler that accepts and does not answer is overloaded, so the node retries less often. If nobody
// accepts, an attempt costs nothing.
func (r *retry) failed(reached bool, hint time.Duration, random func() float64) time.Duration {
	pause := r.pause/2 + time.Duration(random()*float64(r.pause/2))
	limit := maxRetry
	if reached {
		limit = maxBusyRetry
	}
	r.pause = backoff.Next(r.pause, minRetry, limit)
	return max(pause, time.Duration(random()*float64(min(hint, maxHint))))
}

// pushedBack is an error with the scheduler's hint: retry at a random time within that duration.
type pushedBack struct {
	error
	within time.Duration
}

func (l pushedBack) Unwrap() error { return l.error }

// hintOf returns the hint of an error, or 0 if it has none.
func hintOf(err error) time.Duration {
	var l pushedBack
	if errors.As(err, &l) {
		return l.within
	}
	return 0
}

// hinted adds the hint of a stream to the stream's error. The stream must have ended.
func hinted(err error, trailer metadata.MD) error {
	ms, bad := strconv.ParseUint(one(trailer, keyPushback), 10, 32)
	if bad != nil || ms == 0 {
		return err
	}
	return pushedBack{err, time.Duration(ms) * time.Millisecond}
}

// pushBack sends the hint with a refusal that ends a stream.
func (s *Server) pushBack(stream grpc.ServerStream, why error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if why == errClosing && s.comeBack > 0 {
		stream.SetTrailer(metadata.Pairs(keyPushback, strconv.FormatInt(s.comeBack.Milliseconds(), 10)))
	}
	return why
}

// comeBackWithin returns the time in which this many nodes can be linked again with half of the CPUs.
func comeBackWithin(machines int) time.Duration {
	return time.Duration(machines) * 2 * linkCost / time.Duration(runtime.GOMAXPROCS(0))
}
