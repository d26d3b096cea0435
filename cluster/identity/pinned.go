package identity

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"strings"
	"time"
)

// This file owns the connections of clients that know only the digest of the root certificate, as a token names it.

// SecretBytes is the size of the secret in a token.
const SecretBytes = 32

// SplitToken parses the text of a token with this prefix. The other parts are the cluster, the digest of its root, and
// a secret.
func SplitToken(text, prefix string) (cluster string, root Digest, secret []byte, ok bool) {
	parts := strings.Split(strings.TrimSpace(text), ".")
	if len(parts) != 4 || parts[0] != prefix || CheckCluster(parts[1]) != nil {
		return "", root, nil, false
	}
	digest, err := hex.DecodeString(parts[2])
	secret, failed := hex.DecodeString(parts[3])
	if err != nil || failed != nil || len(digest) != sha256.Size || len(secret) != SecretBytes {
		return "", root, nil, false
	}
	return parts[1], Digest(digest), secret, true
}

// PinnedConfig returns the TLS configuration of a client that accepts only a scheduler below the root with this digest.
// The function found, if set, receives the root. now is the clock; nil: the clock of the host.
func PinnedConfig(cluster string, digest Digest, now func() time.Time, found func(*x509.Certificate)) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // VerifyConnection verifies, by the digest
		VerifyConnection: func(s tls.ConnectionState) error {
			for _, root := range s.PeerCertificates {
				if sha256.Sum256(root.Raw) != digest {
					continue
				}
				if found != nil {
					found(root)
				}
				trust := Trust{Cluster: cluster, Roots: []*x509.Certificate{root}, Now: now}
				return trust.Scheduler(s.PeerCertificates)
			}
			return ErrUnknown
		},
	}
}
