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

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
)

// This file owns how a refusal reads, at the end that refuses.

const (
	// quietFor is how long the same line is not said again, and maxSaid how many lines are remembered for it.
	quietFor = 10 * time.Second
	maxSaid  = 1024
)

// inWords is a failed handshake as a line of the scheduler's log has it. It answers whoever speaks no TLS by an alert.
func inWords(raw net.Conn, err error) string {
	var plain tls.RecordHeaderError
	switch text := err.Error(); {
	case errors.As(err, &plain):
		_, _ = raw.Write(credential.Alert)
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
