package e2e

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests a cluster as the packages install it: the commands and users of the units, and the installed settings
// files with folders of the test. It has no systemd, so the restrictions of a unit are not tested here.

// service is the user of the scheduler's unit. It is a service user, as whom no job may run.
const service = 873

// packaged returns such a cluster, of a scheduler and a node.
func packaged(t *testing.T) *secured {
	t.Helper()
	able.Need(t, able.Root, able.Containers, able.Program("setpriv"))
	t.Parallel()
	dir, err := os.MkdirTemp("", "synapse-e2e-cluster-")
	if err != nil {
		t.Fatal(err)
	}
	s := &secured{&cluster{t: t, dir: dir, driver: "auto"}, filepath.Join(dir, "keys")}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s.contain("auto")
	state, node := filepath.Join(dir, "scheduler"), filepath.Join(dir, "node")
	s.cli("init", s.keys, "--cluster", "e2e").wants(t, 0, "", "")
	token := filepath.Join(s.keys, "token")
	for _, err := range []error{
		os.Chmod(dir, 0o755), os.Mkdir(state, 0o700), os.Mkdir(node, 0o711),
		os.Rename(filepath.Join(s.keys, "scheduler"), filepath.Join(state, "tls")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	given(t, state, service)
	s.cli("token", "create", "--by", filepath.Join(state, "tls"), "--out", token).wants(t, 0, "", "") // run as root
	address := filepath.Join(state, "address")
	s.scheduler = s.unit("synapse-scheduler", map[string]string{
		"listen": "127.0.0.1:0", "listen-file": address, "data-dir": state, "tls": filepath.Join(state, "tls"),
	}, "/usr/bin/setpriv", "--reuid", strconv.Itoa(service), "--regid", strconv.Itoa(service), "--clear-groups",
		"--no-new-privs")
	for limit := pace.Until(time.Minute); s.address == ""; time.Sleep(20 * time.Millisecond) {
		if text, err := os.ReadFile(address); err == nil {
			s.address = strings.TrimSpace(string(text))
		} else if time.Now().After(limit) {
			t.Fatalf("the scheduler does not listen: %s", s.scheduler.said())
		}
	}
	badge, err := credential.OpenBadge(filepath.Join(s.keys, "admin"), identity.RoleAdmin)
	if err != nil {
		t.Fatal(err)
	}
	s.client = s.through(badge)
	s.unit("synapse-node", map[string]string{
		"join": s.address, "tls": filepath.Join(node, "tls"), "token": token, "data-dir": node, "id": "n1",
		"address": "127.0.0.1",
	}).says(t, "Success! Master says: Welcome to Synapse")
	return s
}

// unit starts the command of a unit, behind a wrapper program if one is given, with its settings file and these
// settings.
func (s *secured) unit(name string, settings map[string]string, behind ...string) *process {
	s.t.Helper()
	text, err := os.ReadFile("../../deploy/systemd/" + name + ".service")
	if err != nil {
		s.t.Fatal(err)
	}
	command := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/(\S+) --config /etc/synapse/(\S+)$`).FindSubmatch(text)
	if command == nil {
		s.t.Fatalf("%s.service starts another command: %s", name, text)
	}
	file := string(command[2])
	if text, err = os.ReadFile("../../deploy/etc/" + file); err != nil {
		s.t.Fatal(err)
	}
	for key, value := range settings { //order: each is in a line of its own
		line := regexp.MustCompile(`(?m)^#` + key + `: .*$`)
		if len(line.FindAll(text, -1)) != 1 {
			s.t.Fatalf("%s must have %s exactly once", file, key)
		}
		text = line.ReplaceAll(text, []byte(key+": "+value))
	}
	file = filepath.Join(s.dir, file)
	if err := os.WriteFile(file, text, 0o644); err != nil {
		s.t.Fatal(err)
	}
	args := append(behind, filepath.Join(bin, string(command[1])), "--config", file)
	return launch(s.t, name, args[0], args[1:]...)
}

// TestPackagedFromWithin checks that a task cannot affect its packaged cluster, on any network.
func TestPackagedFromWithin(t *testing.T) {
	s := packaged(t)
	cli := func(args ...string) result { return s.as(filepath.Join(s.keys, "admin"), args...) }
	for _, network := range []string{"host", "private"} {
		id := submitIntruder(t, cli, s.dir, s.address, s.dir, "--network", network)
		s.untilWithin(id, 2*time.Minute, "over", func(s *messages.JobStatus) bool { return s.Phase == "succeeded" })
		said := s.logs(id)
		t.Logf("on network %s: %s", network, said)
		if !strings.Contains(said, "tried ") || strings.Contains(said, "IN:") {
			t.Errorf("on network %s: %s", network, said)
		}
	}
	withoutNetworks(t, filepath.Join(s.dir, "node"))
	cli("get", "nodes", "-q").wants(t, 0, "n1\n", "")
	s.here(nil, "whoami").wants(t, 0, "root, admin of cluster e2e", "") // so the socket exists
}

// given changes the owner of a folder and of all its content.
func given(t *testing.T, folder string, uid int) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chown(path, uid, uid))
	})
	if err != nil {
		t.Fatal(err)
	}
}
