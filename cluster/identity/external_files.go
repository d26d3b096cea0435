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

// This file owns the files of an outside issuer: they are replaced at any time, one after the other, and a moment at
// which they do not belong together changes nothing here.

// maxKeyBytes bounds a file with a key.
const maxKeyBytes = 1 << 20

// fileStamp is by what a file is known to be another one than before.
type fileStamp struct {
	info os.FileInfo
}

func (s fileStamp) same(other os.FileInfo) bool {
	return os.SameFile(s.info, other) && s.info.ModTime().Equal(other.ModTime()) && s.info.Size() == other.Size()
}

// names is the file of a setting, which is relative to the configuration.
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

// KeyFolder is where the key is: no task may see it.
func (x *External) KeyFolder() string { return filepath.Dir(x.files()[1]) }

// Identity returns the own identity in the cluster.
func (x *External) Identity() Identity { return x.own }

// Pair is our key and certificate, as they were last read.
func (x *External) Pair() *Pair { return x.held.Load().pair }

// Trust returns the trusted bundle with the configured identities.
func (x *External) Trust() *Trust { return &Trust{Cluster: x.config.Cluster, External: x} }

// Denylist is the one that the configuration names, else the one beside it.
func (x *External) Denylist() (*Denylist, error) {
	if x.config.Denylist == "" {
		return OpenDenylist(x.names(denylistFile))
	}
	return OpenDenylist(x.names(x.config.Denylist))
}

// Refresh reads the files again if one of them is another than before, and reports whether what we show is. While they
// do not belong together, what was read before stays in use.
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
		return false, fmt.Errorf("%s is of %s now, and we are %s: to be another one, start again", x.files()[0], own, x.own)
	}
	x.held.Store(h)
	return !h.pair.Leaf().Equal(before.pair.Leaf()), nil
}

// unchanged reports whether all files are those that were read.
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

// read reads the files. They are looked at first: one that is replaced meanwhile is read again the next time.
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

// readPair reads a certificate and its key, of whatever kind the issuer makes them.
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
		return nil, fmt.Errorf("key: %s signs nothing", key)
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

// judgeExternal holds a chain of an outside issuer against our rules, as judge does with ours.
func (t *Trust) judgeExternal(chain []*x509.Certificate, usage x509.ExtKeyUsage) (Peer, error) {
	leaf := chain[0]
	if leaf.IsCA || leaf.KeyUsage&(x509.KeyUsageCertSign|x509.KeyUsageCRLSign) != 0 {
		return Peer{}, fmt.Errorf("%w: it is an authority's, which opens no connection", ErrUnknown)
	}
	who, bounds, err := t.External.config.who(leaf)
	if err != nil {
		return Peer{}, err
	}
	if !slices.Contains(accepted[usage], who.Role) {
		return Peer{}, fmt.Errorf("%w: it is %s, which must not be at that end", ErrRole, who)
	}
	if denied := t.Denied.finds(who, chain); denied != "" {
		return Peer{}, fmt.Errorf("%w: %s", ErrDenied, denied)
	}
	return Peer{
		Identity: who, Until: leaf.NotAfter, Bounds: bounds, chain: chain, LocalUser: t.External.config.LocalUsers,
		// Each of its certificates has a key of its own, so what stays the same is the id.
		Key: sha256.Sum256([]byte(leaf.URIs[0].String())),
	}, nil
}

// recheckExternal refuses a peer whose issuer is believed no longer: the bundle has changed since.
func (t *Trust) recheckExternal(p Peer) error {
	root := p.chain[len(p.chain)-1]
	if t.External == nil || slices.ContainsFunc(t.roots(), root.Equal) {
		return nil
	}
	return fmt.Errorf("%w: what signed it is in the bundle no longer", ErrUnknown)
}

// Late is why a certificate cannot be shown at a time; nil: it can.
func (p *Pair) Late(now time.Time) error {
	if leaf := p.Leaf(); now.After(leaf.NotAfter) {
		return &TimeError{Certificate: leaf, Now: now}
	}
	return nil
}
