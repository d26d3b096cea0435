package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/test/page"
)

// TestGoClient runs the program of docs/jobs/go.md. It finds the scheduler by the environment, submits the job of a
// file, waits for its end, and prints the output. An invalid file must be rejected with its field.
func TestGoClient(t *testing.T) {
	text, err := os.ReadFile("../../docs/jobs/go.md")
	if err != nil {
		t.Fatal(err)
	}
	var program string
	for _, b := range page.Blocks("docs/jobs/go.md", string(text)) {
		if strings.HasPrefix(b.Text, "package main") {
			program = b.Text
		}
	}
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "submit")
	if err := os.WriteFile(source, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", binary, source)
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	c := newCluster(t)
	c.node("n1", "r1")
	run := func(name, file string) (string, error) {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(file), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), binary, path)
		cmd.Env = append(os.Environ(), "SYNAPSE_SERVER="+c.address, "SYNAPSE_CONTEXT=", "SYNAPSE_CONTEXTS="+dir+"/none")
		said, err := cmd.CombinedOutput()
		return string(said), err
	}
	const job = "apiVersion: synapse/v1\nkind: Job\nmetadata: {name: greets}\n" +
		"spec: {image: host, command: [echo, hello from go], resources: {cpu: 1}}\n"
	said, err := run("job.yaml", job)
	if err != nil || !strings.Contains(said, "JOB_STATE_SUCCEEDED\n") || !strings.HasSuffix(said, "hello from go\n") {
		t.Errorf("%v: %q", err, said)
	}
	said, err = run("wrong.yaml", strings.Replace(job, "cpu: 1", "cpu: many", 1))
	if err == nil || !strings.Contains(said, "cpu") {
		t.Errorf("a wrong file: %v: %q", err, said)
	}
}
