package launcher

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/hostpath"
)

// TestBeginsWhereSubmitted checks that the job's own workdir has priority, and that directories that are no workplace
// are not used.
func TestBeginsWhereSubmitted(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	v := hostpath.Visitor{As: hostpath.Guest{Self: true}}
	for _, c := range []struct {
		name, image, workdir, from string
		begins                     string
		told                       bool
	}{
		{"there", "host", "", dir, dir, false},
		{"nothing said", "host", "", "", "", false},
		{"an image's own", "/srv/image", "", dir, "", false},
		{"a workdir", "host", "/work", dir, "/work", false},
		{"not there", "host", "", dir + "/no", "", true},
		{"a file", "host", "", file, "", true},
		{"everybody's", "host", "", "/tmp", "", true},
		{"above that", "host", "", "/var", "", true},
		{"the root", "host", "", "/", "", true},
		{"the kernel's", "host", "", "/proc/self", "", true},
	} {
		given := &messages.JobSpec{Image: c.image, Workdir: c.workdir, SubmitDir: c.from}
		task := &task{Task: Task{Spec: given}}
		task.BeginWhereSubmitted(v)
		if got := task.Spec.GetWorkdir(); got != c.begins {
			t.Errorf("%s: it begins in %q, want %q", c.name, got, c.begins)
		}
		if told := strings.Contains(task.notice(), "scratch"); told != c.told {
			t.Errorf("%s: the notice is %q", c.name, task.notice())
		}
		if given.Workdir != c.workdir || len(given.Mounts) > 0 {
			t.Errorf("%s: what others hold was changed: %v", c.name, given)
		}
	}
	v.Rules.Hide = []string{dir}
	task := &task{Task: Task{Spec: &messages.JobSpec{Image: "host", SubmitDir: dir}}}
	if task.BeginWhereSubmitted(v); task.Spec.GetWorkdir() != "" {
		t.Error("it begins in what the agent hides")
	}
	agent := filepath.Join(dir, "agent")
	if err := os.Mkdir(agent, 0o700); err != nil {
		t.Fatal(err)
	}
	v.Rules.Hide = []string{agent} // so no directory above it is shown, and the task's own /tmp does not contain it
	task.Spec = &messages.JobSpec{Image: "host", SubmitDir: dir}
	if task.BeginWhereSubmitted(v); task.Spec.GetWorkdir() != "" || task.notice() == "" {
		t.Errorf("it begins in %q, which a task with a private /tmp cannot see", task.Spec.GetWorkdir())
	}
}
