package e2e

import (
	"bytes"
	"crypto/rand"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests functions that use exec sessions: copies of files, and port forwarding through a task.

func TestCopyAndForward(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"process", "carapace"} {
		t.Run(driver, func(t *testing.T) {
			c := clusterOf(t, driver)
			c.node("n1", "r1")
			id := c.submit(gang(2, 1, "mkdir in; echo one > in/one; ln -s one in/same; ln -s / in/out; exec sleep 1000"))
			c.await(id, "running")
			copies(t, c, id)
			forwards(t, c, id)
			c.cli("cancel", id).wants(t, 0, "", "")
		})
	}
}

// copies copies a directory and a larger file in both directions.
func copies(t *testing.T, c *cluster, id string) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	limit := pace.Until(time.Minute)
	for c.cli("exec", id+":1", "--", "test", "-e", "in/out").code != 0 && time.Now().Before(limit) {
		time.Sleep(50 * time.Millisecond)
	}
	c.cli("cp", id+":1:in", in("got")).wants(t, 1, "", `"in/out" skipped: a link that leads out`)
	if text, err := os.ReadFile(in("got/same")); err != nil || string(text) != "one\n" {
		t.Errorf("%q, %v", text, err)
	}
	big := make([]byte, 5<<20+3)
	_, _ = rand.Read(big)
	if err := os.WriteFile(in("big"), big, 0o751); err != nil {
		t.Fatal(err)
	}
	c.cli("cp", in("big"), id+":in").wants(t, 0, "", "")
	c.cli("exec", id, "--", "stat", "-c", "%a %s", "in/big").wants(t, 0, "751 5242883", "")
	c.cli("cp", id+":in/big", in("back")).wants(t, 0, "", "")
	if back, err := os.ReadFile(in("back")); err != nil || !bytes.Equal(back, big) {
		t.Errorf("%d bytes returned: %v", len(back), err)
	}
	c.cli("cp", id+":missing", in("none")).wants(t, 1, "", "missing: no such file")
	c.cli("cp", in("missing"), id+":in").wants(t, 1, "", "missing: no such file")
	c.cli("cp", in("big"), id+":no/such").wants(t, 1, "", "no such file")
	c.cli("cp", in("big"), in("back")).wants(t, 2, "", "both paths are local")
	if _, err := os.Lstat(in("none")); err == nil {
		t.Error("a copy that failed left a file")
	}
}

// forwards reaches a server through the task. One server answers after it has read everything, and one closes first.
func forwards(t *testing.T, c *cluster, id string) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				first := make([]byte, 1)
				if _, err := io.ReadFull(conn, first); err != nil || first[0] == '!' {
					_, _ = io.WriteString(conn, "bye")
					return
				}
				rest, _ := io.ReadAll(conn)
				_, _ = conn.Write(append(first, rest...))
			}()
		}
	}()
	_, port, _ := net.SplitHostPort(server.Addr().String())
	forward := c.command(filepath.Join(bin, "synapse-cli"), "port-forward", id+":1", "0:"+port)
	out, said := filepath.Join(t.TempDir(), "out"), &bytes.Buffer{}
	file, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	forward.Stdout, forward.Stderr = file, said
	if err := forward.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = forward.Process.Signal(syscall.SIGINT)
		if err := forward.Wait(); forward.ProcessState.ExitCode() != 130 {
			t.Errorf("port-forward: %v: %s", err, said)
		}
	}()
	address := ""
	for limit := pace.Until(time.Minute); address == ""; time.Sleep(20 * time.Millisecond) {
		text, _ := os.ReadFile(out)
		if before, _, ok := strings.Cut(string(text), " forwards to port "+port+" of rank 1\n"); ok {
			address = before
		}
		if time.Now().After(limit) {
			t.Fatalf("the port-forward does not listen: %q", text)
		}
	}
	long := strings.Repeat("word", 300_000)
	for sent, want := range map[string]string{"!": "bye", long: long, "a": "a"} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(pace.Until(time.Minute))
		go func() {
			_, _ = io.WriteString(conn, sent)
			if sent != "!" {
				_ = conn.(*net.TCPConn).CloseWrite()
			}
		}()
		if got, err := io.ReadAll(conn); err != nil || string(got) != want {
			t.Errorf("got %d bytes, want %d: %v", len(got), len(sent), err)
		}
		conn.Close()
	}
}
