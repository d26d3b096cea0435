package e2e

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests authentication with real processes. A cluster under TLS must run a gang, and a foreign peer must be
// rejected on both sides, with one line and the right exit code.

// secured is a cluster under TLS, with the directory of its keys.
type secured struct {
	*cluster
	keys string
}

func newSecured(t *testing.T, more ...string) *secured {
	t.Helper()
	everywhere(t)
	keys := filepath.Join(t.TempDir(), "keys")
	made := ask(t, (&cluster{}).command(filepath.Join(bin, "synapse-cli"), "init", keys, "--cluster", "e2e"))
	made.wants(t, 0, "", "The keys of cluster e2e are in")
	s := &secured{newCluster(t, append(more, "--tls", filepath.Join(keys, "scheduler"))...), keys}
	badge, err := credential.OpenBadge(filepath.Join(keys, "admin"), identity.RoleAdmin)
	if err != nil {
		t.Fatal(err)
	}
	s.client = s.through(badge)
	return s
}

// through returns a client with a badge.
func (s *secured) through(badge *credential.Badge) api.SynapseClient {
	s.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+s.address, grpc.WithTransportCredentials(badge.Credentials(nil)))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	return api.NewSynapseClient(conn)
}

// folder returns the keys of a node, made by the command.
func (s *secured) folder(role, name string) string {
	s.t.Helper()
	out := filepath.Join(s.keys, name)
	s.cli("certify", role, name, "--by", filepath.Join(s.keys, "scheduler"), "--out", out).wants(s.t, 0, "", "is in")
	return out
}

// as runs the command line with a folder of keys. An empty folder means plaintext.
func (s *secured) as(folder string, args ...string) result {
	s.t.Helper()
	cmd := s.command(filepath.Join(bin, "synapse-cli"), args...)
	cmd.Env = append(cmd.Env, "SYNAPSE_TLS="+folder)
	return ask(s.t, cmd)
}

// made creates a folder that no command creates: from another time, or of another cluster.
func made(t *testing.T, by *identity.Folder, role identity.Role, at time.Time) string {
	t.Helper()
	folder, err := by.Certify(role, "n9", at)
	if err != nil {
		t.Fatal(err)
	}
	folder.Dir = filepath.Join(t.TempDir(), "n9")
	if err := folder.Create(); err != nil {
		t.Fatal(err)
	}
	return folder.Dir
}

func TestClusterUnderTLS(t *testing.T) {
	s := newSecured(t)
	for _, id := range []string{"n1", "n2"} {
		s.node(id, "r1", "--tls", s.folder("node", id))
	}
	id := s.submit(gang(2, 8, "echo rank $SYNAPSE_RANK"))
	s.await(id, "succeeded")
	if got := s.logs(id); !strings.Contains(got, "rank 0") || !strings.Contains(got, "rank 1") {
		t.Errorf("the gang wrote %q", got)
	}
	admin := filepath.Join(s.keys, "admin")
	s.as(admin, "submit", "--cpu", "1", "--image", "host", "--wait", "--", "true").wants(t, 0, "", "")
	s.as(admin, "get", "jobs", "--no-headers").wants(t, 0, "admin", "") // the owner is the name in the certificate

	// A node's certificate opens its own link, but allows no client calls.
	badge, err := credential.OpenBadge(filepath.Join(s.keys, "n1"), identity.RoleNode)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.through(badge).ListJobs(s.ctx(), &messages.ListJobs{}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a node could list jobs: %v", err)
	}
	s.says("Refused /synapse.v1.Synapse/ListJobs to synapse://e2e/node/n1")
	other := launch(t, "n2 as n1", "synapse-node", s.agentArgs("n1", "r1", "--tls", filepath.Join(s.keys, "n2"),
		"--data-dir", filepath.Join(s.dir, "other"))...)
	<-other.silent
	if !strings.Contains(other.said(), "--id n1: the certificate in") {
		t.Errorf("it said %q", other.said())
	}
}

// says waits for a line of the scheduler.
func (s *secured) says(words string) {
	s.t.Helper()
	for limit := pace.Until(10 * time.Second); !strings.Contains(s.scheduler.said(), words); {
		if time.Now().After(limit) {
			s.t.Fatalf("the scheduler did not log %q", words)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if n := strings.Count(s.scheduler.said(), words); n != 1 {
		s.t.Errorf("the scheduler logged %q %d times", words, n)
	}
}

func TestStrangersUnderTLS(t *testing.T) {
	s := newSecured(t)
	by, err := identity.OpenFolder(filepath.Join(s.keys, "scheduler"))
	if err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(t.TempDir(), "foreign")
	s.cli("init", foreign).wants(t, 0, "", "")
	denied := s.folder("viewer", "denied")
	s.as(denied, "get", "jobs").wants(t, 0, "", "")
	list := filepath.Join(s.keys, "scheduler", "denylist")
	if err := os.WriteFile(list, []byte("synapse://e2e/viewer/denied\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	// On the command line each attempt ends with code 5, at once, with one line that states the reason.
	s.as("", "get", "jobs").wants(t, 5, "", "scheduler requires TLS")
	s.as(filepath.Join(foreign, "admin"), "get", "jobs").wants(t, 5, "", "not a scheduler of this cluster")
	s.says("client does not accept this scheduler's certificate")
	old := made(t, by, identity.RoleAdmin, time.Now().Add(-identity.LifePerson-time.Hour))
	s.as(old, "get", "jobs").wants(t, 5, "", "has expired: it is valid from")
	s.as(s.folder("node", "n1"), "get", "jobs").wants(t, 2, "", "but needs role admin")

	// The scheduler rejects a program without TLS, with one line.
	s.says("client does not use TLS")
	pair := func(dir string) []tls.Certificate {
		folder, err := identity.OpenFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		return []tls.Certificate{*folder.Pair.TLS()}
	}
	for words, config := range map[string]*tls.Config{
		"no certificate was presented":    {},
		"client does not support TLS 1.3": {MaxVersion: tls.VersionTLS12},
		"signed by unknown authority":     {Certificates: pair(filepath.Join(foreign, "admin"))},
		"admin/n9 is not valid yet":       {Certificates: pair(made(t, by, identity.RoleAdmin, time.Now().Add(time.Hour)))},
		"scheduler's authority must sign": {Certificates: pair(filepath.Join(s.keys, "scheduler"))},
	} {
		for range 2 {
			s.intrudes(config, words)
		}
		s.says(words)
	}

	// Nodes without a valid certificate get no link, and log the reason.
	plain := s.agent("n2", "r1")
	s.refuses(plain, "scheduler requires TLS")
	lapsed := made(t, by, identity.RoleNode, time.Now().Add(-32*24*time.Hour))
	s.refuses(s.agent("n9", "r1", "--tls", lapsed), "cannot be renewed")
	other := filepath.Join(t.TempDir(), "other")
	s.cli("certify", "node", "n3", "--by", filepath.Join(foreign, "scheduler"), "--out", other).wants(t, 0, "", "is in")
	s.refuses(s.agent("n3", "r1", "--tls", other), "not a scheduler of this cluster")

	// A denied user is rejected after the list has been read again, which happens every 15 s.
	for limit := pace.Until(40 * time.Second); s.as(denied, "get", "jobs").code == 0; {
		if time.Now().After(limit) {
			t.Fatal("a denied user has access")
		}
		time.Sleep(500 * time.Millisecond)
	}
	s.as(denied, "get", "jobs").wants(t, 5, "", "scheduler refused this certificate")
	if !strings.Contains(s.scheduler.said(), "identity is on the denylist: synapse://e2e/viewer/denied") {
		t.Error("the scheduler does not log who is denied")
	}
}

// refuses waits until an agent has logged why it has no link.
func (s *secured) refuses(p *process, words string) {
	s.t.Helper()
	for limit := pace.Until(10 * time.Second); !strings.Contains(p.said(), words); {
		if time.Now().After(limit) {
			s.t.Fatalf("%s did not log %q", p.name, words)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if strings.Contains(p.said(), "Linked to") {
		s.t.Errorf("%s came in", p.name)
	}
}

// intrudes checks that a peer is rejected.
func (s *secured) intrudes(config *tls.Config, what string) {
	s.t.Helper()
	config.InsecureSkipVerify, config.NextProtos = true, []string{"h2"}
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", s.address, config)
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(pace.Until(5 * time.Second))
	if n, err := conn.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		s.t.Errorf("%s: access was granted (%v)", what, err)
	}
}

// TestJoinTokens checks that a node joins with a token and a key that it created itself. The token must work once, and
// the restarted node must need none.
func TestJoinTokens(t *testing.T) {
	s := newSecured(t)
	by := filepath.Join(s.keys, "scheduler")
	token := filepath.Join(s.keys, "token")
	made := s.cli("token", "create", "--by", by, "--role", "node", "--node-name", "n1", "--ttl", "1h")
	made.wants(t, 0, "synapse1.e2e.", "")
	if err := os.WriteFile(token, []byte(made.out), 0o600); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(s.keys, "n1")
	first := s.node("n1", "r1", "--tls", folder, "--token", token)
	s.says("Signed a certificate for synapse://e2e/node/n1")
	id := s.submit(gang(1, 8, "true"))
	s.await(id, "succeeded")
	first.kill()
	s.node("n1", "r1", "--tls", folder, "--token", token)

	again := s.agent("n2", "r1", "--tls", filepath.Join(s.keys, "n2"), "--token", token)
	<-again.silent
	if !strings.Contains(again.said(), "it is used up") {
		t.Errorf("with a used token the agent logged %q", again.said())
	}
	s.says("Refused to let a node join from 127.0.0.1")
	if _, err := os.Stat(filepath.Join(s.keys, "n2")); err == nil {
		t.Error("a folder was created for a rejected node")
	}
	// A node that claims more than its token allows is linked but gets no work, and an admin sees why.
	made = s.cli("token", "create", "--by", by, "--node-name", "n3", "--gpus", "4")
	few := filepath.Join(s.keys, "few")
	if err := os.WriteFile(few, []byte(made.out), 0o600); err != nil {
		t.Fatal(err)
	}
	s.node("n3", "r1", "--tls", filepath.Join(s.keys, "n3"), "--token", few)
	s.as(filepath.Join(s.keys, "admin"), "get", "nodes", "--no-headers").wants(t, 0,
		`it announces GPU count 8, but its certificate allows "4"`, "")
	secret := strings.TrimSpace(made.out[strings.LastIndex(made.out, ".")+1:])
	if strings.Contains(first.said()+again.said()+s.scheduler.said(), secret) {
		t.Error("a log contains the secret")
	}
}

// TestMachinePosesAsScheduler checks that a stolen node certificate cannot act as a scheduler. A client or node that
// connects to it must send nothing: no certificate, no request, no Hello.
func TestMachinePosesAsScheduler(t *testing.T) {
	s := newSecured(t)
	folder, err := identity.OpenFolder(s.folder("node", "n1"))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	heard := make(chan string, 100)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			thief := tls.Server(conn, &tls.Config{
				Certificates: []tls.Certificate{*folder.Pair.TLS()}, ClientAuth: tls.RequestClientCert, NextProtos: []string{"h2"},
			})
			if thief.Handshake() == nil {
				heard <- "a handshake"
				_ = thief.SetDeadline(pace.Until(2 * time.Second))
				text, _ := io.ReadAll(thief)
				heard <- string(text)
			}
			conn.Close()
		}
	}()
	s.address = listener.Addr().String()
	s.as(filepath.Join(s.keys, "admin"), "get", "jobs").wants(t, 5, "", "role is wrong")
	agent := s.agent("n2", "r1", "--tls", s.folder("node", "n2"))
	s.refuses(agent, "role is wrong")
	if len(heard) > 0 {
		t.Errorf("the false scheduler received %q", <-heard)
	}
}
