package launcher

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/hostpath"
)

// TestNoteHome checks that a task is warned before its first output if it cannot write to its $HOME. The reason is the
// user's permissions, or a host view without that mount. Other tasks get no warning.
func TestNoteHome(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can look as another user")
	}
	above := filepath.Join("/var", filepath.Base(t.TempDir())+"-home")
	home := filepath.Join(above, "ann")
	if err := os.MkdirAll(home, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(above) })
	if err := os.Chown(home, 4001, 4001); err != nil {
		t.Fatal(err)
	}
	mount := []*messages.Mount{{Source: home, Target: home}}
	env := []*messages.EnvVar{{Name: "HOME", Value: home}}
	ann, bob := hostpath.Guest{UID: 4001, GID: 4001}, hostpath.Guest{UID: 4002, GID: 4002}
	for name, c := range map[string]struct {
		spec *messages.JobSpec
		as   hostpath.Guest
		view bool
		want string
	}{
		"own":            {&messages.JobSpec{Image: "host", User: "ann"}, ann, false, ""},
		"another's":      {&messages.JobSpec{Image: "host", User: "bob"}, bob, false, "--user me"},
		"not there":      {&messages.JobSpec{Image: "host", User: "ann", Env: noHome}, ann, false, "--user me"},
		"by env":         {&messages.JobSpec{Image: "host", Env: env}, bob, false, "--user me"},
		"view":           {&messages.JobSpec{Image: "host", User: "ann"}, ann, true, "--mount " + home},
		"mounted":        {&messages.JobSpec{Image: "host", User: "ann", Mounts: mount}, ann, true, ""},
		"no user":        {&messages.JobSpec{Image: "host"}, bob, true, ""},
		"root of itself": {&messages.JobSpec{Image: "host", User: "root"}, bob, true, ""},
		"an image":       {&messages.JobSpec{Image: "/srv/i", User: "ann"}, bob, true, ""},
	} {
		task := &Task{Spec: c.spec}
		task.NoteHome(c.as, "x", home, c.view)
		if got := task.notice(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: the notice is %q, want %q", name, got, c.want)
		}
	}
}

var noHome = []*messages.EnvVar{{Name: "HOME", Value: "/no/such/home"}}
