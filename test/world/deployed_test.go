//go:build world

package world

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// This file tests `synapse-cli deploy` on realistic hosts, through ssh.

// TestDeployed makes three nodes join from the scheduler's host, one of them as a user who is not root, as in
// docs/operate/deploy.md. A repetition must change nothing. A new version must reach all nodes while a gang runs.
// Manual changes must not be lost. A change that would break nodes must stop at the first of them.
func TestDeployed(t *testing.T) {
	t.Parallel()
	needBoots(t)
	folder := room(t)
	release, next := packages(t)
	root := filepath.Join(folder, "root")
	debootstrap(t, root, "systemd", "systemd-sysv", "nftables", "openssh-server", "openssh-client", "sudo")
	machines := boots(t, root, 3)
	head := machines[0]
	old, new := head.keeps(release), head.keeps(next)
	head.does("apt-get install -y ./synapse_" + old + "_*.deb")
	leads(head)
	letsIn(machines)
	names := func(common, second string) {
		head.gives("root/hosts.yaml", fmt.Appendf(nil, "settings: {%s}\nnodes:\n  n1: {ssh: root@%s}\n"+
			"  n2: {ssh: root@%s%s}\n  n3: {ssh: ada@%s, settings: {labels: pool=b}}\n", common, head.address,
			machines[1].address, second, machines[2].address))
	}
	join := `join: "` + head.address + `:9000"`
	names(join, "")

	said := head.deploys(0, old, "--dry-run")
	wants(t, said, "n1 to do: writes settings, joins with a token\n",
		"n3 to do: installs "+old+", writes settings, joins with a token")
	if out, err := machines[2].asks("dpkg-query -W synapse"); err == nil {
		t.Errorf("a look installs: %s", out)
	}
	wants(t, head.deploys(0, old), "3 nodes: 3 deployed", "n2 deployed: up, 0 GPUs, agent ")
	wants(t, head.does("synapse-cli get nodes -l pool=b"), "n3")
	same := unharmed(t, machines, beginsGang(t, machines))
	agents := func() (pids string) {
		for _, m := range machines {
			pids += m.does("systemctl show -P MainPID synapse-node") + " "
		}
		return pids
	}
	before := agents()
	wants(t, head.deploys(0, old), "3 nodes: 3 unchanged")
	if now := agents(); now != before {
		t.Errorf("without changes the agents are %s, before: %s", now, before)
	}
	wants(t, head.deploys(0, new), "3 nodes: 3 deployed", "n2: replaces "+old+" with "+new+"\n")
	same("a new version")
	deployedByHand(t, head, machines[1], new)
	same("what was written by hand")
	wants(t, head.does("synapse-cli get jobs"), " running ")
	// a node that is cut off for so long has its gang restarted on another node
	deployedWorse(t, head, new, names, join)
	for _, m := range machines {
		m.does("test -z \"$(find /var/tmp -name 'synapse*')\"")
	}
}

// deployedByHand checks that a manually written file is overwritten only with an explicit flag, and that it is then
// saved.
func deployedByHand(t *testing.T, head, other *booted, version string) {
	t.Helper()
	other.does("echo 'labels: pool=c' >>/etc/synapse/node.yaml")
	wants(t, head.deploys(1, version), "n2 refused: /etc/synapse/node.yaml was edited on the node", "n1 unchanged: ")
	wants(t, head.deploys(0, version, "--overwrite"), "n2 deployed: ", "3 nodes: 1 deployed, 2 unchanged")
	wants(t, other.does("cat /etc/synapse/node.yaml.before"), "labels: pool=c")
}

// deployedWorse checks that settings which an agent rejects are never activated, and that settings which keep a node
// away stop the deployment. A correct file must repair it.
func deployedWorse(t *testing.T, head *booted, version string, names func(common, second string), join string) {
	t.Helper()
	pid := head.does("systemctl show -P MainPID synapse-node")
	names(join+", toplogy: rack=r1", "")
	wants(t, head.deploys(1, version), "toplogy: unknown setting; did you mean \"topology\"?", "n2 not started: ")
	if now := head.does("systemctl show -P MainPID synapse-node"); now != pid {
		t.Errorf("wrong settings have restarted the agent")
	}
	names(join, ", settings: {join: \""+head.address+":9001\"}") // an address without a listener
	wants(t, head.deploys(1, version, "--canary", "3", "--within", "20s"), "n1 unchanged: ", "n2 worse: ")
	names(join, "")
	wants(t, head.deploys(0, version), "n2 deployed: ")
}

// wants reports texts that are missing in another text.
func wants(t *testing.T, said string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(said, text) {
			t.Errorf("no %q in\n%s", text, said)
		}
	}
}

// keeps stores a package there under its original name, and returns its version.
func (m *booted) keeps(pack string) (version string) {
	m.t.Helper()
	said, err := exec.Command("dpkg-deb", "-f", pack, "Version").Output()
	if err != nil {
		m.t.Fatal(err)
	}
	text, err := os.ReadFile(pack)
	if err != nil {
		m.t.Fatal(err)
	}
	version = strings.TrimSpace(string(said))
	m.gives(fmt.Sprintf("root/synapse_%s_%s.deb", version, runtime.GOARCH), text)
	return version
}

// deploys runs the command of docs/operate/deploy.md, checks its exit code, and returns its output.
func (m *booted) deploys(code int, version string, more ...string) string {
	m.t.Helper()
	line := strings.NewReplacer("VERSION_amd64", version+"_"+runtime.GOARCH, "\n", "").
		Replace(blocksFor(m.t, "docs/operate/deploy.md")[0].Text)
	said := m.does("set +e; " + line + " " + strings.Join(more, " ") + " 2>&1; echo ended with $?")
	if !strings.HasSuffix(said, fmt.Sprintf("ended with %d", code)) {
		m.t.Errorf("%s %v: not with %d:\n%s", line, more, code, said)
	}
	return said
}

// letsIn lets root on the first host reach all hosts by ssh: as root, and as a user who can become root.
func letsIn(machines []*booted) {
	key := machines[0].does("ssh-keygen -q -t ed25519 -N '' -f .ssh/id_ed25519 && cat .ssh/id_ed25519.pub && " +
		"echo 'StrictHostKeyChecking accept-new' >.ssh/config")
	for _, m := range machines {
		m.does(fmt.Sprintf(`useradd -m ada && echo 'ada ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/ada
for home in /root /home/ada; do mkdir -p $home/.ssh && echo '%s' >>$home/.ssh/authorized_keys; done
chown -R ada: /home/ada/.ssh; systemctl is-active ssh`, key))
	}
}
