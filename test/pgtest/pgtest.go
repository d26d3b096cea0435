// Package pgtest runs a separate PostgreSQL server for tests. It is in its own folder, reachable only by a socket
// there, and ends with the process that started it, however that ends.
package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrMissing is returned if PostgreSQL is not installed.
var ErrMissing = errors.New("PostgreSQL is not installed (no initdb in the path or in /usr/lib/postgresql/*/bin); on " +
	"Debian: apt-get install postgresql")

// Server is one server.
type Server struct {
	bin, dir string
	as       *syscall.Credential // PostgreSQL refuses to run as root
	cmd      *exec.Cmd
	ended    chan struct{} // closed when the present process has ended
	made     int           // number of created databases
}

const superuser = "postgres"

// Start creates a server and runs it until the test ends. It skips the test if PostgreSQL is not installed.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := New()
	if errors.Is(err, ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// New creates a server and runs it.
func New() (*Server, error) {
	s := new(Server)
	var err error
	if s.bin, err = binaries(); err != nil {
		return nil, err
	}
	if s.as, err = unprivileged(); err != nil {
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	// The path of a socket is limited to a hundred bytes, so it contains no test's name.
	if s.dir, err = os.MkdirTemp("", "synapse-pg-"); err != nil {
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	if s.as != nil {
		err = os.Chown(s.dir, int(s.as.Uid), int(s.as.Gid))
	}
	if err == nil {
		err = s.initialize()
	}
	if err == nil {
		err = s.Run()
	}
	if err != nil {
		return nil, fmt.Errorf("pgtest: %w", errors.Join(err, os.RemoveAll(s.dir)))
	}
	return s, nil
}

// binaries returns the folder of the newest version.
func binaries() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", ErrMissing
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
}

// unprivileged returns the user that root becomes for the server, or nil if the process is not root.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{superuser, "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(errUID, errGID)
	}
	return nil, errors.New("PostgreSQL does not run as root: create the user postgres or nobody")
}

func (s *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, program), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	return cmd
}

func (s *Server) initialize() error {
	out, err := s.command(
		"initdb", "-D", s.data(), "-U", superuser, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync",
	).CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Run starts the server again after Stop or Kill.
func (s *Server) Run() error {
	var log bytes.Buffer
	s.cmd = s.command("postgres", "-D", s.data(), "-k", s.dir, "-c", "listen_addresses=", "-c", "max_connections=64",
		"-c", "shared_buffers=64MB", "-c", "log_min_messages=fatal")
	s.cmd.Stdout, s.cmd.Stderr = &log, &log
	s.cmd.SysProcAttr.Pdeathsig = syscall.SIGQUIT
	s.ended = make(chan struct{})
	started := make(chan error)
	go func(cmd *exec.Cmd, ended chan struct{}) {
		// The kernel sends that signal when the thread that started the process ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
		close(ended)
	}(s.cmd, s.ended)
	if err := <-started; err != nil {
		return err
	}
	if err := s.await(); err != nil {
		stop := s.Kill()
		return fmt.Errorf("%w; %w; its output: %s", err, stop, log.String())
	}
	return nil
}

// await returns when the server answers.
func (s *Server) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.URL(superuser))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.ended:
			return fmt.Errorf("the server ended: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("the server does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// URL returns the address of a database of the server.
func (s *Server) URL(database string) string {
	return "postgres:///" + database + "?" + url.Values{"host": {s.dir}, "user": {superuser}}.Encode()
}

// Database creates an empty database, and returns its address.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	s.made++
	name := "test" + strconv.Itoa(s.made)
	s.Exec(t, s.URL(superuser), "CREATE DATABASE "+name)
	return s.URL(name)
}

// Exec runs statements as the superuser.
func (s *Server) Exec(t testing.TB, url string, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, text := range statements {
		if _, err := conn.Exec(ctx, text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// Stop shuts the server down. Connections break, and committed data stays.
func (s *Server) Stop() error { return s.end(syscall.SIGINT) }

// Kill ends the server as a crash does.
func (s *Server) Kill() error { return s.end(syscall.SIGQUIT) }

func (s *Server) end(signal syscall.Signal) error {
	select {
	case <-s.ended:
		return nil
	default:
	}
	if err := s.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-s.ended:
		return nil
	case <-time.After(30 * time.Second):
	}
	_ = s.cmd.Process.Kill()
	<-s.ended
	return fmt.Errorf("the server did not end by %v and was killed", signal)
}

// Close ends the server and removes its files.
func (s *Server) Close() error {
	return errors.Join(s.Kill(), os.RemoveAll(s.dir))
}
