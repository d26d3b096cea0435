package secretseal

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzOpen checks that only sealed values can be opened, and only for their purpose, for any stored bytes.
func FuzzOpen(f *testing.F) {
	v := New(filepath.Join(f.TempDir(), FileName))
	if _, err := v.Make(); err != nil {
		f.Fatal(err)
	}
	text := []byte("hush")
	sealed, err := v.Seal(text, "ann", "TOKEN")
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(nil), 0, byte(0), "ann", "TOKEN")
	f.Add([]byte{form}, 0, byte(0), "ann", "TOKEN")
	f.Add(sealed[:1+idBytes], 0, byte(0), "ann", "TOKEN")
	f.Add(sealed, 0, byte(0), "annT", "OKEN")
	f.Add(sealed, 0, byte(1), "ann", "TOKEN")
	f.Add(sealed, 1+idBytes, byte(1), "ann", "TOKEN")
	f.Fuzz(func(t *testing.T, other []byte, at int, turned byte, owner, name string) {
		if len(other) > 0 && bytes.Equal(other[:min(len(other), len(sealed))], sealed[:min(len(other), len(sealed))]) {
			other = bytes.Clone(sealed) // the value was truncated, which a change of the complete value tests better
			other[uint(at)%uint(len(other))] ^= turned
		}
		opened, err := v.Open(other, owner, name)
		whole := bytes.Equal(other, sealed) && owner == "ann" && name == "TOKEN"
		if whole != (err == nil) || whole && !bytes.Equal(opened, text) {
			t.Errorf("%x about %q, %q: %q, %v", other, owner, name, opened, err)
		}
	})
}

// FuzzKeys checks that any key file is read or refused, without its content in the error, and that keys seal and
// open.
func FuzzKeys(f *testing.F) {
	for _, text := range []string{
		"", "# none\n", NewKey(), NewKey() + "\n\n# an older one\n" + NewKey() + "\n", NewKey()[1:], strings.Repeat("A", 44),
		"AAAA\n", strings.Repeat(NewKey()+"\n", maxKeys+1), "\xff\xfe", "=" + NewKey(),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := parse(text)
		if (err == nil) != (len(keys) > 0) || len(keys) > maxKeys {
			t.Errorf("%d keys, and %v", len(keys), err)
		}
		if err != nil {
			for line := range strings.Lines(text) {
				if line = strings.TrimSpace(line); len(line) > 20 && strings.Contains(err.Error(), line) {
					t.Errorf("it says what is in the file: %v", err)
				}
			}
			return
		}
		nonce := make([]byte, keys[0].seal.NonceSize())
		sealed := keys[0].seal.Seal(nil, nonce, []byte("hush"), nil)
		if opened, err := keys[0].seal.Open(nil, nonce, sealed, nil); err != nil || string(opened) != "hush" {
			t.Errorf("sealed, and opened as %q: %v", opened, err)
		}
	})
}
