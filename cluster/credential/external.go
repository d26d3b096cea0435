package credential

import (
	"bytes"
	"context"
	"errors"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/cluster/identity"
)

// This file owns badges of an outside issuer. Synapse does not renew their certificates. It reads the issuer's files
// again when they have changed.

// lookEvery is the interval between checks of the issuer's files.
const lookEvery = 15 * time.Second

// External reports whether an outside issuer signed the badge's certificate.
func (b *Badge) External() bool { return b.external != nil }

// ReadExternal reads the configuration file of an outside issuer and the files that it names.
func ReadExternal(path string) (*identity.External, error) {
	return identity.OpenExternal(path, func(text []byte, into any) error {
		from := yaml.NewDecoder(bytes.NewReader(text))
		from.KnownFields(true)
		return from.Decode(into)
	})
}

// OpenExternal returns a badge with an outside issuer's certificate.
func OpenExternal(path string, now func() time.Time) (*Badge, error) {
	x, err := ReadExternal(path)
	if err != nil {
		return nil, err
	}
	b := &Badge{external: x, own: x.Identity(), trust: x.Trust(), now: now}
	b.trust.Now = now
	b.pair.Store(x.Pair())
	return b, nil
}

// Shows returns the key pair for the next handshake. It first reads the issuer's files if they have changed. While the
// issuer is replacing them, it returns the last complete pair.
func (b *Badge) Shows() *identity.Pair {
	if b.external != nil {
		_, _ = b.external.Refresh() // Keep reports errors
		b.pair.Store(b.external.Pair())
	}
	return b.pair.Load()
}

// keepExternal checks the issuer's files until the context ends.
func (b *Badge) keepExternal(ctx context.Context, log func(format string, args ...any)) {
	said := ""
	for {
		changed, err := b.external.Refresh()
		leaf := b.external.Pair().Leaf()
		if err == nil && b.now().After(leaf.NotAfter) {
			err = errors.New("its issuer has not replaced it")
		}
		switch {
		case err == nil && changed:
			log("This node uses a new certificate, valid until %s", Until(leaf))
			said = ""
		case err == nil:
			said = ""
		case err.Error() != said:
			said = err.Error()
			log("The certificate of this node, valid until %s, cannot be read again: %v; retrying",
				Until(leaf), err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookEvery):
		}
	}
}
