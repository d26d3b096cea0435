//go:build linux

package carapace

// This file determines which limits this host can enforce. It tries each one if that leaves nothing behind, and
// otherwise inspects the host.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/calls"
	"github.com/yi-json/synapse/runtime/egress"
)

// Finding reports whether this host supports one feature.
type Finding struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Reason is the method, or the reason why the host does not support it.
	Reason string `json:"reason"`
}

// Check returns a finding for everything that a Spec can request.
func Check(cgroups Cgroups) []Finding {
	cgroups = cgroups.filled()
	findings := []Finding{
		checkRoot(), checkKernel(), checkMounts(), checkUserNamespaces(), checkSeccomp(), checkFilesystem("overlay", "layer"),
	}
	return append(findings, checkCgroups(cgroups)...)
}

// policyFile returns the policy file of a state directory. It is next to the directory, which contains only containers.
func policyFile(stateDir string) string { return filepath.Clean(stateDir) + ".policy" }

// WritePolicy writes the agent's job policy for the person who checks the host.
func WritePolicy(stateDir, text string) error {
	return os.WriteFile(policyFile(stateDir), []byte(text), 0o644)
}

// PolicyOf returns the job policy of the agent that owns the state directory.
func PolicyOf(stateDir string) Finding {
	text, err := os.ReadFile(policyFile(stateDir))
	if err != nil {
		return found("policy",
			"none: no agent has its containers in "+stateDir+", so carapace itself sets no limits "+
				"here; use --state-dir DATA-DIR/carapace for the policy of an agent")
	}
	return found("policy", string(text))
}

// networksFile returns the file of WriteNetworks, next to the state directory.
func networksFile(stateDir string) string { return filepath.Clean(stateDir) + ".networks" }

// WriteNetworks records why an agent cannot give private networks to jobs; empty: it can.
func WriteNetworks(stateDir, why string) error {
	return os.WriteFile(networksFile(stateDir), []byte(why), 0o644)
}

// NetworksOf returns whether the agent of this state directory gives private networks to jobs.
func NetworksOf(stateDir string) Finding {
	why, err := os.ReadFile(networksFile(stateDir))
	switch {
	case err != nil:
		return found("private networks", "agents provide these, and no agent has its containers in "+stateDir)
	case len(why) > 0:
		return missing("private networks", errors.New(string(why)))
	}
	return found("private networks", "veth and nftables")
}

// LackOfIDs names the feature of a separate uid range per container.
const LackOfIDs = "root of a container's own"

// IDsAt returns whether containers below a folder can have separate uid ranges.
func IDsAt(folder string) Finding {
	if os.Geteuid() != 0 {
		return missing(LackOfIDs, errors.New("only root can assign the uid range"))
	}
	if err := TryIDs(folder); err != nil {
		return missing(LackOfIDs, err)
	}
	return found(LackOfIDs, "user namespaces and idmapped mounts")
}

// LackOfComposed names the same feature for containers that another program makes.
const LackOfComposed = LackOfIDs + ", by another program"

// Composes returns that finding as far as this program decides.
func Composes() Finding {
	return found(LackOfComposed, "root composed in the same way as carapace's own")
}

func found(name, how string) Finding         { return Finding{name, true, how} }
func missing(name string, why error) Finding { return Finding{name, false, why.Error()} }

func checkRoot() Finding {
	if os.Geteuid() == 0 {
		return found("root", "every part of a container can be set up")
	}
	return missing("root",
		errors.New("not root: a user namespace with one user, no cgroups unless delegated, and no change of user"))
}

func checkKernel() Finding {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return missing("kernel", err)
	}
	release := unix.ByteSliceToString(name.Release[:])
	pidfd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return missing("kernel", fmt.Errorf("%s has no pidfd: Linux 5.12 or newer is required", release))
	}
	unix.Close(pidfd)
	return found("kernel", release)
}

// checkMounts tries the newest system call that set-up needs, on a mount that does not exist. Only a kernel without the
// call returns ENOSYS.
func checkMounts() Finding {
	err := unix.MountSetattr(-1, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	if err == unix.ENOSYS {
		return missing("mounts", errors.New("mount_setattr is missing: Linux 5.12 or newer is required"))
	}
	return found("mounts", "mount_setattr")
}

func checkUserNamespaces() Finding {
	text, err := os.ReadFile("/proc/sys/user/max_user_namespaces")
	if err != nil {
		return missing("user namespaces", err)
	}
	if strings.TrimSpace(string(text)) == "0" {
		return missing("user namespaces", errors.New("user.max_user_namespaces is 0: containers need root here"))
	}
	return found("user namespaces", "for containers without root")
}

func checkSeccomp() Finding {
	if _, err := calls.Program(nil); err != nil {
		return missing("seccomp", err)
	}
	if _, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0); err != nil {
		return missing("seccomp", errors.New("the kernel was built without seccomp"))
	}
	return found("seccomp", "default filter")
}

func checkFilesystem(kind, name string) Finding {
	text, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return missing(name, err)
	}
	if !slices.Contains(strings.Fields(string(text)), kind) {
		return missing(name, fmt.Errorf("the kernel does not list %s; try modprobe %s", kind, kind))
	}
	return found(name, kind)
}

// checkCgroups makes a group, sets a generous limit of each kind, and removes the group.
func checkCgroups(cgroups Cgroups) []Finding {
	h := findHierarchies(cgroups.Root)
	version := found("cgroups", "v2")
	switch {
	case h.unified == "" && len(h.by) == 0:
		version = missing("cgroups", fmt.Errorf("nothing is mounted at %s", cgroups.Root))
	case h.unified == "":
		version = found("cgroups", "v1 or hybrid")
	}
	findings := []Finding{version}
	probe := Spec{ID: "check-" + DrawID(), Limits: Limits{MemoryBytes: 1 << 40, MilliCPU: 1000, Pids: 1000,
		Cpuset: "0"},
		Unreachable: egress.Metadata()}
	g := createGroup(h, cgroups.Parent, probe, plainDevices)
	for _, what := range []string{"memory limit", "pids limit", "cpu limit", "cpuset", "devices", LackOfReach} {
		finding := found(what, "set and read by the kernel")
		for _, lost := range g.unenforced {
			if reason, ok := strings.CutPrefix(lost, what+": "); ok {
				finding = missing(what, errors.New(reason))
			}
		}
		findings = append(findings, finding)
	}
	if h.unified != "" {
		kill := found("kill by cgroup", "cgroup.kill")
		if _, err := os.Stat(filepath.Join(g.leaves[""], "cgroup.kill")); errors.Is(err, fs.ErrNotExist) {
			kill = found("kill by cgroup", "the pid namespace is used; cgroup.kill needs Linux 5.14")
		}
		findings = append(findings, kill)
	}
	if err := g.remove(removeLimit); err != nil {
		findings = append(findings, missing("removal of cgroups", err))
	}
	removeParents(cgroups)
	return findings
}
