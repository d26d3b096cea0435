package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// unpacked returns the parts of a bundle by name.
func unpacked(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	packed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for archive := tar.NewReader(packed); ; {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(head.Name, "synapse/")] = string(text)
	}
}

// TestBundle checks that a bundle contains the scheduler's answers and this host's settings, but no commands of
// jobs and no passwords. Missing parts are listed, and an existing file is kept.
func TestBundle(t *testing.T) {
	f := startFake(t)
	f.nodes = []*messages.NodeStatus{{
		Record: &messages.NodeRecord{Id: "n1", Announcement: &messages.Announcement{
			Total: &messages.Resources{MilliGpu: 8000},
		}}, Phase: messages.NodeUp,
	}}
	f.put(&messages.JobStatus{Phase: messages.PhaseQueued, Record: &messages.JobRecord{Id: "j1", Spec: &messages.JobSpec{
		Name: "x", Gang: &messages.GangSpec{ReplicasMin: 1}, Each: &messages.Resources{MilliGpu: 6000},
		Env: []*messages.EnvVar{{Name: "HF_TOKEN", Value: "hunter2"}}, Command: []string{"train", "--password=hunter2"},
	}}})
	dir := t.TempDir()
	const settings = "store: postgres://synapse:hunter2@db/synapse\ntoken: /etc/synapse/token\npassword: hunter2\n" +
		"  api-key: hunter2\nlevels: [rack] # kept\n"
	if err := os.WriteFile(filepath.Join(dir, "scheduler.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "bundle.tar.gz")
	cli(f.address, "debug", "bundle", "--out", out, "--settings", dir).wants(t, 0, "", "wrote "+out)
	all := unpacked(t, out)
	for name, text := range map[string]string{
		"nodes.txt": "n1", "nodes.json": `"n1"`, "jobs.txt": "j1", "explain/j1.txt": "", "version.txt": "synapse-cli",
		"settings/scheduler.yaml": "postgres://synapse:xxxxx@db/synapse\ntoken: /etc/synapse/token\npassword: xxxxx\n" +
			"  api-key: xxxxx\nlevels: [rack] # kept\n",
		"missing.txt": "metrics.txt: ",
	} {
		if got, there := all[name]; !there || !strings.Contains(got, text) {
			t.Errorf("%s is %q, want %q", name, got, text)
		}
	}
	for name, text := range all {
		if strings.Contains(text, "hunter2") {
			t.Errorf("%s has a secret: %s", name, text)
		}
	}
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if r := cli(f.address, "debug", "bundle", "--out", out); r.code == 0 || !strings.Contains(r.err, "exists") {
		t.Errorf("it writes over what is there: %d %s", r.code, r.err)
	}
}
