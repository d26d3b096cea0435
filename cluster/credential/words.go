package credential

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"

	"github.com/yi-json/synapse/cluster/identity"
)

// This file owns the texts of refusals at the client.

// Alert is a TLS alert for an unsupported protocol version. A server sends it to a client that does not use TLS, so
// that the client can inform its user. The TLS library would only close the connection.
var Alert = []byte{0x15, 0x03, 0x01, 0x00, 0x02, 0x02, 0x46}

// Refused is the error of a client that was not admitted, or that did not accept the server as a scheduler. A retry
// does not help.
type Refused struct{ Err error }

// Error returns the reason as text.
func (r *Refused) Error() string { return r.Err.Error() }

// Unwrap returns the reason.
func (r *Refused) Unwrap() error { return r.Err }

// ours returns a failed handshake as a refusal by the client. It returns nil if a retry may succeed.
func ours(err error) *Refused {
	var plain tls.RecordHeaderError
	var late *identity.TimeError
	if errors.As(err, &plain) {
		return &Refused{errors.New("server does not use TLS: it is another program, or a scheduler without --tls")}
	}
	for _, known := range []error{identity.ErrUnknown, identity.ErrCluster, identity.ErrRole, identity.ErrNoCertificate,
		identity.ErrUnmapped} {
		if errors.Is(err, known) {
			return &Refused{errors.Join(errors.New("server is not a scheduler of this cluster"), err)}
		}
	}
	if errors.As(err, &late) || strings.HasPrefix(err.Error(), "tls: ") {
		return &Refused{err}
	}
	return remote(err)
}

// remote returns the refusal that the server sent. It returns nil if the server sent none.
func remote(err error) *Refused {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" {
		return &Refused{errors.New("scheduler refused this certificate (" + op.Err.Error() + "): its log has the reason")}
	}
	return nil
}
