// Package secretseal seals the secrets of jobs, so that a store and its backups hold nothing that can be read without a
// key which lies outside of them. It keeps the file of keys, and nothing else: what is sealed is its caller's to keep.
package secretseal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/yi-json/synapse/cluster/identity"
)

// This file owns the keys, and how they seal and open.

// FileName is the name of the file of keys in the folder of a scheduler's certificates.
const FileName = "secrets.key"

const (
	keyBytes = 32
	idBytes  = 8
	// form is the first byte of what is sealed: another way to seal has another one.
	form = 1

	maxKeys      = 64
	maxFileBytes = 64 << 10
)

// ErrNoKey is returned for what none of the keys opens.
var ErrNoKey = errors.New("none of the keys opens it")

// Sealer seals and opens with the keys of a file: the first one seals, and each opens. The file is read whenever it is
// needed, so that a key may be added, or taken out, while a scheduler runs.
type Sealer struct{ path string }

// New makes the sealer of a file of keys.
func New(path string) *Sealer { return &Sealer{path: path} }

// Path returns where the keys are.
func (v *Sealer) Path() string { return v.path }

// Make makes a file of one new key, unless there is a file: nothing is written over a key. It reports whether it made
// one.
func (v *Sealer) Make() (bool, error) {
	if err := os.MkdirAll(filepath.Dir(v.path), 0o700); err != nil {
		return false, err
	}
	file, err := os.OpenFile(v.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = file.WriteString(NewKey() + "\n")
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return false, errors.Join(err, os.Remove(v.path))
	}
	dir, err := os.Open(filepath.Dir(v.path))
	if err != nil {
		return true, err
	}
	defer dir.Close()
	return true, dir.Sync()
}

// NewKey is a line of a file of keys.
func NewKey() string {
	var fresh [keyBytes]byte
	_, _ = rand.Read(fresh[:]) // it does not fail
	return base64.StdEncoding.EncodeToString(fresh[:])
}

// Check reads the keys, and says what is wrong with the file.
func (v *Sealer) Check() error {
	_, err := v.keys()
	return err
}

// key is one of the file, with the beginning of its hash, by which it is found again.
type key struct {
	id   [idBytes]byte
	seal cipher.AEAD
}

func (v *Sealer) keys() ([]key, error) {
	text, err := identity.ReadPrivate(v.path, maxFileBytes)
	if err != nil {
		return nil, err
	}
	all, err := parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", v.path, err)
	}
	return all, nil
}

// parse reads a file of keys: one a line, in base64; what begins with # is a comment. An error never has the line.
func parse(text string) (all []key, err error) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		raw, err := base64.StdEncoding.DecodeString(line)
		if err != nil || len(raw) != keyBytes {
			return nil, fmt.Errorf("line %d is not a key: %d bytes in base64, as `head -c %d /dev/urandom | base64` makes them",
				n, keyBytes, keyBytes)
		}
		block, err := aes.NewCipher(raw)
		if err != nil {
			return nil, err
		}
		k := key{}
		sum := sha256.Sum256(raw)
		copy(k.id[:], sum[:])
		if k.seal, err = cipher.NewGCM(block); err != nil {
			return nil, err
		}
		if all = append(all, k); len(all) > maxKeys {
			return nil, fmt.Errorf("has more than %d keys: take out those that seal no live job any more", maxKeys)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("has no key")
	}
	return all, nil
}

// Seal seals a text. What it is about must be said again to open it: it cannot be put in another place.
func (v *Sealer) Seal(text []byte, about ...string) ([]byte, error) {
	keys, err := v.keys()
	if err != nil {
		return nil, err
	}
	k := keys[0]
	sealed := append([]byte{form}, k.id[:]...)
	nonce := make([]byte, k.seal.NonceSize())
	_, _ = rand.Read(nonce) // it does not fail
	sealed = append(sealed, nonce...)
	return k.seal.Seal(sealed, nonce, text, bound(about)), nil
}

// Open answers the text that was sealed, or ErrNoKey.
func (v *Sealer) Open(sealed []byte, about ...string) ([]byte, error) {
	keys, err := v.keys()
	if err != nil {
		return nil, err
	}
	if len(sealed) < 1+idBytes || sealed[0] != form {
		return nil, errors.New("it was not sealed in a way that is known here")
	}
	id, rest := sealed[1:1+idBytes], sealed[1+idBytes:]
	for _, k := range keys {
		if !bytes.Equal(k.id[:], id) || len(rest) < k.seal.NonceSize() {
			continue
		}
		nonce, text := rest[:k.seal.NonceSize()], rest[k.seal.NonceSize():]
		opened, err := k.seal.Open(nil, nonce, text, bound(about))
		if err != nil {
			return nil, errors.New("it is not what was sealed, or not of this job")
		}
		return opened, nil
	}
	return nil, ErrNoKey
}

// bound writes what it is about, so that no two lists of texts are alike.
func bound(about []string) (all []byte) {
	for _, part := range about {
		all = binary.AppendUvarint(all, uint64(len(part)))
		all = append(all, part...)
	}
	return all
}
