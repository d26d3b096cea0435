// Package spiffe is an external issuer of certificates for tests. It signs IDs as SPIRE does, by a root and an
// intermediate authority, and writes the files of SPIRE's helper. It knows nothing of Synapse.
package spiffe

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Issuer signs for one trust domain.
type Issuer struct {
	t       testing.TB
	now     time.Time
	domain  string
	root    *x509.Certificate
	rootKey crypto.Signer
	between *x509.Certificate
	key     crypto.Signer // of the intermediate authority
}

// SVID is a signed certificate with its intermediates and its key.
type SVID struct {
	Key   crypto.Signer
	Chain []*x509.Certificate
}

// New returns an issuer of a domain, whose certificates are valid around a moment.
func New(t testing.TB, domain string, now time.Time) *Issuer {
	t.Helper()
	i := &Issuer{t: t, now: now, domain: domain}
	i.rootKey = i.newKey()
	template := i.authority()
	i.root = i.sign(template, template, i.rootKey, i.rootKey)
	i.Again()
	return i
}

// Again replaces the intermediate authority, as after the loss of its key, and returns the previous one.
func (i *Issuer) Again() (before *x509.Certificate) {
	i.t.Helper()
	before, i.key = i.between, i.newKey()
	i.between = i.sign(i.authority(), i.root, i.key, i.rootKey)
	return before
}

func (i *Issuer) authority() *x509.Certificate {
	return i.template("spiffe://"+i.domain, func(c *x509.Certificate) {
		c.IsCA, c.KeyUsage, c.ExtKeyUsage = true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign, nil
		c.NotAfter = i.now.Add(Lasts)
	})
}

// Lasts is the validity of its authorities.
const Lasts = 365 * 24 * time.Hour

func (i *Issuer) newKey() crypto.Signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	return key
}

func (i *Issuer) template(id string, change func(*x509.Certificate)) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	if err != nil {
		i.t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{Country: []string{"US"}, Organization: []string{"SPIRE"}},
		NotBefore: i.now.Add(-10 * time.Second), NotAfter: i.now.Add(time.Hour), BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if id != "" {
		where, err := url.Parse(id)
		if err != nil {
			i.t.Fatal(err)
		}
		c.URIs = []*url.URL{where}
	}
	if change != nil {
		change(c)
	}
	return c
}

func (i *Issuer) sign(template, by *x509.Certificate, of, with crypto.Signer) *x509.Certificate {
	der, err := x509.CreateCertificate(rand.Reader, template, by, of.Public(), with)
	if err != nil {
		i.t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		i.t.Fatal(err)
	}
	return made
}

// Sign creates a key and a certificate for an ID. change, if not nil, modifies the certificate.
func (i *Issuer) Sign(id string, change func(*x509.Certificate)) SVID {
	i.t.Helper()
	return i.SignKey(id, i.newKey(), change)
}

// SignKey creates a certificate for an ID and a key.
func (i *Issuer) SignKey(id string, key crypto.Signer, change func(*x509.Certificate)) SVID {
	i.t.Helper()
	leaf := i.sign(i.template(id, change), i.between, key, i.key)
	return SVID{Key: key, Chain: []*x509.Certificate{leaf, i.between}}
}

// Write writes the files of an ID into a folder: svid.pem, svid_key.pem and bundle.pem.
func (i *Issuer) Write(dir string, one SVID) {
	i.t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(one.Key)
	if err != nil {
		i.t.Fatal(err)
	}
	var chain []byte
	for _, c := range one.Chain {
		chain = append(chain, encode("CERTIFICATE", c.Raw)...)
	}
	i.Put(dir, "svid.pem", chain)
	i.Put(dir, "svid_key.pem", encode("PRIVATE KEY", key))
	i.Put(dir, "bundle.pem", i.Bundle())
}

// Bundle returns its root in the form of a file.
func (i *Issuer) Bundle() []byte { return encode("CERTIFICATE", i.root.Raw) }

// Put replaces a file of a folder, which only its owner can read.
func (i *Issuer) Put(dir, name string, text []byte) {
	i.t.Helper()
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, ".new"), text, 0o600)
	}
	if err == nil {
		err = os.Rename(filepath.Join(dir, ".new"), filepath.Join(dir, name))
	}
	if err != nil {
		i.t.Fatal(err)
	}
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// Serial returns a certificate's serial number, as openssl prints it.
func (s SVID) Serial() string { return s.Chain[0].SerialNumber.Text(16) }
