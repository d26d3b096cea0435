package identity

import (
	"crypto"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// This file owns the files of an outside issuer. The issuer may replace them at any time, one after the other. While
// they do not match each other, the last matching set stays in use.

// maxKeyBytes limits the size of a key file.
const maxKeyBytes = 1 << 20

// fileStamp identifies a version of a file.
type fileStamp struct {
	info os.FileInfo
}

func (s fileStamp) same(other os.FileInfo) bool {
	return os.SameFile(s.info, other) && s.info.ModTime().Equal(other.ModTime()) && s.info.Size() == other.Size()
}

// names returns the path of a configured file. A relative path starts at the folder of the configuration file.
func (x *External) names(file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(filepath.Dir(x.path), file)
}

// files returns the paths of certificate, key and bundle.
func (x *External) files() [3]string {
	return [3]string{x.names(x.config.Cert), x.names(x.config.Key), x.names(x.config.Bundle)}
}

// KeyFolder returns the folder of the key. Tasks must not be able to read it.
func (x *External) KeyFolder() string { return filepath.Dir(x.files()[1]) }

// Identity returns the own identity in the cluster.
func (x *External) Identity() Identity { return x.own }

// Pair returns the key and certificate that were last read.
func (x *External) Pair() *Pair { return x.held.Load().pair }

// Trust returns the trusted bundle with the configured identities.
func (x *External) Trust() *Trust { return &Trust{Cluster: x.config.Cluster, External: x} }

// Denylist returns the configured denylist, or the one next to the configuration file.
func (x *External) Denylist() (*Denylist, error) {
	if x.config.Denylist == "" {
		return OpenDenylist(x.names(denylistFile))
	}
	return OpenDenylist(x.names(x.config.Denylist))
}

// Refresh reads the files again if one of them has changed, and reports whether the key pair has changed. If the files
// do not match each other, the last ones stay in use.
func (x *External) Refresh() (changed bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	before := x.held.Load()
	if same, err := x.unchanged(before); same || err != nil {
		return false, err
	}
	h, own, err := x.read()
	switch {
	case err != nil:
		return false, err
	case own != x.own:
		return false, fmt.Errorf("%s now has the identity %s instead of %s: restart to change it",
			x.files()[0], own, x.own)
	}
	x.held.Store(h)
	return !h.pair.Leaf().Equal(before.pair.Leaf()), nil
}

// unchanged reports whether all files are the versions that were read.
func (x *External) unchanged(before *issuedFiles) (bool, error) {
	for i, path := range x.files() {
		info, err := os.Stat(path)
		if err != nil {
			return false, err
		}
		if !before.files[i].same(info) {
			return false, nil
		}
	}
	return true, nil
}

// read reads the files. It takes their stamps first, so a file that is replaced meanwhile is read again later.
func (x *External) read() (*issuedFiles, Identity, error) {
	h := &issuedFiles{}
	files := x.files()
	for i, key := range []string{"cert", "key", "bundle"} {
		info, err := os.Stat(files[i])
		if err != nil {
			return nil, Identity{}, fmt.Errorf("%s: %s: %w", x.path, key, err)
		}
		h.files[i] = fileStamp{info}
	}
	var err error
	if h.roots, err = readCertificates(files[2]); err != nil {
		return nil, Identity{}, fmt.Errorf("%s: bundle: %w", x.path, err)
	}
	if h.pair, err = readPair(files[0], files[1]); err != nil {
		return nil, Identity{}, fmt.Errorf("%s: %w", x.path, err)
	}
	own, _, err := x.config.who(h.pair.Leaf())
	if err != nil {
		return nil, Identity{}, fmt.Errorf("%s: cert: %s: %w", x.path, files[0], err)
	}
	return h, own, nil
}

// readPair reads a certificate and its key of any type.
func readPair(cert, key string) (*Pair, error) {
	secret, err := ReadPrivate(key, maxKeyBytes)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	chain, err := readCertificates(cert)
	if err != nil {
		return nil, fmt.Errorf("cert: %w", err)
	}
	both, err := tls.X509KeyPair(encode(chain), secret)
	if err != nil {
		return nil, fmt.Errorf("cert and key: %s and %s: %w", cert, key, err)
	}
	signer, ok := both.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("key: %s cannot sign", key)
	}
	return &Pair{Key: signer, Chain: chain}, nil
}

// roots returns the authorities that an end trusts now.
func (t *Trust) roots() []*x509.Certificate {
	if t.External != nil {
		return t.External.held.Load().roots
	}
	return t.Roots
}

// judgeExternal checks the chain of an outside issuer against Synapse's rules, as judge does for Synapse's own
// certificates.
func (t *Trust) judgeExternal(chain []*x509.Certificate, usage x509.ExtKeyUsage) (Peer, error) {
	leaf := chain[0]
	if leaf.IsCA || leaf.KeyUsage&(x509.KeyUsageCertSign|x509.KeyUsageCRLSign) != 0 {
		return Peer{}, fmt.Errorf("%w: it belongs to an authority, which must not open connections", ErrUnknown)
	}
	who, bounds, err := t.External.config.who(leaf)
	if err != nil {
		return Peer{}, err
	}
	if !slices.Contains(accepted[usage], who.Role) {
		return Peer{}, fmt.Errorf("%w: %s is not allowed at that end", ErrRole, who)
	}
	if denied := t.Denied.finds(who, chain); denied != "" {
		return Peer{}, fmt.Errorf("%w: %s", ErrDenied, denied)
	}
	return Peer{
		Identity: who, Until: leaf.NotAfter, Bounds: bounds, chain: chain, LocalUser: t.External.config.LocalUsers,
		// Each certificate has a new key, so the ID identifies the peer.
		Key: sha256.Sum256([]byte(leaf.URIs[0].String())),
	}, nil
}

// recheckExternal refuses a peer whose issuer is no longer in the bundle.
func (t *Trust) recheckExternal(p Peer) error {
	root := p.chain[len(p.chain)-1]
	if t.External == nil || slices.ContainsFunc(t.roots(), root.Equal) {
		return nil
	}
	return fmt.Errorf("%w: its issuer is no longer in the bundle", ErrUnknown)
}

// Late returns an error if a certificate is not valid at a time.
func (p *Pair) Late(now time.Time) error {
	if leaf := p.Leaf(); now.After(leaf.NotAfter) {
		return &TimeError{Certificate: leaf, Now: now}
	}
	return nil
}
