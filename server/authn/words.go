package authn

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/yi-json/synapse/cluster/identity"
)

// This file owns how a refusal reads, at the end that refuses and at the one that is refused.

const (
	// quietFor is how long the same line is not said again, and maxSaid how many lines are remembered for it.
	quietFor = 10 * time.Second
	maxSaid  = 1024
)

// alert is one of TLS, which says that the version is not spoken. A client that speaks no TLS is sent it, so that it
// can tell its user; the library would only close.
var alert = []byte{0x15, 0x03, 0x01, 0x00, 0x02, 0x02, 0x46}

// Refused tells a client that it was not let in, or that did not take the other end for a scheduler. To try again does
// not help.
type Refused struct{ Err error }

// Error is why.
func (r *Refused) Error() string { return r.Err.Error() }

// Unwrap is the same, as a value.
func (r *Refused) Unwrap() error { return r.Err }

// inWords is a failed handshake as a line of the scheduler's log has it. It answers whoever speaks no TLS by an alert.
func inWords(raw net.Conn, err error) string {
	var plain tls.RecordHeaderError
	switch text := err.Error(); {
	case errors.As(err, &plain):
		_, _ = raw.Write(alert)
		return "it speaks no TLS: give it --tls and a folder with its certificate"
	case strings.Contains(text, "didn't provide a certificate"):
		return identity.ErrNoCertificate.Error()
	case strings.Contains(text, "unsupported versions"), strings.Contains(text, "protocol version not supported"):
		return "it does not speak TLS 1.3: " + text
	case strings.HasPrefix(text, "remote error: "):
		return "it does not take this scheduler for one of its cluster: " + text
	default:
		return text
	}
}

// ours is a failed handshake as a client says it; nil: it may go better another time.
func ours(err error) *Refused {
	var plain tls.RecordHeaderError
	var late *identity.TimeError
	if errors.As(err, &plain) {
		return &Refused{errors.New("what listens there speaks no TLS: is it another program, or a scheduler without --tls?")}
	}
	for _, known := range []error{identity.ErrUnknown, identity.ErrCluster, identity.ErrRole, identity.ErrNoCertificate,
		identity.ErrUnmapped} {
		if errors.Is(err, known) {
			return &Refused{errors.Join(errors.New("what listens there is no scheduler of this cluster"), err)}
		}
	}
	if errors.As(err, &late) || strings.HasPrefix(err.Error(), "tls: ") {
		return &Refused{err}
	}
	return remote(err)
}

// remote returns what the other end said; nil: it said nothing.
func remote(err error) *Refused {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" {
		return &Refused{errors.New("the scheduler refused this certificate, and its log says why (" + op.Err.Error() + ")")}
	}
	return nil
}

// gone reports whether the other end went away in the middle of a handshake, of which there is nothing to tell.
func gone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.EPIPE)
}

// repeats knows which lines were said a moment ago: whoever is refused dials again at once.
type repeats struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// moment matches what a line says of the clock: of a certificate that is over, each second another.
var moment = regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d`)

// first reports whether a line is to be said: it is the same line when only its moments are others.
func (r *repeats) first(line string, now time.Time) bool {
	line = moment.ReplaceAllString(line, "")
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, ok := r.last[line]; ok && now.Sub(at) < quietFor && now.Sub(at) >= 0 {
		return false
	}
	if r.last == nil || len(r.last) >= maxSaid {
		r.last = map[string]time.Time{}
	}
	r.last[line] = now
	return true
}
