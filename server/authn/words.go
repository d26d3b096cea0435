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

// This file owns how a refusal reads, at the end that refuses.

// inWords is a failed handshake as a line of the scheduler's log has it. It answers whoever speaks no TLS by an alert.
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

// gone reports whether the other end went away in the middle of a handshake, of which there is nothing to tell.
func gone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.EPIPE)
}
