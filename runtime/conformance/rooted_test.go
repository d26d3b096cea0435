//go:build linux

// This file tests the permitted and forbidden actions of root inside a container, as a job on a node, with all
// runtimes.
package conformance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/test/able"
)

// probing returns an image with the probe in it.
func probing(t testing.TB) string {
	t.Helper()
	if interpreter := interpreterOf(t, "/proc/self/exe"); interpreter != "" {
		t.Skipf("the probe is this test binary, and it needs %s", interpreter)
	}
	root := able.MakeRootfs(t)
	copyFile(t, "/proc/self/exe", filepath.Join(root, "tmp/probe"))
	return root
}

// asked lets the probe try words as a job that names root.
func (s *stack) asked(t testing.TB, root string, change func(*messages.JobSpec), words ...string) map[string]string {
	t.Helper()
	r := s.try(t, root, "", func(j *messages.JobSpec) {
		asRoot(j)
		j.Command = append([]string{"/tmp/probe", probeArgument}, words...)
		change(j)
	})
	if !r.ran() {
		t.Fatalf("the probe: %v %q", r.exit, r.said)
	}
	return answers(r.said)
}

// TestRootHardening tries forbidden and permitted actions as root inside a container, on each network.
func TestRootHardening(t *testing.T) {
	onRootMachines(t, 2, func(t *testing.T, s *stack, driver string) {
		root := probing(t)
		refused := []string{"unshare user", "unshare mount", "clone3 user", "mount", "bpf", "io_uring", "keyctl", "kexec",
			"reboot", "inject",
			"sysctl", "sysrq", "chroot", "cgroup", "node", "host name", "beyond", "vsock", "alg", "userfault"}
		if driver == "carapace" {
			refused = append(refused, "init memory", "init binary", "init root") // the others have no init
		}
		allowed := []string{"write root", "within", "become", "is root"}
		for network, ports := range map[messages.Network]string{
			messages.Network_NETWORK_HOST: "EACCES", messages.Network_NETWORK_NONE: "allowed",
		} {
			got := s.asked(t, root, on(network), slices.Concat(refused, allowed, []string{"low port"})...)
			for _, word := range refused {
				if answer := got[word]; answer == "allowed" || answer == "" {
					t.Errorf("%v: %s is answered %q", network, word, answer)
				}
			}
			for _, word := range allowed {
				if got[word] != "allowed" {
					t.Errorf("%v: %s is answered %q", network, word, got[word])
				}
			}
			if got["low port"] != ports {
				t.Errorf("%v: a low port is answered %q", network, got["low port"])
			}
		}
	})
}

// TestRootFiles checks that the container's root is one plain user on the host and root in its image, and that its
// files never belong to another user.
func TestRootFiles(t *testing.T) { onRootMachines(t, 2, testRootFiles) }

func testRootFiles(t *testing.T, s *stack, _ string) {
	data, root := place(t, "data", 0o777|os.ModeSticky, 0), able.MakeRootfs(t)
	write(t, filepath.Join(root, "etc/shadow"), "of the image\n", 0o600)
	for name, owner := range map[string]int{
		"root": 0, "person": 1234, "own": mine, "inner": ownFirst, "other": ownFirst + 33,
	} {
		write(t, filepath.Join(data, name), name+"\n", 0o600)
		if err := os.Chown(filepath.Join(data, name), owner, owner); err != nil {
			t.Fatal(err)
		}
	}
	const script = `
id -u; stat -c %u:%g / /bin/busybox /tmp /dev /x/own /x/root
cat /etc/shadow
cat /x/root /x/person /x/own /x/inner /x/other 2>/dev/null
echo changed >> /etc/shadow; mkdir -p /deep/er; echo > /mine; chown 33:44 /mine && stat -c %u:%g /mine; chmod 4755 /mine; stat -c %a /mine
chown 65536 /mine 2>/dev/null || echo not beyond
echo > /x/made; chown 33 /x/made 2>/dev/null || echo not there
for f in root person inner other; do rm -f /x/$f 2>/dev/null && test ! -e /x/$f && echo removed $f; chmod 666 /x/$f 2>/dev/null && echo opened $f; done
cat $SYNAPSE_HOSTFILE | wc -l; echo again > /dev/stdout
for f in /proc/1 /sys /proc/kcore /sys/firmware; do (echo x > $f/x) 2>/dev/null && echo wrote $f; done
cat /proc/kcore | wc -c; ls /sys/firmware | wc -l
echo ` + "`cat /proc/self/uid_map` `cat /proc/self/gid_map`; sleep 600"
	p := s.begin("job", mine, root, script, func(j *messages.JobSpec) { asRoot(j); mounting(data, "/x")(j) })
	want := "0\n0:0\n0:0\n0:0\n0:0\n0:0\n65534:65534\nof the image\nown\n33:44\n4755\nnot beyond\nnot there\n1\n" +
		"again\n0\n0\n0 400000000 65536 0 400000000 65536\n"
	end := time.Now().Add(limit)
	for over := false; !over && len(p.said()) < len(want); time.Sleep(2 * time.Millisecond) {
		select {
		case <-p.gone:
			over = true
		default:
			over = time.Now().After(end)
		}
	}
	if p.said() != want {
		t.Errorf("%v\ngot  %q\nwant %q", p.exit, p.said(), want)
	}
	layer := filepath.Join(p.home(), "driver", "layer", "upper")
	for path, owner := range map[string]uint32{
		filepath.Join(data, "made"): mine, filepath.Join(layer, "mine"): ownFirst + 33,
		filepath.Join(layer, "deep/er"): ownFirst, filepath.Join(layer, "etc/shadow"): ownFirst,
		filepath.Join(root, "etc/shadow"): 0,
	} {
		info, err := os.Stat(path)
		if err != nil || info.Sys().(*syscall.Stat_t).Uid != owner {
			t.Errorf("%s: %v %v, and it is to be of %d", path, info, err, owner)
		}
	}
	if text, err := os.ReadFile(filepath.Join(root, "etc/shadow")); err != nil || string(text) != "of the image\n" {
		t.Errorf("the image has %q (%v)", text, err)
	}
	s.launcher.Tell(&messages.StopTask{Id: p.id, Signal: int32(syscall.SIGKILL)}, s.pid)
	p.forgotten(t)
}

// TestRootGains checks that a set-user-id program of the image gives its caller the rights of its owner, who is no user
// of the host.
func TestRootGains(t *testing.T) {
	onRootMachines(t, 2, func(t *testing.T, s *stack, _ string) {
		root, data := probing(t), place(t, "data", 0o755, 0)
		for path, owner := range map[string]int{
			filepath.Join(root, "bin/gain"): 0, filepath.Join(root, "bin/gain-other"): 44,
			filepath.Join(data, "gain"): 0, filepath.Join(data, "gain-own"): ofNobody,
		} {
			copyFile(t, "/proc/self/exe", path)
			if err := errors.Join(os.Chown(path, owner, owner), unix.Chmod(path, 0o4755)); err != nil {
				t.Fatal(err)
			}
		}
		for word, want := range map[string]string{
			"gain of /bin/gain": "allowed", "gain of /bin/gain-other": "EPERM", "gain of /data/gain": "EPERM",
			"gain of /data/gain-own": "EPERM",
		} {
			if got := s.asked(t, root, mounting(data, "/data"), word)[word]; got != want {
				t.Errorf("%s: %s", word, got)
			}
		}
	})
}

// TestRootPrivate checks that on a private network, root can listen on every port and sees the interfaces of that
// network.
func TestRootPrivate(t *testing.T) {
	onAMachine(t, func(t *testing.T, o *outside) {
		must(t, os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("0"), 0))
		free := o.answerer()
		networks = newNetworks(t, filepath.Join(t.TempDir(), "networks"))
		t.Cleanup(func() { networks = nil })
		onRootMachines(t, 2, func(t *testing.T, s *stack, _ string) {
			word := fmt.Sprintf("tcp %s:%s", farAddress, free)
			got := s.asked(t, probing(t), on(messages.Network_NETWORK_PRIVATE), "low port", word, "sysctl", "is root")
			for word, want := range map[string]string{
				"low port": "allowed", word: "allowed", "sysctl": "EROFS", "is root": "allowed",
			} {
				if got[word] != want {
					t.Errorf("%s is answered %q", word, got[word])
				}
			}
			for network, want := range map[messages.Network]string{
				messages.Network_NETWORK_PRIVATE: "eth0\nlo\n", messages.Network_NETWORK_NONE: "lo\n",
			} {
				r := s.try(t, able.MakeRootfs(t), "ls /sys/class/net", func(j *messages.JobSpec) { asRoot(j); on(network)(j) })
				if r.said != want {
					t.Errorf("%v: %v, interfaces %q", network, r.exit, r.said)
				}
			}
		})
		cleanNetwork(t)
	})
}

// TestRootJobsApart checks that the files of a root job, in host directories and in its scratch directory, are closed
// to another job.
func TestRootJobsApart(t *testing.T) {
	onRootMachines(t, 4, func(t *testing.T, s *stack, _ string) {
		data, image := place(t, "data", 0o777|os.ModeSticky, 0), able.MakeRootfs(t)
		begin := func(job string, uid uint32, script string) *staged {
			return s.begin(job, uid, image, script, func(j *messages.JobSpec) { asRoot(j); mounting(data, "/data")(j) })
		}
		victim := begin("theirs", theirs,
			"umask 077; echo secret > /data/theirs; echo secret > theirs; stat -c %u /data/theirs; sleep 600")
		until(t, "the other job does not run", func() bool { return victim.said() == "0\n" })
		own := begin("mine", mine,
			"cat /data/theirs || echo closed; rm -f /data/theirs; echo x > /data/mine; stat -c %u /data/mine /data/theirs")
		again := begin("theirs", theirs, "cat /data/theirs")
		for p, want := range map[*staged]string{own: "closed\n0\n65534\n", again: "secret\n"} {
			if <-p.gone; p.said() != want {
				t.Errorf("%v: it said %q, not %q", p.exit, p.said(), want)
			}
		}
		for name, owner := range map[string]uint32{"mine": mine, "theirs": theirs} {
			info, err := os.Stat(filepath.Join(data, name))
			if err != nil || info.Sys().(*syscall.Stat_t).Uid != owner {
				t.Errorf("%s: %v %v", name, info, err)
			}
		}
		s.launcher.Tell(&messages.StopTask{Id: victim.id, Signal: int32(syscall.SIGKILL)}, s.pid)
		for _, p := range []*staged{victim, own, again} {
			p.forgotten(t)
		}
	})
}

// TestRootKilled checks that nothing is left of a root task whose supervisor is killed, and that a root task continues
// if its agent is killed.
func TestRootKilled(t *testing.T) {
	onRootMachines(t, 4, func(t *testing.T, s *stack, _ string) {
		t.Run("supervisor", func(t *testing.T) { supervisorOfAMachineKilled(t, s) })
		t.Run("agent", func(t *testing.T) { agentOfAMachineKilled(t, s) })
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil || strings.Contains(string(mounts), s.dir) ||
			strings.Contains(string(mounts), carapace.ComposedBase+"/root") {
			t.Errorf("mounts are left on the host (%v):\n%s", err, mounts)
		}
	})
}
