package launcher

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/hostpath"
)

// This file owns that a task on the machine's own root is told at its first line if it cannot write to its $HOME:
// that is the first thing that fails for a user of a machine who becomes a user of a cluster.

// NoteHome notes whether the task's user can write to its $HOME: to that of its environment, else to the home of
// the account that the job names. A job that names neither has a $HOME of its own. On a host view only what the job
// mounts can be written to.
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
			"`--mount %s:%s` does", home, home, home)
	}
}

// within reports whether a path is a directory, or lies below it.
func within(path, dir string) bool {
	return dir != "" && (path == dir || strings.HasPrefix(path, strings.TrimRight(dir, "/")+"/"))
}
