package authn

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	testpace "github.com/yi-json/synapse/test/able/pace"
)

// This file owns what counts as something that came of a handshake, so that its source need not stand in line for it.

// TestGoodForSomething: a connection is good if a call on it was let in, which counts once, or if a certificate was
// signed over it. A client that only proves who it is, makes a call that its role may not make, or shows a spent token
// is not.
func TestGoodForSomething(t *testing.T) {
	s := newRigNow(t)
	came := func(want int64, what string) {
		t.Helper()
		for end := testpace.Until(10 * time.Second); s.good.Load() < want && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if got := s.good.Load(); got != want {
			t.Errorf("%s: something came of %d connections, want %d", what, got, want)
		}
	}
	ann := s.badgeNow(identity.RoleViewer, "ann")
	raw := must(net.Dial("tcp", s.address))
	defer raw.Close()
	if _, _, err := ann.Credentials(nil).ClientHandshake(t.Context(), s.address, raw); err != nil {
		t.Fatal(err)
	}
	came(0, "it is proved, and asks for nothing")

	conn, ask := s.open(ann.Credentials(nil))
	ctx, done := context.WithTimeout(t.Context(), testpace.Of(10*time.Second))
	defer done()
	stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err == nil {
		_, err = stream.Recv()
	}
	if err == nil {
		t.Error("a viewer reads what the table knows nothing of")
	}
	came(0, "a call that is refused")
	for range 2 {
		if err := ask(); err != nil {
			t.Fatal(err)
		}
	}
	came(1, "two calls")

	token := s.invite(credential.Invitation{}, 1)
	_ = must(credential.Join(t.Context(), token, []string{s.address}, credential.Joiner{Otherwise: "m1"}))
	came(2, "a machine that joined")
	if _, err := credential.Join(t.Context(), token, []string{s.address}, credential.Joiner{Otherwise: "m2"}); err == nil {
		t.Error("a token is spent twice")
	}
	came(2, "a token that is spent")
	if err := s.badgeNow(identity.RoleNode, "n1").Renew(t.Context(), []string{s.address}); err != nil {
		t.Fatal(err)
	}
	came(3, "a certificate that is renewed")
}
