package authn

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	testpace "github.com/yi-json/synapse/test/able/pace"
)

// This file defines the rig: an Authenticator in front of real gRPC on loopback, with a fake clock.

// today is the start of the rig's clock.
var today = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

type rig struct {
	t       *testing.T
	by      *identity.Folder
	gate    *Authenticator
	address string
	shelf   *shelf // user tokens; nil: none

	mu    sync.Mutex
	now   time.Time
	lines []string
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// authority creates the authority of a new cluster on disk, made two days before now.
func authority(t *testing.T, cluster string, now time.Time) *identity.Folder {
	t.Helper()
	made := now.Add(-48 * time.Hour)
	pair := must(identity.NewRoot(cluster, made))
	root := &identity.Folder{Roots: pair.Chain, Pair: pair}
	by := must(root.Certify(identity.RoleScheduler, "s1", made))
	by.Dir = filepath.Join(t.TempDir(), "scheduler")
	if err := by.Create(); err != nil {
		t.Fatal(err)
	}
	return by
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return newStageAt(t, today)
}

func newStageAt(t *testing.T, now time.Time) *rig {
	t.Helper()
	return rigOf(t, authority(t, "c-a", now), now)
}

// rigOf returns a rig with an existing authority.
func rigOf(t *testing.T, by *identity.Folder, now time.Time) *rig {
	t.Helper()
	s := &rig{t: t, by: by, now: now}
	return s.begin(Options{Folder: s.by})
}

// begin starts the Authenticator.
func (s *rig) begin(o Options) *rig {
	s.t.Helper()
	t := s.t
	o.Log, o.Now = s.log, s.clock
	s.gate = must(New(o))
	t.Cleanup(s.gate.Close)
	server := grpc.NewServer(append(s.gate.ServerOptions(), grpc.Creds(s.gate.Credentials()))...)
	grpc_health_v1.RegisterHealthServer(s.gate.Services(server), health.NewServer())
	reflection.Register(s.gate.Services(server))
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	s.address = listener.Addr().String()
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return s
}

func (s *rig) log(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// said returns how many log lines contain the words.
func (s *rig) said(words string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.lines {
		if strings.Contains(line, words) {
			n++
		}
	}
	return n
}

// tells waits for the first log line with the words and returns their number. A peer may get the reason before the
// log line is written.
func (s *rig) tells(words string) int {
	for end := testpace.Until(10 * time.Second); s.said(words) == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	return s.said(words)
}

func (s *rig) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *rig) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

// badge returns the badge of a cluster member, stored on disk.
func (s *rig) badge(by *identity.Folder, role identity.Role, name string) *credential.Badge {
	s.t.Helper()
	return s.badgeOf(must(by.Certify(role, name, today)), name)
}

// badgeNow returns a badge of this cluster, certified at the rig's time.
func (s *rig) badgeNow(role identity.Role, name string) *credential.Badge {
	s.t.Helper()
	return s.badgeOf(must(s.by.Certify(role, name, s.clock())), name)
}

func (s *rig) badgeOf(folder *identity.Folder, name string) *credential.Badge {
	s.t.Helper()
	folder.Dir = filepath.Join(s.t.TempDir(), name)
	if err := folder.Create(); err != nil {
		s.t.Fatal(err)
	}
	return must(credential.New(folder, s.clock))
}

// open opens a connection, and returns a function that calls the health check.
func (s *rig) open(creds credentials.TransportCredentials) (conn *grpc.ClientConn, ask func() error) {
	s.t.Helper()
	conn = must(grpc.NewClient("passthrough:///"+s.address, grpc.WithTransportCredentials(creds), grpc.WithDisableRetry()))
	s.t.Cleanup(func() { conn.Close() })
	return conn, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), testpace.Of(10*time.Second))
		defer cancel()
		_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		return err
	}
}

// intrude makes a handshake that trusts any server, and returns the scheduler's answer.
func (s *rig) intrude(change func(*tls.Config)) error {
	config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{credential.ProtocolHTTP2}}
	change(config)
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", s.address, config)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(testpace.Until(10 * time.Second))
	if _, err := conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}
