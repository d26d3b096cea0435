package identity

import (
	"bufio"
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"strings"
	"sync/atomic"
)

// This file owns the denylist: identities that are refused despite a valid certificate. It is a file with one entry per
// line, an identity or a serial number in hexadecimal digits, as openssl prints it. An entry may also be an authority,
// which denies everything that the authority signed.

const serialPrefix = "serial:"

// Denylist is a denylist that may be replaced while it is read. A nil Denylist denies nobody.
type Denylist struct {
	path string
	list atomic.Pointer[map[string]struct{}]
}

// NewDenylist returns a list without a file, for entries that a program sets.
func NewDenylist(entries ...string) (*Denylist, error) {
	d := &Denylist{}
	return d, d.take([]byte(strings.Join(entries, "\n")))
}

// OpenDenylist reads the list from its file. A missing file is an empty list.
func OpenDenylist(path string) (*Denylist, error) {
	d := &Denylist{path: path}
	return d, d.Reload()
}

// Reload reads the file again. An invalid file changes nothing, because a mistake must not admit identities that were
// denied before.
func (d *Denylist) Reload() error {
	if d == nil || d.path == "" {
		return nil
	}
	text, err := os.ReadFile(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return d.take(nil)
	}
	if err == nil {
		err = d.take(text)
	}
	if err != nil {
		return fmt.Errorf("denylist %s: %w", d.path, err)
	}
	return nil
}

func (d *Denylist) take(text []byte) error {
	list := map[string]struct{}{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		entry, _, _ := strings.Cut(lines.Text(), "#")
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		if digits, ok := strings.CutPrefix(entry, serialPrefix); ok {
			serial, ok := new(big.Int).SetString(strings.ReplaceAll(digits, ":", ""), 16)
			if !ok {
				return fmt.Errorf("line %d: %.80q is not a serial number: use hexadecimal digits", n, digits)
			}
			entry = serialOf(serial)
		} else if _, err := Parse(entry); err != nil {
			return fmt.Errorf("line %d: %w (or %sDIGITS)", n, err, serialPrefix)
		}
		list[entry] = struct{}{}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	d.list.Store(&list)
	return nil
}

func serialOf(serial *big.Int) string { return serialPrefix + serial.Text(16) }

// has reports whether an entry is on the list.
func (d *Denylist) has(entry string) bool {
	if d == nil {
		return false
	}
	_, ok := (*d.list.Load())[entry]
	return ok
}

// finds returns the entry that denies an identity with its chain. It returns the empty string if there is none.
func (d *Denylist) finds(who Identity, chain []*x509.Certificate) string {
	if d == nil || len(*d.list.Load()) == 0 {
		return ""
	}
	if entry := who.String(); d.has(entry) {
		return entry
	}
	for _, c := range chain {
		entries := []string{serialOf(c.SerialNumber)}
		if i, err := named(c); err == nil {
			entries = append(entries, i.String())
		}
		for _, entry := range entries {
			if d.has(entry) {
				return entry
			}
		}
	}
	return ""
}
