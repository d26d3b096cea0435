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

// This file owns what the nodes of one machine's cluster have left, whose directory is given, when it was killed before
// it could end in order. `synapse-cli up` runs this program for it, and keeps the cluster's directory locked meanwhile.

// leftoversCommand has this program end what is left, or with another word only remove what no process holds.
const leftoversCommand = "leftovers"

// leftoverPatience bounds how long what is killed may take to be gone.
const leftoverPatience = 10 * time.Second

// clearLeftovers says how many processes it has ended.
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

// checkLeftovers refuses what is no directory of a cluster: in `/` every task of the machine would be ended.
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

// endLeftovers ends the processes, and removes what they held.
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

// leftovers are the supervisors of the directory's tasks with all that descends
// from them, and what such a task started that has lost its supervisor.
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

// supervises reports whether a process is the supervisor of a task of a
// directory: not whoever has its path among their words, as an editor does.
func supervises(pid int, dir string) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return false
	}
	words := strings.Split(string(text), "\x00")
	return len(words) > 2 && words[1] == supervisor.SubCommand && strings.HasPrefix(words[2], dir+"/")
}

// taskOf reports whether a process has the environment of a task of a directory.
func taskOf(pid int, dir string) bool {
	text, err := supervisor.Environ(pid)
	return err == nil && bytes.Contains(append([]byte{0}, text...), []byte("\x00SYNAPSE_HOSTFILE="+dir+"/"))
}

// collect removes what containers left that were killed with their supervisors: networks, and groups of the kernel's,
// in no folder of ours. The next agent of a node would do it, and there may be none.
func collect(dir string) error {
	nodes, _ := filepath.Glob(filepath.Join(dir, "*", "carapace")) // the pattern is not malformed
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

// collectGroups takes away the groups of containers. Those that other programs made have the names of the folders that
// these keep of them.
func collectGroups(node, state string) error {
	left, _ := os.ReadDir(state)
	others, _ := filepath.Glob(filepath.Join(node, "oci", "*", "*"))
	if len(left)+len(others) == 0 {
		return nil
	}
	var cgroups carapace.Cgroups // as agents have them that are not told otherwise
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
		time.Sleep(20 * time.Millisecond) // it is still ending one, which is passed over
	}
}
