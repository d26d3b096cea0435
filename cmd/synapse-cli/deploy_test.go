package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file tests the flags and the output of `deploy`. internal/rollout tests the decisions, and
// world.TestDeployed uses real hosts.

// TestDeployRefused checks that wrong input is refused before any request, with the name of the field and a fix.
func TestDeployRefused(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, bad, pack := file("good", "nodes: {n1: }"), file("bad", "node: {n1: }"), file("x.deb", "")
	worse := file("worse", "nodes:\n  n1: {shh: a}\n  n2: [x]\n")
	for args, want := range map[string]string{
		"":                                       "--hosts is missing\nhint: run `deploy --help` for an example of the file",
		"n1":                                     "`deploy` accepts no arguments\nhint: list the nodes in",
		"--hosts " + dir + "/none":               "--hosts: stat " + dir + "/none: no such file",
		"--hosts " + bad:                         "line 1: the file: unknown key node; did you mean \"nodes\"?",
		"--hosts " + worse:                       "\"ssh\"?\n  " + worse + ": line 3: machine n2: must be keys and values\n",
		"--hosts " + good + " --at-once 0":       "--at-once 0: must be 1 to 256",
		"--hosts " + good + " --canary -1":       "--canary -1: must not be negative",
		"--hosts " + good + " --within 0s":       "--within 0s: must be positive",
		"--hosts " + good + " --by " + dir:       "--by: ",
		"--hosts " + good + " --ssh=":            "--ssh is empty",
		"--hosts " + good + " --package none":    "--package: none: not a package name of `make dist`",
		"--hosts " + good + " --package " + pack: "--package: x.deb: not a package name of",
	} {
		cli("127.0.0.1:1", append([]string{"deploy"}, strings.Fields(args)...)...).wants(t, exit.Misuse, "", want)
	}
}

// TestDeploy checks that each node has a line with its result, and that the exit code is 0 only if all nodes match
// the file.
func TestDeploy(t *testing.T) {
	f := startFake(t)
	n1, n2 := machine("n1"), machine("n2")
	n1.Record.Announcement = &messages.Announcement{AgentVersion: "v2", Gpus: []*messages.Gpu{{Id: "a"}, {Id: "b"}}}
	n2.Record.Announcement = &messages.Announcement{AgentVersion: "v2"}
	f.nodes = []*messages.NodeStatus{n1, n2}
	dir := t.TempDir()
	for name, text := range map[string]string{"hosts": "nodes: {n1: , n2: {ssh: away}}", "reach": `#!/bin/sh
[ "$1" = n1 ] || { printf 'no route to \033[31mhost' >&2; exit 255; }
if tar -tf - | grep -qx node.yaml; then
	echo "version v2"
else
	printf '%s\n' "arch x86_64" "packages deb" "version 1" systemd active enabled settings
fi
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"deploy", "--hosts", filepath.Join(dir, "hosts"), "--ssh", filepath.Join(dir, "reach")}
	cli(f.address, append(args, "--dry-run")...).wants(t, exit.Failed,
		"n1 to do: writes settings\nn2 refused: reach: no route to \\u001b[31mhost\n",
		"some nodes cannot match the file")
	r := cli(f.address, args...)
	r.wants(t, exit.Failed, "n1 deployed: up, 2 GPUs, agent v2\nn2 refused: reach: no route to \\u001b[31mhost\n",
		"2 nodes: 1 deployed, 1 refused\nhint: ")
	if want := "n2: skipped: reach: no route to \\u001b[31mhost\n"; !strings.Contains(r.err, want) {
		t.Errorf("no %q in %s", want, r.err)
	}
	n1.Closed = fmt.Sprintf("quarantined: %s", "it claims")
	cli(f.address, append(args, "--within", "1s")...).wants(t, exit.Failed, "n1 deployed: quarantined: it claims\n", "")
}
