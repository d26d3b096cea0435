package launcher

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/hostpath"
)

// This file owns where a task on the machine's own root begins if its job names no workdir: where the job was
// submitted, if the task's user can enter that here; else in its scratch directory, and the task is told so. It opens
// nothing itself: what it finds becomes a workdir and a mount of the job, and is checked like those.

// ownPlaces are places that a task has for itself on a host view, or that are no place for work: to show the
// machine's there would give the task everybody's files in place of its own.
var ownPlaces = []string{"/tmp", "/var/tmp", "/run", "/root", "/dev", "/proc", "/sys", "/scratch"}

// unplaced reports whether a job says nothing about where its tasks begin except where it was submitted.
func unplaced(s *messages.JobSpec) bool {
	return s.GetImage() == messages.HostImage && s.GetWorkdir() == "" && s.GetSubmitDir() != ""
}

// BeginWhereSubmitted lets the task begin where its job was submitted if its user can enter that, and lets it write
// there where this machine allows that: no more than the user could anyway.
func (t *Task) BeginWhereSubmitted(v hostpath.Visitor) {
	dir := strings.TrimRight(t.Spec.GetSubmitDir(), "/")
	if !unplaced(t.Spec) ||
		slices.ContainsFunc(ownPlaces, func(own string) bool { return own == dir || strings.HasPrefix(own, dir+"/") }) ||
		strings.HasPrefix(dir, "/proc/") || strings.HasPrefix(dir, "/sys/") || strings.HasPrefix(dir, "/dev/") {
		return
	}
	path := hostpath.Named(dir)
	if folder, err := v.As.Look(path); err != nil || !folder || v.Hides(path) {
		return
	}
	ticket, refused := v.Ask(path)
	ticket.Close()
	if refused != nil && slices.ContainsFunc(ownPlaces, func(own string) bool {
		return strings.HasPrefix(dir,
			own+"/")
	}) {
		return // There the task has its own directory in place of the machine's, and this one is not in it.
	}
	// Others hold the spec, so it is changed in a copy.
	t.Spec = proto.Clone(t.Spec).(*messages.JobSpec)
	t.Spec.Workdir = dir
	there := func(m *messages.Mount) bool { return m.GetTarget() == dir }
	if refused == nil && !slices.ContainsFunc(t.Spec.Mounts, there) {
		t.Spec.Mounts = append(t.Spec.Mounts, &messages.Mount{Source: dir, Target: dir})
	}
}

// notice returns the text before a task's first output; empty: none.
func (t *Task) notice() string {
	return strings.TrimSpace(t.displaced() + "\n" + t.homeless)
}

// displaced tells a task that it does not begin where its job was submitted; empty: it does, or asked for another
// place.
func (t *Task) displaced() string {
	if !unplaced(t.Spec) {
		return ""
	}
	return fmt.Sprintf("synapse: this begins in its scratch directory: %q, where the job was submitted, is not one that "+
		"the task's user can enter on this machine (workdir or --workdir names another place)", t.Spec.GetSubmitDir())
}
