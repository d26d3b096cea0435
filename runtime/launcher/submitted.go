package launcher

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/hostpath"
)

// This file chooses the workdir of a task on the host's root if its job names none. The workdir is the directory of the
// submission if the task's user can enter it on this node. Otherwise it is the scratch directory, and a notice reports
// that. The directory becomes an ordinary workdir and mount of the job, which are checked as usual.

// ownPlaces lists directories that a task has for itself on a host view, or that are no workplace. To show the host's
// directory there would replace the task's private files with shared ones.
var ownPlaces = []string{"/tmp", "/var/tmp", "/run", "/root", "/dev", "/proc", "/sys", "/scratch"}

// unplaced reports whether a job specifies its workdir only by the directory of its submission.
func unplaced(s *messages.JobSpec) bool {
	return s.GetImage() == messages.HostImage && s.GetWorkdir() == "" && s.GetSubmitDir() != ""
}

// BeginWhereSubmitted sets the workdir to the directory of the submission if the task's user can enter it. It mounts
// the directory as writable if this node permits that. The task gets no more rights than its user has.
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
		return // The task has its own directory at this path, which does not contain this one.
	}
	// Change a copy, because others share the spec.
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

// displaced returns a notice if the task does not begin in the directory of the submission. It returns an empty text if
// the task does, or if the job names another directory.
func (t *Task) displaced() string {
	if !unplaced(t.Spec) {
		return ""
	}
	return fmt.Sprintf("synapse: this task begins in its scratch directory: %q, where the job was submitted, is not a "+
		"directory that the task's user can enter on this node (workdir or --workdir names another directory)",
		t.Spec.GetSubmitDir())
}
