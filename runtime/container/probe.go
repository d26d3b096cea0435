//go:build linux

package container

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file checks whether containers work on this node, and which of their features.

// Check runs the program to determine what the node can enforce. An error means that the program is not the matching
// carapace.
func (d *Driver) Check(ctx context.Context) error {
	text, err := exec.CommandContext(ctx, d.o.Binary, append([]string{"check"}, d.place()...)...).Output()
	var findings []carapace.Finding
	if err == nil {
		err = json.Unmarshal(text, &findings)
	}
	if err != nil {
		return fmt.Errorf("%s is not the carapace of this agent's version: %w", d.o.Binary, err)
	}
	// An earlier carapace does not report these, and would run such a task as the host's root.
	earlier := d.o.Binary + " is an earlier version"
	d.lacks = map[string]string{carapace.LackOfIDs: earlier, carapace.LackOfComposed: earlier}
	for _, f := range findings {
		if !f.OK {
			d.lacks[f.Name] = f.Reason
		} else {
			delete(d.lacks, f.Name)
		}
	}
	return nil
}

// Checked reports whether Check has recognized the program.
func (d *Driver) Checked() bool { return d.lacks != nil }

// Lack returns why the node cannot enforce one feature; empty: it can.
func (d *Driver) Lack(what string) string { return d.lacks[what] }

// Lacks lists the container features that the node cannot enforce, each with its reason.
func (d *Driver) Lacks() []string {
	var all []string
	for _, what := range slices.Sorted(maps.Keys(d.lacks)) {
		// User namespaces matter only to agents without root, which Try covers. Landlock matters only to plain
		// processes.
		if what != "user namespaces" && what != supervisor.LandlockFinding {
			all = append(all, what+" ("+d.lacks[what]+")")
		}
	}
	return all
}

// Try runs a container that ends at once, which tests more than any list of features. A missing command does not
// matter, because it is looked up after all other steps.
func (d *Driver) Try(ctx context.Context) error {
	for _, what := range []string{"kernel", "mounts"} {
		if why := d.lacks[what]; why != "" {
			return errors.New(why)
		}
	}
	arguments := append([]string{"run"}, d.place()...)
	arguments = append(arguments, "--rootfs", HostImage, "--id", "try-"+strconv.Itoa(os.Getpid()), "--", "/bin/true")
	text, err := exec.CommandContext(ctx, d.o.Binary, arguments...).CombinedOutput()
	ended := new(exec.ExitError)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ended) &&
		(ended.ExitCode() == carapace.CodeNotFound || ended.ExitCode() == carapace.CodeNotExecutable):
		return nil
	}
	lines := strings.Split(string(bytes.TrimSpace(text)), "\n")
	return fmt.Errorf("test container did not start: %w: %s", err, lines[len(lines)-1])
}
