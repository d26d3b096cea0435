package launcher

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/hostpath"
)

// This file adds a notice before the first output of a task on the host's root if the task cannot write to its $HOME.
// Users who move from one host to a cluster meet this problem first.

// NoteHome notes whether the task's user can write to its $HOME. $HOME is that of the environment, or the home of the
// account in the job. A job that names neither gets its own $HOME. On a host view, a task can write only to the job's
// mounts.
func (t *Task) NoteHome(as hostpath.Guest, name, home string, view bool) {
	named := t.Spec.GetUser() != "" && !t.Spec.NeedsUID()
	for _, v := range t.Spec.GetEnv() {
		if v.GetName() == "HOME" {
			home, named = v.GetValue(), true
		}
	}
	if t.Spec.GetImage() != messages.HostImage || !named || !filepath.IsAbs(home) {
		return
	}
	own := func(dir string) bool { return within(home, dir) }
	mounted := slices.ContainsFunc(t.Spec.GetMounts(), func(m *messages.Mount) bool {
		return !m.GetReadOnly() && own(m.GetTarget())
	})
	switch {
	case own("/tmp") || own("/scratch") || own(t.Scratch):
	case !as.Writes(hostpath.Named(home)):
		t.homeless = fmt.Sprintf("synapse: %s cannot write to its $HOME, %s; `--user me` runs the job as the account with "+
			"your name, if this node has it", name, home)
	case view && !mounted:
		t.homeless = fmt.Sprintf("synapse: $HOME, %s, cannot be written to here, because the job does not mount it; "+
			"to mount it, use `--mount %s:%s`", home, home, home)
	}
}

// within reports whether a path is dir or is below it.
func within(path, dir string) bool {
	return dir != "" && (path == dir || strings.HasPrefix(path, strings.TrimRight(dir, "/")+"/"))
}
