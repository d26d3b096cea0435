//go:build world

package world

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/yi-json/synapse/test/able"
)

// This file owns the packages: one made of this commit is installed in a Debian, upgraded, removed and purged.

// installScript is what an operator does, and says each time what came of it. What it leaves behind, it lists.
const installScript = `set -e
export DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin
find / -xdev | grep -v -e '^/proc' -e '^/tmp' -e '^/var/lib/dpkg' -e '^/var/log' | sort >/tmp/before
dpkg -i /tmp/synapse.deb >/dev/null 2>&1; dpkg-query -W -f '${Status}\n' synapse
getent passwd synapse | cut -d: -f1,6
systemd-analyze verify --man=no /usr/lib/systemd/system/synapse-scheduler.service \
	/usr/lib/systemd/system/synapse-node.service && echo verified
synapse-node --config /etc/synapse/node.yaml 2>/dev/null || echo "node without settings: $?"
synapse-scheduler --config /etc/synapse/scheduler.yaml --listen 127.0.0.1:0 --store memory --data-dir /tmp/data \
	--listen-file /tmp/address >/tmp/said 2>&1 & scheduler=$!
for i in $(seq 200); do [ -s /tmp/address ] && break; sleep 0.1; done
synctl get nodes --server "$(cat /tmp/address)" >/dev/null 2>&1 || cat /tmp/said
kill $scheduler; wait $scheduler; echo "scheduler: $?"
echo 'join: localhost:1' >>/etc/synapse/node.yaml
dpkg -i /tmp/synapse.deb >/dev/null 2>&1; tail -n 1 /etc/synapse/node.yaml
synapse-node --config /etc/synapse/node.yaml --driver process --data-dir /var/lib/synapse-node >/dev/null 2>&1 & task=$!
while [ ! -e /var/lib/synapse-node ]; do sleep 0.1; done
dpkg -r synapse >/dev/null 2>&1; test -e /usr/bin/synapse-node || echo removed
kill -0 $task && echo 'it runs on'
dpkg --purge synapse </dev/null 2>&1 | grep -c 'purge again when they have ended'
test -d /var/lib/synapse-node && echo 'its folder is there'
kill $task; wait $task || true
dpkg --purge synapse >/dev/null 2>&1; getent passwd synapse || echo purged
find / -xdev | grep -v -e '^/proc' -e '^/tmp' -e '^/var/lib/dpkg' -e '^/var/log' | sort | comm -13 /tmp/before - |
	grep -i synapse || echo 'no trace'
`

const installSays = "install ok installed\nsynapse:/var/lib/synapse\nverified\nnode without settings: 2\n" +
	"scheduler: 0\njoin: localhost:1\nremoved\nit runs on\n1\nits folder is there\npurged\nno trace\n"

// TestInstall: the package installs and verifies, its programs run, an upgrade keeps the operator's settings, removal
// leaves alone what runs, purging waits for it, and then nothing is left.
func TestInstall(t *testing.T) {
	able.Need(t, able.OwnRoot, able.Program("debootstrap"))
	folder := room(t)
	root, out := filepath.Join(folder, "root"), filepath.Join(folder, "dist")
	build := exec.Command("go", "run", "./dist", "-root", "..", "-out", out, "-only", "linux/"+runtime.GOARCH)
	build.Dir = "../../tools"
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	found, err := filepath.Glob(filepath.Join(out, "*.deb"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v: the packages are %v", err, found)
	}
	debootstrap(t, root, "systemd")
	body, err := os.ReadFile(found[0])
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "tmp", "synapse.deb"), body, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	var wrong strings.Builder
	run := exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child",
		"--mount-proc="+filepath.Join(root, "proc"), "chroot", root, "/bin/sh", "-c", installScript)
	run.Stderr = &wrong
	said, err := run.Output()
	if err != nil || string(said) != installSays {
		t.Errorf("%v: %s\ngot  %q\nwant %q", err, wrong.String(), said, installSays)
	}
}

// TestReleaseTwice: the same commit in another folder, with nothing built before, gives the same carapace; and all that
// is packed of it, the same packages.
func TestReleaseTwice(t *testing.T) {
	folder := room(t)
	var sums [2]string
	for i, name := range []string{"one", "another"} {
		clone, out := filepath.Join(folder, name, "synapse"), filepath.Join(folder, name, "dist")
		if text, err := exec.Command("git", "clone", "-q", "../..", clone).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		run := exec.Command("go", "run", "./dist", "-root", "..", "-out", out, "-only", "linux/"+runtime.GOARCH)
		run.Dir = filepath.Join(clone, "tools")
		if text, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		text, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = string(text)
	}
	if sums[0] != sums[1] {
		t.Errorf("two builds of a commit are two things:\n%s\n%s", sums[0], sums[1])
	}
	var bodies [2]string
	for i, name := range []string{"one", "another"} {
		at := filepath.Join(folder, name, "carapace")
		run := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w -buildid=", "-o", at, "./cmd/carapace")
		run.Dir = filepath.Join(folder, name, "synapse")
		run.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
		if i == 1 {
			run.Env = append(run.Env, "GOCACHE="+filepath.Join(folder, "cache")) // nothing is taken from the first build
		}
		text, err := run.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		body, err := os.ReadFile(at)
		if err != nil {
			t.Fatal(err)
		}
		bodies[i] = string(body)
	}
	if bodies[0] != bodies[1] {
		t.Error("carapace compiled twice is two programs")
	}
}
