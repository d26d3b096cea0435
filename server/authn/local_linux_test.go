package authn

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/server/audit"
	"github.com/yi-json/synapse/server/unixsocket"
)

// here serves the rig on a socket too, and returns a connection to it.
func (s *rig) here() (conn *grpc.ClientConn, ask func() error) {
	s.t.Helper()
	dir := s.t.TempDir()
	server := grpc.NewServer(append(s.gate.ServerOptions(), grpc.Creds(s.gate.Credentials()))...)
	grpc_health_v1.RegisterHealthServer(s.gate.Services(server), health.NewServer())
	reflection.Register(s.gate.Services(server))
	at := must(unixsocket.Listen(dir))
	go server.Serve(at)
	s.t.Cleanup(server.Stop)
	conn = must(grpc.NewClient("passthrough:///here", grpc.WithTransportCredentials(credential.Beside(nil)),
		grpc.WithDisableRetry(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return unixsocket.Dial(ctx, unixsocket.Path(dir))
		})))
	s.t.Cleanup(func() { conn.Close() })
	return conn, func() error {
		_, err := grpc_health_v1.NewHealthClient(conn).Check(s.t.Context(), &grpc_health_v1.HealthCheckRequest{})
		return err
	}
}

// newAudited returns a rig with an audit log, and a function that returns its lines.
func newAudited(t *testing.T) (*rig, func() []audit.Line) {
	t.Helper()
	s, dir := newRig(t), t.TempDir()
	s.gate.o.Audit = must(audit.Open(dir, s.clock, s.log))
	t.Cleanup(func() { s.gate.o.Audit.Close() })
	return s, func() (all []audit.Line) {
		_, err := audit.Read(bytes.NewReader(must(os.ReadFile(filepath.Join(dir, audit.File)))), func(l audit.Line) error {
			all = append(all, l)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
}

// TestLocal checks that the scheduler's user is an admin on the socket, under its user name, unless it is denied.
// The audit log contains the uid.
func TestLocal(t *testing.T) {
	s, read := newAudited(t)
	conn, ask := s.here()
	if err := errors.Join(ask(), reflects(t, conn)); err != nil { // only users may do this
		t.Fatal(err)
	}
	s.pass(1000 * time.Hour)
	s.gate.recheck()
	if err := ask(); err != nil {
		t.Errorf("time ends it: %v", err)
	}
	who := "synapse://c-a/admin/" + userName(uint32(os.Geteuid()))
	s.deny(who + "\n")
	if n := s.tells("Closed the connection of " + who); n != 1 {
		t.Errorf("the log has %q", s.lines)
	}
	_, again := s.here()
	if err := again(); err == nil || s.tells("identity is on the denylist: "+who) == 0 {
		t.Errorf("who is denied comes in: %v", err)
	}
	found := false
	for _, line := range read() {
		from := unixsocket.Caller{UID: uint32(os.Geteuid())}
		found = found || line.Who == who && line.From == from.String()
	}
	if !found {
		t.Errorf("the audit does not have who it was: %v", read())
	}
}

// TestLocalRefused checks that another user, and a confined process of the scheduler's user, are refused with a
// reason. The refusal is in the log and the audit log once, with the uid.
func TestLocalRefused(t *testing.T) {
	s, read := newAudited(t)
	own := uint32(os.Geteuid())
	for words, c := range map[string]unixsocket.Conn{
		"process of uid 61874 is refused: the local socket accepts only root and uid": {
			Who: unixsocket.Caller{UID: 61874}},
		"is refused: it runs as a task": {
			Who: unixsocket.Caller{UID: own}, Refused: errors.New("it runs as a task")},
	} {
		ours, theirs := net.Pipe()
		c.Conn = ours
		told := make(chan error, 1)
		go func() {
			_, _, err := credential.Beside(nil).ClientHandshake(t.Context(), "", theirs)
			told <- err
		}()
		_, _, err := s.gate.Credentials().ServerHandshake(&c)
		var refused *credential.Refused
		if got := <-told; err == nil || !errors.As(got, &refused) || !strings.Contains(got.Error(), words) {
			t.Errorf("%s: %v; it was told %v", words, err, got)
		}
		if n := s.tells(words); n != 1 {
			t.Errorf("%s: %d lines of the log", words, n)
		}
	}
	lines := 0
	for _, line := range read() {
		if strings.HasPrefix(line.Outcome, audit.Refused) && strings.HasSuffix(line.From, " by the local socket") {
			lines++
		}
	}
	if lines != 2 {
		t.Errorf("the audit has %d of them: %v", lines, read())
	}
}

// TestUserNames checks that a user whose name is not valid in a cluster is identified by uid.
func TestUserNames(t *testing.T) {
	if got := userName(4294967); got != "uid-4294967" {
		t.Errorf("it is called %s", got)
	}
	if root, err := user.LookupId("0"); err == nil && userName(0) != root.Username {
		t.Errorf("root is called %s", userName(0))
	}
}
