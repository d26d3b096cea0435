//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/sim/record"
	"github.com/yi-json/synapse/sim/replay"
)

// TestReport checks that the page replaces the old content only after a replay, and that it is the same each time.
func TestReport(t *testing.T) {
	dir := simulator(t)
	name := filepath.Join(dir, "waits.html")
	if err := os.WriteFile(name, bytes.Repeat([]byte("earlier"), 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	args := strings.Fields("simulate --synthetic jobs=40,days=1 --nodes 4 --policy synapse,easy --report")
	cli("", append(args, name)...).wants(t, 0, "synapse", "")
	page, err := os.ReadFile(name)
	if err != nil || !bytes.HasPrefix(page, []byte("<!DOCTYPE html>")) || bytes.Contains(page, []byte("earlier")) ||
		!bytes.Contains(page, []byte("<h1>Replay of a workload that was drawn: jobs=40,days=1</h1>")) {
		t.Errorf("%v: %.200s", err, page)
	}
	again := filepath.Join(dir, "again.html")
	cli("", append(args, again)...).wants(t, 0, "synapse", "")
	if other, err := os.ReadFile(again); err != nil || !bytes.Equal(page, other) {
		t.Errorf("%v: another page of the same replay", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 4 {
		t.Errorf("%v: %v", err, files)
	}
}

// simulator puts a fake simulator into PATH that always returns one replay of a few jobs.
func simulator(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	small := record.Synthetic{Jobs: 40, Days: 1, Users: 3, Gangs: 20, Bursts: 10, Seed: 3}
	jobs, err := small.Trace().Take(record.Cut{Timescale: 1}, 32)
	if err != nil {
		t.Fatal(err)
	}
	f, err := replay.Run(record.Order{Jobs: jobs, Cluster: record.NewCluster([]int{2, 2}, 8), Policy: record.Synapse},
		replay.Watch{})
	if err != nil {
		t.Fatal(err)
	}
	word, err := json.Marshal(record.Word{Result: f, Picture: f.Picture})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"word": string(word),
		"synapse-sim": "#!/bin/sh\ncat >/dev/null\nexec cat " + dir + "/word\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return dir
}

// TestReportRefuses checks that an unwritable file is refused before the replay. A failed replay leaves no new file
// and keeps an earlier page.
func TestReportRefuses(t *testing.T) {
	t.Setenv("PATH", "") // no simulator can run
	dir := t.TempDir()
	jobs, page, other := filepath.Join(dir, "jobs.csv"), filepath.Join(dir, "page.html"), filepath.Join(dir, "other.html")
	for name, text := range map[string]string{jobs: "submit_s,duration_s,gpus\n0,5,1\n", page: "earlier"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for report, want := range map[string]string{
		dir:                    "--report: " + dir + ": is a directory",
		dir + "/nosuch/a.html": "--report: " + dir + "/nosuch/a.html: no such file or directory",
		jobs:                   "--report: " + jobs + " is the input file",
		"-":                    "--report must name a file",
	} {
		cli("", "simulate", jobs, "--nodes", "1", "--report", report).wants(t, exit.Misuse, "", want)
	}
	cli("", "simulate", jobs, "--print", "--report", page).wants(t, exit.Misuse, "",
		"--print and --report cannot be combined")
	for _, name := range []string{page, other} {
		cli("", "simulate", jobs, "--nodes", "1", "--report", name).wants(t, exit.Failed, "",
			"synapse-sim not found next to this program or in PATH")
	}
	if text, err := os.ReadFile(page); err != nil || string(text) != "earlier" {
		t.Errorf("%v: %s", err, text)
	}
	if _, err := os.Stat(other); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
}
