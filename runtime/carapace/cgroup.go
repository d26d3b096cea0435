//go:build linux

package carapace

// This file owns the cgroups of one container: the hierarchies of the host, the container's group in each, its resource
// use, and its removal. Each group contains only the task. init stays with its starter and does not count towards the
// task's process limit.

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/egress"
)

const (
	defaultCgroupRoot   = "/sys/fs/cgroup"
	defaultCgroupParent = "/synapse"
	cpuPeriodUs         = 100_000
	besideName          = "unified" // systemd's name for the v2 tree of a hybrid host
)

// hierarchies holds the mounted cgroup hierarchies: unified on v2, or the folder of each v1 controller by name. On a
// hybrid node the controllers are those of v1, and the unified tree is used only for filters on its groups.
type hierarchies struct {
	unified string
	beside  string // the unified tree of a hybrid host; it has no controllers
	by      map[string]string
	own     func(controller string) (string, error) // returns the caller's own group in a hierarchy
}

// v1Controllers lists the controllers that Synapse uses, in the order in which groups are made.
var v1Controllers = []string{"memory", "pids", "devices", "cpuacct", "cpu", "cpuset"}

// findHierarchies reads a cgroup mount. It checks the file systems instead of the table of mounts, which may have
// thousands of lines on a busy host.
func findHierarchies(root string) hierarchies {
	found := hierarchies{by: map[string]string{}, own: ownGroup}
	if isFilesystem(root, unix.CGROUP2_SUPER_MAGIC) {
		found.unified = root
		return found
	}
	if real, err := filepath.EvalSymlinks(root); err == nil {
		root = real // so each folder has one name
	}
	for _, controller := range v1Controllers {
		folder := filepath.Join(root, controller)
		if !isFilesystem(folder, unix.CGROUP_SUPER_MAGIC) {
			continue
		}
		// cpu and cpuacct are often one mount with a link for each name.
		if stat := new(unix.Stat_t); unix.Lstat(folder, stat) == nil && stat.Mode&unix.S_IFMT == unix.S_IFLNK {
			real, err := filepath.EvalSymlinks(folder)
			if err != nil {
				continue
			}
			folder = real
		}
		found.by[controller] = folder
	}
	if tree := filepath.Join(root, besideName); isFilesystem(tree, unix.CGROUP2_SUPER_MAGIC) {
		found.beside = tree
	}
	return found
}

func isFilesystem(path string, magic int64) bool {
	var stat unix.Statfs_t
	return unix.Statfs(path, &stat) == nil && int64(stat.Type) == magic
}

// ownGroup returns the caller's group in a hierarchy. The controller of v2 is "".
func ownGroup(controller string) (string, error) {
	text, err := readFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) == 3 && slices.Contains(strings.Split(parts[1], ","), controller) {
			return parts[2], nil
		}
	}
	return "", fmt.Errorf("/proc/self/cgroup has no group for the controller %q", controller)
}

// parent returns the folder under which containers' groups are made.
func (h hierarchies) parent(controller, parent string) (string, error) {
	root := h.by[controller]
	switch {
	case h.unified != "":
		root, controller = h.unified, ""
	case controller == "":
		root = h.beside
	}
	if filepath.IsAbs(parent) {
		return filepath.Join(root, parent), nil
	}
	own, err := h.own(controller)
	if err != nil {
		return "", err
	}
	return filepath.Join(root, own, parent), nil
}

// cgroup holds the cgroups of a container.
type cgroup struct {
	unified bool
	// leaves holds the folders by controller. On v2, the only folder is under "".
	leaves map[string]string
	// beside is the folder in the unified tree of a hybrid host, if one is needed.
	beside string
	// controllers lists the controllers that work on v2's leaf.
	controllers []string
	unenforced  []string
}

// folders returns the distinct leaves, sorted, because two controllers may share one.
func (g *cgroup) folders() []string {
	all := slices.Collect(maps.Values(g.leaves))
	if g.beside != "" {
		all = append(all, g.beside)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (g *cgroup) lacks(what string, why error) {
	g.unenforced = append(g.unenforced, what+": "+reasonOf(why))
}

// reasonOf returns the reason why the cgroup file system refused, in plain words.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, unix.EROFS):
		return "the cgroup file system is read-only"
	case errors.Is(err, fs.ErrPermission):
		return "no permission to write the cgroup file system"
	}
	return err.Error()
}

var (
	errNotMounted   = errors.New("the host has no such cgroup controller mounted")
	errNotDelegated = errors.New("the cgroup controller is not delegated to the parent group")
)

// wants returns the controllers that a spec uses, each with the name of the limit that is missing without it. An empty
// name means that nothing needs to be reported.
func wants(spec Spec) map[string]string {
	wanted := map[string]string{"memory": "", "pids": "", "devices": "devices", "cpuacct": ""}
	limits := spec.Limits
	if limits.MemoryBytes > 0 {
		wanted["memory"] = "memory limit"
	}
	if limits.Pids > 0 {
		wanted["pids"] = "pids limit"
	}
	if limits.MilliCPU > 0 {
		wanted["cpu"] = "cpu limit"
	}
	if limits.Cpuset != "" || limits.CpusetMems != "" {
		wanted["cpuset"] = "cpuset"
	}
	return wanted
}

// createGroup makes the groups and sets the limits. It lists failures instead of returning them, and the caller
// decides.
func createGroup(h hierarchies, parent string, spec Spec, devices []deviceRule) *cgroup {
	var g *cgroup
	leaf := ""
	if h.unified != "" {
		g = createV2(h, parent, spec, devices)
		leaf = g.leaves[""]
	} else {
		g = createV1(h, parent, spec, devices)
	}
	g.limitAll(h, parent, spec.Limits)
	if len(spec.Unreachable) > 0 {
		if err := g.refuseWays(h, leaf, parent, spec); err != nil {
			g.lacks(LackOfReach, err)
		}
	}
	return g
}

// LackOfReach names the limit that is missing on a node without filters for the connections of a task.
const LackOfReach = "network filter"

// refuseWays sets a filter on the group. On a hybrid host it makes a group in the unified tree for this.
func (g *cgroup) refuseWays(h hierarchies, leaf, parent string, spec Spec) (err error) {
	if h.unified == "" {
		if h.beside == "" {
			return errors.New("the host has no cgroup v2 hierarchy mounted")
		}
		folder, err := h.parent("", parent)
		if err != nil {
			return err
		}
		if leaf, err = makeLeaf(folder, spec.ID, func(folder string) error {
			return os.MkdirAll(folder,
				0o755)
		}); err != nil {
			return err
		}
		g.beside = leaf
	}
	if leaf == "" {
		return errors.New("the container has no cgroup")
	}
	return egress.Refuse(leaf, spec.Unreachable)
}

// RefuseWays serves a container that another program makes. It makes the group that a filter for the container's
// connections needs. It returns the group in which the program must create the container; empty: the program joins that
// group itself.
func RefuseWays(cgroups Cgroups, id string, places []egress.Place) (born string, err error) {
	cgroups = cgroups.filled()
	h, g, leaf := findHierarchies(cgroups.Root), &cgroup{}, ""
	if h.unified != "" {
		folder, err := h.parent("", cgroups.Parent)
		if err != nil {
			return "", err
		}
		if leaf, err = makeLeaf(folder, id, func(folder string) error {
			return os.MkdirAll(folder,
				0o755)
		}); err != nil {
			return "", err
		}
	}
	err = g.refuseWays(h, leaf, cgroups.Parent, Spec{ID: id, Unreachable: places})
	return g.beside, err
}

// WaysOf returns the folder of a container that has a filter for its connections.
func (c Cgroups) WaysOf(id string) string {
	c = c.filled()
	h := findHierarchies(c.Root)
	if h.unified == "" && h.beside == "" {
		return ""
	}
	folder, err := h.parent("", c.Parent)
	if err != nil {
		return ""
	}
	return filepath.Join(folder, id)
}

// makeLeaf makes the folder of a newly claimed container. A group of that name belonged to a dead container and is
// removed.
func makeLeaf(parent, id string, prepare func(folder string) error) (string, error) {
	leaf := filepath.Join(parent, id)
	var err error
	for range 32 { // The end of another container may remove an empty parent between the two steps, or during prepare.
		err = os.Mkdir(leaf, 0o755)
		switch {
		case err == nil:
			return leaf, nil
		case errors.Is(err, fs.ErrExist):
			if err := removeTree(leaf, time.Second); err != nil {
				return "", err
			}
		case errors.Is(err, fs.ErrNotExist):
			if err = prepare(parent); err != nil && !vanished(err) {
				return "", err
			}
		default:
			return "", err
		}
	}
	return "", err
}

// vanished reports whether an error means that another process removed the group. A file of the group that is already
// open then gives ENODEV.
func vanished(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) }

// remove removes the groups. It kills all processes that still run in them, because no container owns these processes.
func (g *cgroup) remove(limit time.Duration) error {
	var failed []error
	for _, leaf := range g.folders() {
		if err := removeTree(leaf, limit); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// removeTree removes a group and its descendants. rmdir fails while any process is in the group, even an exiting one.
// removeTree therefore retries with growing pauses.
func removeTree(leaf string, limit time.Duration) error {
	deadline, pause := time.Now().Add(limit), time.Millisecond
	for {
		err := unix.Rmdir(leaf)
		if err == nil || err == unix.ENOENT || err == unix.EROFS && unix.Access(leaf, unix.F_OK) == unix.ENOENT {
			return nil // EROFS: a read-only file system reports this before it checks whether the group exists
		}
		if err != unix.EBUSY && err != unix.ENOTEMPTY || time.Now().After(deadline) {
			return fmt.Errorf("remove cgroup %s: %w", leaf, err)
		}
		entries, _ := os.ReadDir(leaf)
		for _, entry := range entries {
			if entry.IsDir() {
				_ = removeTree(filepath.Join(leaf, entry.Name()), time.Until(deadline))
			}
		}
		killGroup(leaf)
		time.Sleep(pause)
		pause = min(2*pause, 50*time.Millisecond)
	}
}

// killGroup sends SIGKILL to all processes of one group.
func killGroup(leaf string) {
	if writeFile(leaf, "cgroup.kill", "1") == nil {
		return
	}
	pids, _ := groupPids(leaf)
	for _, pid := range pids {
		if pid > 0 && pid != os.Getpid() { // 0 is a process of a pid namespace that is not below this process's.
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

func groupPids(leaf string) ([]int, error) {
	text, err := readFile(filepath.Join(leaf, "cgroup.procs"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, word := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("cgroup.procs of %s: %w", leaf, err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// empty reports whether no process of the container runs, which is the exit confirmation.
func (g *cgroup) empty() (bool, error) {
	for _, leaf := range g.folders() {
		pids, err := groupPids(leaf)
		if err != nil || len(pids) > 0 {
			return false, err
		}
	}
	return true, nil
}

func (g *cgroup) kill() {
	for _, leaf := range g.folders() {
		if g.unified {
			killGroup(leaf)
		}
	}
}

// stats reads the resource use of the group. A value that cannot be read is zero.
func (g *cgroup) stats() Stats {
	stats := g.total()
	for _, leaf := range g.folders() {
		pids, _ := groupPids(leaf)
		stats.Processes = max(stats.Processes, len(pids))
	}
	now := filepath.Join(g.leaves["memory"], "memory.usage_in_bytes")
	if g.unified {
		now = filepath.Join(g.leaves[""], "memory.current")
	}
	stats.MemoryBytes = readNumber(now)
	return stats
}

// total reads only the values that accumulate over the group's life. At its end, no other values are left.
func (g *cgroup) total() Stats {
	if g.unified {
		leaf := g.leaves[""]
		return Stats{
			CPUNs:           1000 * readWord(filepath.Join(leaf, "cpu.stat"), "usage_usec"),
			PeakMemoryBytes: readNumber(filepath.Join(leaf, "memory.peak")),
		}
	}
	return Stats{
		CPUNs:           readNumber(filepath.Join(g.leaves["cpuacct"], "cpuacct.usage")),
		PeakMemoryBytes: readNumber(filepath.Join(g.leaves["memory"], "memory.max_usage_in_bytes")),
	}
}

// oomKills returns the number of processes in the group that the kernel killed for lack of memory.
func (g *cgroup) oomKills() int64 {
	if g.unified {
		return readWord(filepath.Join(g.leaves[""], "memory.events"), "oom_kill")
	}
	return readWord(filepath.Join(g.leaves["memory"], "memory.oom_control"), "oom_kill")
}

func readNumber(path string) int64 {
	text, _ := readFile(path)
	number, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return number
}

// readWord reads the number after a word in a file of "word number" lines.
func readWord(path, word string) int64 {
	text, _ := readFile(path)
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, word+" "); found {
			number, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return number
		}
	}
	return 0
}
