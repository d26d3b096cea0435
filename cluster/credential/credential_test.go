package credential

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/cluster/identity"
)

// TestNamesThatAreTaken checks that a name is free for any key until a node has joined under it, and then only for that
// node's key. If the record is unreadable, no key may use the name.
func TestNamesThatAreTaken(t *testing.T) {
	by := &identity.Folder{Dir: t.TempDir()}
	own := identity.Digest{1, 2, 3}
	path := filepath.Join(by.Dir, machinesFolder, "n1")
	write := func(text string) func() error {
		return func() error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	for _, c := range []struct {
		what  string
		have  func() error
		taken bool
	}{
		{"no record", func() error { return os.MkdirAll(filepath.Dir(path), 0o700) }, false},
		{"its own", func() error { return Bind(by, "n1", own) }, false},
		{"another key", func() error { return Bind(by, "n1", identity.Digest{1, 2, 4}) }, true},
		{"without a line's end", write(hex.EncodeToString(own[:])), false},
		{"half of its own", write(hex.EncodeToString(own[:16])), true},
		{"nothing", write(""), true},
		{"a record that cannot be read", func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }, true},
	} {
		if err := c.have(); err != nil {
			t.Fatal(err)
		}
		if got := Taken(by, "n1", own); got != c.taken {
			t.Errorf("%s: the name is taken: %v", c.what, got)
		}
	}
}

// FuzzJoining checks that any request is read or refused without a panic.
func FuzzJoining(f *testing.F) {
	f.Add([]byte(`{"secret":"AAAA","name":"n1","request":"AAAA"}`))
	f.Add([]byte(`{"secret":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if q, err := ReadJoining(text); err == nil && len(q.Secret) != secretBytes {
			t.Errorf("a secret of %d bytes", len(q.Secret))
		}
	})
}

// FuzzTicket checks that a join token has only one written form.
func FuzzTicket(f *testing.F) {
	f.Add("synapse1.c-a." + strings.Repeat("00", 32) + "." + strings.Repeat("ff", 32))
	f.Add("synapse1...")
	f.Fuzz(func(t *testing.T, text string) {
		k, err := readTicket(text)
		if err == nil && (len(k.secret) != secretBytes || identity.CheckCluster(k.cluster) != nil) {
			t.Errorf("%q is read as %v", text, k)
		}
	})
}

// FuzzAnswer checks that a frame is limited in size, and that an answer is a certificate chain or a refusal, whatever
// the peer sends.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte{0, 0, 0, 2, AnswerRefused, 'x'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, AnswerGood})
	f.Fuzz(func(t *testing.T, text []byte) {
		frame, err := ReadFrame(bytes.NewReader(text))
		if err != nil {
			return
		}
		if len(frame) > MaxFrame {
			t.Errorf("a frame of %d bytes", len(frame))
		}
		if chain, err := readAnswer(frame); (err == nil) == (len(chain) == 0) {
			t.Errorf("%d certificates, and %v", len(chain), err)
		}
	})
}

// FuzzBearer checks that a user's token has only one written form, and that an error contains no part of the token.
func FuzzBearer(f *testing.F) {
	text, _, err := NewPass("c-a", [32]byte{1})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add("synapselogin1.c.00.00")
	f.Add(WithRoot("c-a", [32]byte{1}, "a.b.c"))
	f.Add(WithRoot("c-a", [32]byte{1}, "x\v.b.c"))
	f.Add(strings.Replace(WithRoot("c-a", [32]byte{1}, "x.b.c"), ".x", ".\vx", 1)) // was accepted, and written without it
	f.Fuzz(func(t *testing.T, text string) {
		b, err := ReadBearer(text)
		if err != nil {
			return
		}
		want := fmt.Sprintf("%s.%s.%x.%x", PassPrefix, b.Cluster(), b.Root(), b.Secret())
		if b.protocol == ProtocolIssued {
			want = WithRoot(b.Cluster(), b.Root(), string(b.Secret()))
		}
		if !strings.EqualFold(strings.TrimSpace(text), want) {
			t.Errorf("%q is read as %v", text, b)
		}
	})
}
