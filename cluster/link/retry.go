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

// This file owns when a machine tries again, and what a scheduler says of it. A whole cluster loses its scheduler in
// one moment, so machines wait twice as long each time, up to a limit, and each of them a different part of that.

// keyPushback is gRPC's own name for a server's hint of when to try again, in milliseconds. Machines of earlier
// versions do not read it.
const keyPushback = "grpc-retry-pushback-ms"

// retry is how long a machine waits between its tries.
type retry struct {
	pause time.Duration // before the next try, without the random part
}

func newRetry() retry { return retry{pause: minRetry} }

// failed counts a try, and returns how long to wait before the next one. Reached says that the connection was accepted.
// A scheduler that accepts and does not answer has a crowd before it, so the machine comes back less often. If nobody
// accepts, a try costs nobody anything.
func (r *retry) failed(reached bool, hint time.Duration, random func() float64) time.Duration {
	pause := r.pause/2 + time.Duration(random()*float64(r.pause/2))
	limit := maxRetry
	if reached {
		limit = maxBusyRetry
	}
	r.pause = backoff.Next(r.pause, minRetry, limit)
	return max(pause, time.Duration(random()*float64(min(hint, maxHint))))
}

// pushedBack is an error with the scheduler's hint: come back at a random moment within that time.
type pushedBack struct {
	error
	within time.Duration
}

func (l pushedBack) Unwrap() error { return l.error }

// hintOf is the hint that an error carries; 0: none.
func hintOf(err error) time.Duration {
	var l pushedBack
	if errors.As(err, &l) {
		return l.within
	}
	return 0
}

// hinted adds to the error of a stream the hint that came with it. The stream must have ended.
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

// comeBackWithin is the time in which so many machines can be linked again with half of the processors.
func comeBackWithin(machines int) time.Duration {
	return time.Duration(machines) * 2 * linkCost / time.Duration(runtime.GOMAXPROCS(0))
}
