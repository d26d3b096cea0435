// Package secretseal encrypts ("seals") the secrets of jobs with keys outside the store. The store and its backups
// therefore contain nothing readable without a key. The package manages the key file; its callers store the sealed
// values.
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

// This file manages the keys, and seals and opens values.

// FileName is the name of the key file in the folder of a scheduler's certificates.
const FileName = "secrets.key"

const (
	keyBytes = 32
	idBytes  = 8
	// form is the first byte of a sealed value. Another format must use another byte.
	form = 1

	maxKeys      = 64
	maxFileBytes = 64 << 10
)

// ErrNoKey is returned if no key opens a value.
var ErrNoKey = errors.New("no key decrypts the value")

// Sealer seals and opens values with the keys of a file. The first key seals, and all keys open. The file is read
// for each operation, so keys can be added and removed while a scheduler runs.
type Sealer struct{ path string }

// New returns the Sealer of a key file.
func New(path string) *Sealer { return &Sealer{path: path} }

// Path returns the path of the key file.
func (v *Sealer) Path() string { return v.path }

// Make creates a file with one new key, unless the file exists. It reports whether it created the file.
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

// NewKey returns a new line for a key file.
func NewKey() string {
	var fresh [keyBytes]byte
	_, _ = rand.Read(fresh[:]) // never fails
	return base64.StdEncoding.EncodeToString(fresh[:])
}

// Check reads the keys, and returns what is wrong with the file.
func (v *Sealer) Check() error {
	_, err := v.keys()
	return err
}

// key is one key of the file. The start of its hash identifies it.
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

// parse reads a key file: one key per line in base64, and comments that start with #. Errors never contain a line.
func parse(text string) (all []key, err error) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		raw, err := base64.StdEncoding.DecodeString(line)
		if err != nil || len(raw) != keyBytes {
			return nil, fmt.Errorf("line %d is not a key of %d bytes in base64: create one with `head -c %d /dev/urandom | "+
				"base64`",
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
			return nil, fmt.Errorf("has more than %d keys: remove the keys that no unfinished job needs", maxKeys)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("has no key")
	}
	return all, nil
}

// Seal encrypts a text. Open requires the same values of about, so a sealed text cannot be used for another
// purpose.
func (v *Sealer) Seal(text []byte, about ...string) ([]byte, error) {
	keys, err := v.keys()
	if err != nil {
		return nil, err
	}
	k := keys[0]
	sealed := append([]byte{form}, k.id[:]...)
	nonce := make([]byte, k.seal.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	sealed = append(sealed, nonce...)
	return k.seal.Seal(sealed, nonce, text, bound(about)), nil
}

// Open returns the sealed text, or ErrNoKey.
func (v *Sealer) Open(sealed []byte, about ...string) ([]byte, error) {
	keys, err := v.keys()
	if err != nil {
		return nil, err
	}
	if len(sealed) < 1+idBytes || sealed[0] != form {
		return nil, errors.New("encrypted value has an unsupported format")
	}
	id, rest := sealed[1:1+idBytes], sealed[1+idBytes:]
	for _, k := range keys {
		if !bytes.Equal(k.id[:], id) || len(rest) < k.seal.NonceSize() {
			continue
		}
		nonce, text := rest[:k.seal.NonceSize()], rest[k.seal.NonceSize():]
		opened, err := k.seal.Open(nil, nonce, text, bound(about))
		if err != nil {
			return nil, errors.New("encrypted value is corrupted or belongs to another job")
		}
		return opened, nil
	}
	return nil, ErrNoKey
}

// bound encodes a list of texts so that different lists have different encodings.
func bound(about []string) (all []byte) {
	for _, part := range about {
		all = binary.AppendUvarint(all, uint64(len(part)))
		all = append(all, part...)
	}
	return all
}
