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

// This file owns the denylist: who is refused though the certificate is good. It is a file of lines, each an identity
// or a serial in hexadecimal digits as openssl prints it. An authority may stand there too: then all that it signed is
// refused.

const serialPrefix = "serial:"

// Denylist is read while it is replaced. A nil one denies nobody.
type Denylist struct {
	path string
	list atomic.Pointer[map[string]struct{}]
}

// NewDenylist is a list without a file, for what is denied by a program.
func NewDenylist(entries ...string) (*Denylist, error) {
	d := &Denylist{}
	return d, d.take([]byte(strings.Join(entries, "\n")))
}

// OpenDenylist reads the list from its file. No file is an empty list.
func OpenDenylist(path string) (*Denylist, error) {
	d := &Denylist{path: path}
	return d, d.Reload()
}

// Reload reads the file again. What cannot be read changes nothing: a list with a mistake in it must not let in those
// whom the one before refused.
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
		return fmt.Errorf("the denylist %s: %w", d.path, err)
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
				return fmt.Errorf("line %d: %.80q is no serial: write hexadecimal digits", n, digits)
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

// finds is the entry that denies somebody with a chain; empty: none does.
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
