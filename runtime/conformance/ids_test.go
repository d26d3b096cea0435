//go:build linux

// This file tests containers with a separate id range, in which a task may be root without root rights on the host.
package conformance

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/test/able"
)

// ownFirst is the host's id for id 0 in the tests' containers.
const ownFirst = 400_000_000

// ownIDs returns ids that make the container's root the user nobody in host directories.
func ownIDs() *carapace.IDs { return &carapace.IDs{First: ownFirst, UID: ofNobody, GID: ofNobody} }

// rooted drives carapace with containers that have their own root.
type rooted struct {
	*library
	t testing.TB
}

func (d rooted) Start(task Task) (Running, error) {
	spec := specOf(task)
	spec.IDs = ownIDs()
	for _, source := range task.Mounts { // so that the container's root may write there
		if err := os.Chown(source, ofNobody, ofNobody); err != nil {
			return nil, err
		}
	}
	if spec.Rootfs != "host" {
		spec.Layer = d.t.TempDir()
	}
	return d.start(task, spec)
}

// TestCarapaceOwnRoot runs the suite on containers whose root is not the host's.
func TestCarapaceOwnRoot(t *testing.T) {
	able.Need(t, able.OwnRoot)
	Run(t, rooted{newLibrary(t), t})
}

// TestOwnRootHardening tries forbidden actions as the container's root, in a rootfs and on the host view.
func TestOwnRootHardening(t *testing.T) {
	able.Need(t, able.OwnRoot)
	o := newOwn(t)
	if missing := able.Busybox(); missing != "" {
		t.Skip(missing)
	}
	if interpreter := interpreterOf(t, "/proc/self/exe"); interpreter != "" {
		t.Skipf("the probe is this test binary, and it needs %s", interpreter)
	}
	words := []string{"unshare user", "unshare mount", "clone3 user", "mount", "bpf", "io_uring", "keyctl", "kexec",
		"reboot", "inject",
		"init memory", "init binary", "init root", "sysctl", "sysrq", "chroot", "cgroup", "node", "host name",
		"beyond", "low port"}
	granted := map[string][]string{
		"all capabilities": {"chroot"}, "no filter": {"chroot", "io_uring", "keyctl", "unshare mount", "mount"},
	}
	for name, spec := range map[string]carapace.Spec{
		"rootfs":           {Rootfs: able.MakeRootfs(t), Layer: t.TempDir()},
		"read-only rootfs": {Rootfs: able.MakeRootfs(t), ReadOnly: true},
		"host view":        {Rootfs: "host"},
		"all capabilities": {Rootfs: able.MakeRootfs(t), Layer: t.TempDir(), CapAdd: []string{"ALL"}},
		"no filter":        {Rootfs: able.MakeRootfs(t), Layer: t.TempDir(), CapAdd: []string{"ALL"}, Seccomp: "off"},
	} {
		spec.IDs, spec.User = ownIDs(), "0:0"
		for word, answer := range o.inside(spec, words...) {
			if slices.Contains(granted[name], word) {
				continue // only over its own resources
			}
			if answer == "allowed" {
				t.Errorf("%s: %s is allowed", name, word)
			}
		}
	}
	// The permitted actions succeed, which shows that the probes work.
	got := o.inside(carapace.Spec{Rootfs: able.MakeRootfs(t), Layer: t.TempDir(), IDs: ownIDs(), Net: carapace.NetNone},
		"write root", "within", "become", "low port", "is root")
	for word, answer := range got {
		if answer != "allowed" {
			t.Errorf("%s: %s", word, answer)
		}
	}
}

// TestOwnRootFiles checks that the container's root is one plain user on the host and root in its image, and that its
// files never belong to another user.
func TestOwnRootFiles(t *testing.T) {
	able.Need(t, able.OwnRoot)
	o := newOwn(t)
	if missing := able.Busybox(); missing != "" {
		t.Skip(missing)
	}
	data, layer, root := place(t, "data", 0o777|os.ModeSticky, 0), t.TempDir(), able.MakeRootfs(t)
	write(t, filepath.Join(root, "etc/shadow"), "of the image\n", 0o600)
	for name, owner := range map[string]int{
		"root": 0, "person": 1234, "own": ofNobody, "inner": ownFirst, "other": ownFirst + 33,
	} {
		write(t, filepath.Join(data, name), name+"\n", 0o600)
		if err := os.Chown(filepath.Join(data, name), owner, owner); err != nil {
			t.Fatal(err)
		}
	}
	script := `
id -u; stat -c %u:%g / /bin/busybox /tmp /dev /x/own /x/root
cat /etc/shadow
cat /x/root /x/person /x/own /x/inner /x/other 2>/dev/null
echo changed >> /etc/shadow; mkdir -p /deep/er; echo > /mine; chown 33:44 /mine && stat -c %u:%g /mine; chmod 4755 /mine; stat -c %a /mine
chown 65536 /mine 2>/dev/null || echo not beyond
echo > /x/made; chown 33 /x/made 2>/dev/null || echo not there
for f in root person inner other; do rm -f /x/$f 2>/dev/null && test ! -e /x/$f && echo removed $f; chmod 666 /x/$f 2>/dev/null && echo opened $f; done
kill -9 1 2>/dev/null; kill -0 1 2>/dev/null || echo not init
echo ` + "`cat /proc/self/uid_map`"
	text, exit := o.run(carapace.Spec{
		Rootfs: root, Layer: layer, IDs: ownIDs(), Command: []string{"/bin/sh", "-c", script},
		Mounts: []carapace.Mount{{Source: data, Target: "/x"}},
	})
	want := "0\n0:0\n0:0\n0:0\n0:0\n0:0\n65534:65534\nof the image\nown\n33:44\n4755\nnot beyond\nnot there\nnot init\n" +
		"0 400000000 65536\n"
	if exit.Code != 0 || text != want {
		t.Errorf("exit %+v\ngot  %q\nwant %q", exit, text, want)
	}
	for path, owner := range map[string]uint32{
		filepath.Join(data, "made"): ofNobody, filepath.Join(layer, "upper/mine"): ownFirst + 33,
		filepath.Join(layer, "upper/deep/er"): ownFirst, filepath.Join(layer, "upper/etc/shadow"): ownFirst,
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
}

// TestOwnRootGains checks that a set-user-id program of the image gives its caller the rights of its owner, who is no
// user of the host.
func TestOwnRootGains(t *testing.T) {
	able.Need(t, able.OwnRoot)
	o := newOwn(t)
	if missing := able.Busybox(); missing != "" {
		t.Skip(missing)
	}
	if interpreter := interpreterOf(t, "/proc/self/exe"); interpreter != "" {
		t.Skipf("the probe is this test binary, and it needs %s", interpreter)
	}
	root, data := able.MakeRootfs(t), place(t, "data", 0o755, 0)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for path, owner := range map[string]int{
		filepath.Join(root, "bin/gain"): 0, filepath.Join(root, "bin/gain-other"): 44,
		filepath.Join(data, "gain"): 0, filepath.Join(data, "gain-own"): ofNobody,
	} {
		copyFile(t, self, path)
		if err := errors.Join(os.Chown(path, owner, owner), unix.Chmod(path, 0o4755)); err != nil {
			t.Fatal(err)
		}
	}
	spec := carapace.Spec{
		Rootfs: root, Layer: t.TempDir(), IDs: ownIDs(), Mounts: []carapace.Mount{{Source: data, Target: "/data"}},
	}
	for word, want := range map[string]string{
		"gain of /bin/gain": "allowed", "gain of /bin/gain-other": "EPERM", "gain of /data/gain": "EPERM",
		"gain of /data/gain-own": "EPERM",
	} {
		if got := o.inside(spec, word)[word]; got != want {
			t.Errorf("%s: %s", word, got)
		}
	}
}

// copyFile copies a program.
func copyFile(t testing.TB, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	write(t, to, string(text), 0o755)
}

// init adds the probes for the permitted and forbidden actions of a container's root.
func init() {
	for word, try := range map[string]func() error{
		"node":      func() error { return unix.Mknod("/tmp/node", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))) },
		"host name": func() error { return unix.Sethostname([]byte("changed")) },
		"within": func() error {
			return errors.Join(os.WriteFile("/tmp/within", nil, 0o600), os.Chown("/tmp/within", 65535, 65535))
		},
		"beyond": func() error {
			return errors.Join(os.WriteFile("/tmp/beyond", nil, 0o600), os.Chown("/tmp/beyond", 65536, 65536))
		},
		"become":   func() error { return asUser("/tmp/probe", "write root", "EACCES") },
		"is root":  isRoot,
		"low port": lowPort,
	} {
		probes[word] = try
	}
	for _, program := range []string{"/bin/gain", "/bin/gain-other", "/data/gain", "/data/gain-own"} {
		probes["gain of "+program] = func() error { return asUser(program, "is root", "allowed") }
	}
}

// asUser lets a program try a word as another user of the container.
func asUser(program, word, answer string) error {
	command := exec.Command(program, probeArgument, word)
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 33, Gid: 33}}
	text, err := command.CombinedOutput()
	if err == nil && answers(string(text))[word] != answer {
		err = unix.EPERM
	}
	return err
}

func isRoot() error {
	if os.Geteuid() != 0 {
		return unix.EPERM
	}
	return nil
}

func lowPort() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Bind(fd, &unix.SockaddrInet4{Port: 81, Addr: [4]byte{127, 0, 0, 1}})
}
