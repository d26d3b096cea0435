package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/server/unixsocket"
	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file runs the tests of the Python client next to a real cluster.

// TestPython submits, watches, reads, enters and cancels jobs from Python, with a certificate, a token and the local
// socket. The client must send nothing to an unverified server.
func TestPython(t *testing.T) {
	able.Need(t, able.Program("python3"))
	s := newSecured(t)
	s.node("n1", "r1", "--tls", s.folder("node", "n1"))
	token := func(role, name string) string {
		admin := filepath.Join(s.keys, "admin")
		return strings.TrimSpace(s.as(admin, "token", "create", "--role", role, "--user", name).wants(t, 0, "", "").out)
	}
	page, err := filepath.Abs("../../docs/jobs/python.md")
	if err != nil {
		t.Fatal(err)
	}
	restart, folder := filepath.Join(t.TempDir(), "restart"), filepath.Join(s.dir, "functions")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), pace.Of(5*time.Minute))
	defer cancel()
	tests := exec.CommandContext(ctx, "python3", "-B", "-m", "unittest", "discover", "-v", "-s", "tests")
	tests.Dir = "../../clients/python"
	tests.Env = append(os.Environ(), "PYTHONPATH=.", "SYNAPSE_TEST_SERVER="+s.address,
		"SYNAPSE_TEST_TLS="+filepath.Join(s.keys, "admin"), "SYNAPSE_TEST_PAGE="+page, "SYNAPSE_TEST_OTHER="+
			token("submitter", "ann"),
		"SYNAPSE_TEST_VIEWER="+token("viewer", "vera"),
		"SYNAPSE_TEST_SOCKET="+unixsocket.Path(filepath.Join(s.dir, "scheduler")), "SYNAPSE_TEST_RESTART="+restart,
		"SYNAPSE_TEST_FOLDER="+folder)
	var said bytes.Buffer
	tests.Stdout, tests.Stderr = &said, &said
	if err := tests.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- tests.Wait() }()
	for {
		select {
		case err := <-ended:
			if text := said.String(); err != nil || !strings.Contains(text, "\nOK") || strings.Contains(text, "Warning") {
				t.Errorf("%v:\n%s", err, text)
			}
			return
		case <-time.After(20 * time.Millisecond):
			if os.Remove(restart) == nil {
				s.scheduler.kill()
				s.lead(s.address, "--tls", filepath.Join(s.keys, "scheduler"))
			}
		}
	}
}
