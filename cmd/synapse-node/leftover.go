package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/private"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file cleans up after the nodes of a local cluster that was killed. `synapse-cli up` runs this program with
// the cluster's folder, and holds the folder's lock meanwhile.

// leftoversCommand is the subcommand that ends the remaining processes. With another argument, it only removes
// resources that no process uses.
const leftoversCommand = "leftovers"

// leftoverPatience limits the time until killed processes have ended.
const leftoverPatience = 10 * time.Second

// clearLeftovers prints the number of processes that it has ended.
func clearLeftovers(args []string) int {
	if err := checkLeftovers(args); err != nil {
		fmt.Fprintln(os.Stderr, "synapse-node leftovers:", err)
		return 2
	}
	ended, err := 0, error(nil)
	if args[0] == "end" {
		ended, err = endLeftovers(args[1])
	} else {
		err = collect(args[1])
	}
	fmt.Println(ended)
	if err != nil {
		fmt.Fprint(os.Stderr, err)
		return 1
	}
	return 0
}

// checkLeftovers refuses a folder that does not belong to a cluster. With `/`, every task of the host would be
// ended.
func checkLeftovers(args []string) error {
	if len(args) != 2 || args[0] != "end" && args[0] != "collect" {
		return errors.New("only `synapse-cli up` runs this, as: leftovers end|collect DIR; to end what a killed cluster " +
			"has left, use `synapse-cli up --clean`")
	}
	if dir := filepath.Clean(args[1]); dir == "/" || dir == "." {
		return fmt.Errorf("%q is not a cluster directory", args[1])
	}
	if _, err := os.Lstat(filepath.Join(args[1], "lock")); err != nil {
		return fmt.Errorf("%s is not a cluster directory: %w", args[1], err)
	}
	return nil
}

// endLeftovers ends the processes, and removes their resources.
func endLeftovers(dir string) (int, error) {
	began := time.Now()
	ended := 0
	for {
		n := supervisor.KillAll(func() []supervisor.Process { return leftovers(dir) })
		if ended += n; n == 0 {
			break
		}
		if time.Since(began) > leftoverPatience {
			return ended, fmt.Errorf("%d processes of the last cluster in %s did not end", n, dir)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return ended, collect(dir)
}

// leftovers returns the supervisors of tasks in the folder with all descendants, and processes of tasks that have
// lost their supervisor.
func leftovers(dir string) []supervisor.Process {
	all := supervisor.Processes()
	var found []supervisor.Process
	seen := map[int]bool{}
	add := func(more ...supervisor.Process) {
		for _, p := range more {
			if !seen[p.PID] && p.State != 'Z' && p.State != 'X' {
				seen[p.PID] = true
				found = append(found, p)
			}
		}
	}
	for _, p := range all {
		if supervises(p.PID, dir) || taskOf(p.PID, dir) {
			add(p)
			add(supervisor.Descendants(p.PID, all)...)
		}
	}
	return found
}

// supervises reports whether a process is the supervisor of a task in a folder. Other programs, such as an editor,
// may have the folder in their arguments too.
func supervises(pid int, dir string) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return false
	}
	words := strings.Split(string(text), "\x00")
	return len(words) > 2 && words[1] == supervisor.SubCommand && strings.HasPrefix(words[2], dir+"/")
}

// taskOf reports whether a process has the environment of a task in a folder.
func taskOf(pid int, dir string) bool {
	text, err := supervisor.Environ(pid)
	return err == nil && bytes.Contains(append([]byte{0}, text...), []byte("\x00SYNAPSE_HOSTFILE="+dir+"/"))
}

// collect removes networks and cgroups of containers that were killed with their supervisors. They are not in the
// folder. A next agent of the node would remove them, but may never start.
func collect(dir string) error {
	nodes, _ := filepath.Glob(filepath.Join(dir, "*", "carapace")) // the pattern is valid
	var failed []error
	for _, state := range nodes {
		node := filepath.Dir(state)
		if err := private.Clear(filepath.Join(node, "networks")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, fmt.Errorf("remains of private networks of %s cannot be removed: %w", node, err))
		}
		if err := collectGroups(node, state); err != nil {
			failed = append(failed, fmt.Errorf("remains of containers of %s cannot be removed: %w", node, err))
		}
	}
	return errors.Join(failed...)
}

// collectGroups removes the cgroups of containers. Groups of other programs have the names of their state folders.
func collectGroups(node, state string) error {
	left, _ := os.ReadDir(state)
	others, _ := filepath.Glob(filepath.Join(node, "oci", "*", "*"))
	if len(left)+len(others) == 0 {
		return nil
	}
	var cgroups carapace.Cgroups // the default of agents
	var failed []error
	for _, other := range others {
		failed = append(failed, carapace.RemoveLeaves(cgroups.Everywhere(filepath.Base(other))))
	}
	began := time.Now()
	for {
		_, err := carapace.GC(state, cgroups)
		if left, _ = os.ReadDir(state); err != nil || len(left) == 0 {
			return errors.Join(append(failed, err)...)
		}
		if time.Since(began) > leftoverPatience {
			return errors.Join(append(failed, fmt.Errorf("the kernel does not end %v", left))...)
		}
		time.Sleep(20 * time.Millisecond) // GC skips a cgroup whose last process is still ending
	}
}
