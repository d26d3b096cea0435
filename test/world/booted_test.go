//go:build world

package world

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able"
)

// This file boots test hosts: Debian from debootstrap with systemd as the first process, each in separate namespaces
// and cgroups and all on one cable. They end with their test.

// booted is such a host.
type booted struct {
	t                   *testing.T
	name, root, address string
	boot                *exec.Cmd
	pid                 int // of its first process
}

// needBoots skips a test of such hosts if they cannot run here.
func needBoots(t *testing.T) {
	t.Helper()
	able.Need(t, able.Containers, able.Cgroups, able.Bridges, able.Program("debootstrap"), able.Program("dpkg-deb"),
		able.Program("git"))
	if groups, err := os.ReadFile("/proc/self/cgroup"); err != nil ||
		!strings.HasPrefix(string(groups), "0::") && !strings.Contains(string(groups), ":name=systemd:") {
		t.Skip("this host has v1 cgroups without systemd's own hierarchy, which a test host cannot create")
	}
}

// boots makes copies of a root, boots each, and waits until they run.
func boots(t *testing.T, root string, number int) (all []*booted) {
	t.Helper()
	cable := exec.Command("unshare", "--net", "sh", "-c", "ip link add lab type bridge && ip link set lab up && exec cat")
	hold, err := cable.StdinPipe()
	if err == nil {
		err = cable.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		hold.Close()
		_ = cable.Wait()
	})
	for n := range number {
		m := &booted{t: t, name: fmt.Sprintf("%s-m%d", filepath.Base(filepath.Dir(root)), n+1),
			root: fmt.Sprintf("%s-%d", root, n+1), address: fmt.Sprintf("10.79.0.%d", n+1)}
		copied := exec.Command("cp", "-a", root, m.root)
		if text, err := copied.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if err := os.WriteFile(filepath.Join(m.root, "etc/hosts"), []byte("127.0.0.1 localhost\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		m.start()
		m.plug(cable.Process.Pid, n+1)
		all = append(all, m)
	}
	for _, m := range all {
		m.until("it runs", "systemctl is-system-running")
	}
	return all
}

// start boots the host.
func (m *booted) start() {
	m.t.Helper()
	var said bytes.Buffer
	m.boot = exec.Command("bash", "testdata/boot.sh", m.root, m.name)
	m.boot.Stdout, m.boot.Stderr = &said, &said
	if err := m.boot.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		_ = m.boot.Process.Kill() // its first process ends with it, and all others with that one
		_ = m.boot.Wait()
		remove := exec.Command("find", "/sys/fs/cgroup", "-depth", "-path", "*/"+m.name+"*", "-type", "d", "-delete")
		for limit := time.Now().Add(time.Minute); remove.Run() != nil; time.Sleep(100 * time.Millisecond) {
			if remove = exec.Command(remove.Path, remove.Args[1:]...); time.Now().After(limit) {
				m.t.Errorf("cgroups of %s are left", m.name)
				return
			}
		}
		if m.t.Failed() {
			m.t.Logf("%s said: %s", m.name, said.String())
		}
	})
	children := fmt.Sprintf("/proc/%d/task/%d/children", m.boot.Process.Pid, m.boot.Process.Pid)
	for limit := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		text, _ := os.ReadFile(children)
		if _, err := fmt.Sscan(string(text), &m.pid); err == nil {
			program, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", m.pid))
			if strings.HasSuffix(program, "/systemd") {
				return
			}
		}
		if time.Now().After(limit) {
			m.t.Fatalf("%s does not boot", m.name)
		}
	}
}

// plug connects it with the cable that a process holds.
func (m *booted) plug(cable, number int) {
	m.t.Helper()
	script := fmt.Sprintf(`nsenter -t %d -n sh -c 'ip link add p%d type veth peer name eth0 netns %d
ip link set p%d master lab up'
nsenter -t %d -n sh -c 'ip addr add %s/24 dev eth0; ip link set eth0 up; ip link set lo up'`,
		cable, number, m.pid, number, m.pid, m.address)
	if text, err := exec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
		m.t.Fatalf("%v: %s", err, text)
	}
}

// asks runs a script on it as its root, without a terminal.
func (m *booted) asks(script string) (string, error) {
	within := exec.Command("nsenter", "-t", fmt.Sprint(m.pid), "-m", "-u", "-i", "-n", "-p", "-C", "-r", "env", "-i",
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "DEBIAN_FRONTEND=noninteractive", "sh", "-ec",
		"cd /root; "+script)
	text, err := within.CombinedOutput()
	return strings.TrimSpace(string(text)), err
}

// does runs a script that must succeed.
func (m *booted) does(script string) string {
	m.t.Helper()
	said, err := m.asks(script)
	if err != nil {
		log, _ := m.asks("journalctl --no-pager -u 'synapse-*' | tail -n 20")
		m.t.Fatalf("%s: %s: %v\n%s\n%s", m.name, script, err, said, log)
	}
	return said
}

// until waits until a script succeeds.
func (m *booted) until(what, script string) {
	m.t.Helper()
	for limit := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		said, err := m.asks(script)
		if err == nil {
			return
		}
		if time.Now().After(limit) {
			log, _ := m.asks("systemctl --failed --no-pager; journalctl --no-pager -u 'synapse-*' | tail -n 20")
			m.t.Fatalf("%s: not within two minutes: %s: %v\n%s\n%s", m.name, what, err, said, log)
		}
	}
}

// gives writes a file there, readable only by its root.
func (m *booted) gives(path string, text []byte) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.root, path), text, 0o600); err != nil {
		m.t.Fatal(err)
	}
}
