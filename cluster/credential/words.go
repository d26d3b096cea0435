package credential

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"

	"github.com/yi-json/synapse/cluster/identity"
)

// This file owns how a refusal reads, at the end that is refused.

// Alert is one of TLS, which says that the version is not spoken. A client that speaks no TLS is sent it, so that it
// can tell its user; the library would only close.
var Alert = []byte{0x15, 0x03, 0x01, 0x00, 0x02, 0x02, 0x46}

// Refused tells a client that it was not let in, or that did not take the other end for a scheduler. To try again does
// not help.
type Refused struct{ Err error }

// Error is why.
func (r *Refused) Error() string { return r.Err.Error() }

// Unwrap is the same, as a value.
func (r *Refused) Unwrap() error { return r.Err }

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
