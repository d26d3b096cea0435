package authn

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
)

// This file formats the refusals of handshakes for the scheduler's log.

// inWords returns the text of a failed handshake for the scheduler's log. It sends an alert to a peer without TLS.
func inWords(raw net.Conn, err error) string {
	var plain tls.RecordHeaderError
	switch text := err.Error(); {
	case errors.As(err, &plain):
		_, _ = raw.Write(credential.Alert)
		return "client does not use TLS: add --tls with a folder that has its certificate"
	case strings.Contains(text, "didn't provide a certificate"):
		return identity.ErrNoCertificate.Error()
	case strings.Contains(text, "unsupported versions"), strings.Contains(text, "protocol version not supported"):
		return "client does not support TLS 1.3: " + text
	case strings.HasPrefix(text, "remote error: "):
		return "client does not accept this scheduler's certificate: " + text
	default:
		return text
	}
}

// gone reports whether the peer closed the connection during the handshake. This is not logged.
func gone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.EPIPE)
}
