//go:build world

package world

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// This file tests the Debian package on realistic hosts: installed by apt, run by systemd, upgraded, removed and
// purged. A gang lives through all of this except the purge.

// TestInstalled installs the package on three hosts, starts the units, and lets the nodes join with tokens. A gang in
// containers must then outlive an agent's death, the stop of each unit, an upgrade in place, and the removal of the
// package. A purge must wait for the gang, and leave nothing behind.
func TestInstalled(t *testing.T) {
	t.Parallel()
	needBoots(t)
	folder := room(t)
	release, next := packages(t)
	root := filepath.Join(folder, "root")
	debootstrap(t, root, "systemd", "systemd-sysv", "nftables")
	machines := boots(t, root, 3)
	var before []string
	for _, m := range machines {
		before = append(before, m.does(traces))
		m.installs(release)
		if said, err := m.asks("systemctl is-active synapse-node synapse-scheduler"); err == nil {
			t.Errorf("%s: the unit starts at the installation: %s", m.name, said)
		}
	}
	founds(t, machines)
	tasks := beginsGang(t, machines)
	same := unharmed(t, machines, tasks)
	outlives(t, machines, next, same)
	for i, m := range machines {
		m.does("apt-get remove -y synapse")
		same("the package's removal")
		said, err := m.asks("apt-get purge -y synapse </dev/null")
		if err == nil || !strings.Contains(said, "tasks of jobs still run here") {
			t.Errorf("%s: a purge while a task runs: %v\n%s", m.name, err, said)
		}
		m.does("echo now > /srv/go-on")
		m.until("its task ends", `grep -qx "ends now" /var/lib/synapse-node/launcher/tasks/*/stdout*.log && test -z "$(`+
			tasksThere+`)"`)
		tasks[i] = ""
	}
	for i, m := range machines {
		m.does("apt-get purge -y synapse </dev/null; rm -r /srv/go-on /root/*")
		if after := m.does(traces); after != before[i] {
			t.Errorf("%s: a purge leaves traces:\n%s", m.name, differing(before[i], after))
		}
	}
}

// traces lists everything that a package could leave: files by name, users, groups, mounts, cgroups, networks, and
// packet filter rules. It omits the records that Debian's own programs keep of every package.
const traces = `find / -xdev -not -path '/proc/*' -not -path '/run/*' -not -path '/tmp/*' -not -path '/var/log/*' ` +
	`-not -path '/var/cache/*' -not -path '/var/lib/dpkg/*' -not -path '/var/lib/apt/*' -not -path '/etc/*-' ` +
	`-not -name .pwd.lock | sort
cat /etc/passwd /etc/group; cut -d' ' -f5 /proc/self/mountinfo
find /sys/fs/cgroup -type d -name '*synapse*'; ls /sys/class/net; nft list ruleset`

// differing returns the lines that only one of two texts has.
func differing(before, after string) string {
	had, has := strings.Split(before, "\n"), strings.Split(after, "\n")
	var lines []string
	for _, line := range had {
		if !slices.Contains(has, line) {
			lines = append(lines, "- "+line)
		}
	}
	for _, line := range has {
		if !slices.Contains(had, line) {
			lines = append(lines, "+ "+line)
		}
	}
	return strings.Join(lines, "\n")
}

// distributed returns the folder of this commit's release for this platform, built when a test first needs it.
var distributed = sync.OnceValues(func() (string, error) {
	folder, err := shared("dist")
	if err != nil {
		return "", err
	}
	const script = `go -C ../../tools run ./dist -root .. -out "$1/dist" -only "linux/$2"`
	if text, err := exec.Command("sh", "-ec", script, "sh", folder, runtime.GOARCH).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	return filepath.Join(folder, "dist"), nil
})

// nextPackage returns the package of this commit with the next version number.
var nextPackage = sync.OnceValues(func() (string, error) {
	dist, err := distributed()
	if err != nil {
		return "", err
	}
	const script = `dpkg-deb -R "$1"/synapse_*.deb "$1/next"
sed -i 's/^Version: .*/&.next/' "$1/next/DEBIAN/control"
dpkg-deb --root-owner-group -b "$1/next" "$1/next.deb"`
	if text, err := exec.Command("sh", "-ec", script, "sh", dist).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	return filepath.Join(dist, "next.deb"), nil
})

// packages returns the package of this commit, and the same package with the next version number.
func packages(t *testing.T) (release, next string) {
	t.Helper()
	next, err := nextPackage()
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(filepath.Dir(next), "synapse_*.deb"))
	if err != nil || len(found) != 1 {
		t.Fatalf("unexpected packages: %q: %v", found, err)
	}
	return found[0], next
}

// installs installs a package with apt, by the command in docs/operate/install.md.
func (m *booted) installs(pack string) {
	m.t.Helper()
	text, err := os.ReadFile(pack)
	if err != nil {
		m.t.Fatal(err)
	}
	m.gives("root/synapse_VERSION_amd64.deb", text)
	for _, b := range blocksFor(m.t, "docs/operate/install.md") {
		m.does(b.Text)
	}
}

// founds creates a cluster of the hosts, as in docs/operate/install.md and docs/operate/tls.md. The first host runs the
// scheduler.
func founds(t *testing.T, machines []*booted) {
	t.Helper()
	head := machines[0]
	leads(head)
	for i, m := range machines {
		token := head.does(fmt.Sprintf("synapse-cli token create --by /var/lib/synapse/tls --node-name n%d 2>/dev/null", i+1))
		m.gives("etc/synapse/token", []byte(token+"\n"))
		m.does(`sed -i 's|^#join: .*|join: ` + head.address + `:9000|; s|^#tls: .*|tls: /var/lib/synapse-node/tls|
s|^#token: .*|token: /etc/synapse/token|' /etc/synapse/node.yaml
systemctl enable --now synapse-node`)
		if log := m.does("journalctl --no-pager -u synapse-node"); !strings.Contains(log, "Driver carapace: ") {
			t.Errorf("%s runs tasks in another driver: %s", m.name, log)
		}
	}
	head.until("three machines are up", "test $(synapse-cli get nodes | grep -c ' up ') = 3")
}

// leads starts a host's scheduler, for a cluster with keys.
func leads(m *booted) {
	m.t.Helper()
	m.does(`synapse-cli init keys --cluster doorstep
install -d -o synapse -g synapse -m 700 /var/lib/synapse
cp -r keys/scheduler /var/lib/synapse/tls && chown -R synapse: /var/lib/synapse/tls
sed -i 's|^#listen: .*|listen: ` + m.address + `:9000|
s|^#tls: .*|tls: /var/lib/synapse/tls|' /etc/synapse/scheduler.yaml
systemctl enable --now synapse-scheduler`)
}

// tasksThere lists the processes of tasks on a node.
const tasksThere = `find /sys/fs/cgroup -path '*/synapse/*' -name cgroup.procs -exec cat {} + | sort -nu`

// beginsGang starts a task on each node, which runs until it is stopped and starts no process. It returns their
// processes.
func beginsGang(t *testing.T, machines []*booted) (tasks []string) {
	t.Helper()
	for _, m := range machines {
		m.does("mkfifo -m 644 /srv/go-on")
	}
	machines[0].does(`synapse-cli submit -N 3 --image host --name through -- ` +
		`sh -c 'echo begins; read w </srv/go-on; echo "ends $w"'`)
	machines[0].until("the gang runs", "synapse-cli get jobs | grep -q ' running '")
	for _, m := range machines {
		m.until("its task runs", `test -n "$(`+tasksThere+`)"`)
		tasks = append(tasks, m.does(tasksThere))
	}
	return tasks
}

// unharmed returns a function that reports an error if the processes of tasks are not these.
func unharmed(t *testing.T, machines []*booted, tasks []string) func(after string) {
	return func(after string) {
		t.Helper()
		for i, m := range machines {
			if got := m.does(tasksThere); got != tasks[i] {
				t.Fatalf("after %s %s has the tasks %q, before: %q", after, m.name, got, tasks[i])
			}
		}
	}
}

// outlives checks that the gang lives through operations and failures.
func outlives(t *testing.T, machines []*booted, next string, same func(after string)) {
	t.Helper()
	head := machines[0]
	back := func() {
		t.Helper()
		head.until("all are up and the gang runs",
			"test $(synapse-cli get nodes | grep -c ' up ') = 3 && synapse-cli get jobs | grep -q ' running '")
	}
	pid := machines[1].does("systemctl show -P MainPID synapse-node")
	machines[1].does("kill -9 " + pid)
	machines[1].until("its unit starts it again",
		"systemctl is-active synapse-node && test $(systemctl show -P MainPID synapse-node) != "+pid)
	same("its agent was killed")
	machines[2].does("systemctl stop synapse-node")
	same("its unit was stopped")
	machines[2].does("systemctl start synapse-node")
	head.does("systemctl stop synapse-scheduler && systemctl start synapse-scheduler")
	same("the scheduler was stopped")
	back()
	for _, m := range machines {
		pid := m.does("systemctl show -P MainPID synapse-node")
		m.installs(next)
		if said := m.does("dpkg-query -W synapse"); !strings.HasSuffix(said, ".next") {
			t.Errorf("%s has version %s after the upgrade", m.name, said)
		}
		if m.does("systemctl is-active synapse-node; systemctl show -P MainPID synapse-node") == "active\n"+pid {
			t.Errorf("%s still runs the agent from before the upgrade", m.name)
		}
		same("an upgrade")
	}
	back()
}
