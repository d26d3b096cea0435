//go:build world

package world

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// This file tests the web UI on the scheduler's own port, where users log in.

var tokenText = regexp.MustCompile(`synapselogin1\.\S+`)

// TestDesk checks a viewer on the scheduler's own port. The viewer sees exactly what the role permits, stays logged in
// when the scheduler restarts, and is logged out within a minute after the token is revoked.
func TestDesk(t *testing.T) {
	t.Parallel()
	bin, folder := programs(t)
	keys, address := filepath.Join(folder, "keys"), free(t)
	s := &surf{t: t, cli: filepath.Join(bin, "synapse-cli")}
	s.run("init", keys)
	s.variables = []string{"SYNAPSE_TLS=" + filepath.Join(keys, "admin"), "SYNAPSE_SERVER=" + address}
	cert, key := certificate(t, folder)
	start := func() *daemon {
		return s.scheduler(filepath.Join(bin, "synapse-scheduler"), "--listen", address, "--data-dir",
			filepath.Join(folder, "data"), "--tls", filepath.Join(keys, "scheduler"), "--web-cert", cert, "--web-key", key)
	}
	running := start()
	job := s.submit("--name", "waits", "--gpu", "8", "--allow-infeasible", "--image", "host", "--", "true")
	token := tokenText.FindString(s.run("token", "create", "--role", "viewer", "--user", "vera"))
	s.browse("https://" + address + "/#/jobs")
	s.shows("Log in")
	s.loadAxe()
	s.accessible("the way in")
	s.do(chromedp.EmulateViewport(360, 800))
	if wide := js[int64](s, "document.documentElement.scrollWidth"); wide > 360 {
		t.Errorf("the login page is %d wide", wide)
	}
	s.do(chromedp.EmulateViewport(1280, 800))
	s.keep("login")
	s.silent()
	s.tells("synapselogin1.wrong")
	s.shows("token is malformed")
	s.tells(token)
	s.shows(job) // in the view that was requested
	s.shows("vera, viewer")
	s.readsOnly(job)
	s.mu.Lock()
	s.console = nil // the rejections were expected
	s.mu.Unlock()

	running.stop()
	s.shows("Data may be outdated")
	defer start().stop()
	s.await(`document.getElementById("away").hidden`)
	s.shows("vera, viewer")
	second := s.submit("--name", "later", "--gpu", "8", "--allow-infeasible", "--image", "host", "--", "true")
	s.visit("#/jobs")
	s.shows(second)

	id := strings.Fields(s.run("token", "list", "--no-headers"))[0]
	s.run("token", "revoke", id)
	revoked := time.Now()
	s.shows("Log in")
	if after := time.Since(revoked); after > time.Minute {
		t.Errorf("the revoked user was logged out after %s", after)
	}
}

// daemon is a running scheduler.
type daemon struct {
	pid  int
	stop func()
}

// scheduler starts a scheduler, and returns when it accepts calls.
func (s *surf) scheduler(program string, arguments ...string) *daemon {
	s.t.Helper()
	command, said := exec.Command(program, arguments...), &strings.Builder{}
	command.Stderr = said
	if err := command.Start(); err != nil {
		s.t.Fatal(err)
	}
	d := &daemon{pid: command.Process.Pid, stop: sync.OnceFunc(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		if err := command.Wait(); err != nil || s.t.Failed() {
			s.t.Logf("the scheduler ended with %v; last output:\n%s", err, said.String()[max(0, said.Len()-4000):])
		}
	})}
	s.t.Cleanup(d.stop)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
		ask := exec.CommandContext(ctx, s.cli, "get", "jobs")
		ask.Env = s.environment()
		err := ask.Run()
		cancel()
		if err == nil {
			return d
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the scheduler accepts no calls: %v", err)
		}
	}
}

// tells logs in with a token.
func (s *surf) tells(token string) {
	s.t.Helper()
	js[any](s, `document.getElementById("token").value = ""; 0`)
	s.do(chromedp.SendKeys("#token", token+"\r"))
}

// readsOnly views a job as a viewer. No forbidden action may be offered, and a direct request for one must be rejected.
func (s *surf) readsOnly(job string) {
	s.t.Helper()
	s.visit("#/job/" + job)
	s.shows("Why it is waiting")
	if n := js[int](s, `document.querySelectorAll("main .buttons button").length`); n != 0 {
		s.t.Errorf("a viewer sees %d buttons", n)
	}
	js[any](s, fmt.Sprintf(`window.answer = ""; fetch("/act", { method: "POST", body: JSON.stringify({ verb: "cancel",
		of: %q }) }).then(async (r) => { window.answer = r.status + " " + await r.text(); }); 0`, job))
	s.await("window.answer")
	if got := js[string](s, "window.answer"); !strings.HasPrefix(got, "403 vera (viewer) may not cancel") {
		s.t.Errorf("a viewer cancels: %s", got)
	}
	js[any](s, `window.answer = ""; fetch("/past?at=0&until=1").then((r) => { window.answer = String(r.status); }); 0`)
	s.await("window.answer")
	if got := js[string](s, "window.answer"); got != "200" {
		s.t.Errorf("a viewer does not see the past: %s", got)
	}
	js[any](s, fmt.Sprintf(`window.answer = ""; fetch("/logs?id=%s").then((r) => { window.answer = String(r.status); }); 0`, job))
	s.await("window.answer")
	if got := js[string](s, "window.answer"); got != "403" {
		s.t.Errorf("a viewer can read output: %s", got)
	}
}

// certificate creates a certificate for loopback, which stands for one from a public authority.
func certificate(t *testing.T, folder string) (cert, key string) {
	t.Helper()
	cert, key = filepath.Join(folder, "page.pem"), filepath.Join(folder, "page-key.pem")
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	made := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	chain, err := x509.CreateCertificate(rand.Reader, made, made, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: chain}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600)); err != nil {
		t.Fatal(err)
	}
	return cert, key
}
