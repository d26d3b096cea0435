//go:build linux

package upstream

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/container"
	"github.com/yi-json/synapse/runtime/hostpath"
	"github.com/yi-json/synapse/runtime/launcher"
)

// program returns a script that always prints the same text.
func program(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "carapace")
	if err := os.WriteFile(path, []byte("#!/bin/sh\ncat <<'END'\n"+text+"END\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestIs checks that the program is recognized by its help, and that this project's carapace is not.
func TestIs(t *testing.T) {
	theirs := "Usage: carapace <COMMAND>\n\nCommands:\n  run    \n  child  \n  help   Print this message\n"
	for text, want := range map[string]bool{
		theirs: true, "": false, "carapace runs a command in a container.\n\n  carapace run\n  carapace check\n": false,
		"Commands:\n  run    \n  child  \n  check  \n": false, "error: no child to run\n": false,
	} {
		if got := Is(t.Context(), program(t, text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	if Is(t.Context(), "/no/such/program") {
		t.Error("a program that is not there")
	}
}

// TestWrap checks that the command keeps its own flags, and that the task's mounts are inside its later root.
func TestWrap(t *testing.T) {
	image := &hostpath.Ticket{Directory: true}
	s := carapace.Spec{
		Image: image, Layer: "/layer", Scratch: "/scratch-of-1", Command: []string{"sh", "-c", "--", "x"},
		Mounts: []carapace.Mount{{Source: "/data", Target: "/mnt/../data", ReadOnly: true}},
	}
	New("/opt/carapace", nil).wrap(&s)
	if want := []string{"/run/carapace/carapace", "child", "--", "sh", "-c", "--", "x"}; !slices.Equal(s.Command, want) {
		t.Errorf("%q", s.Command)
	}
	want := []carapace.Mount{
		{Source: "/opt/carapace", Target: "/run/carapace/carapace", ReadOnly: true},
		{Named: image, Target: "/run/carapace/rootfs"},
		{Source: "/scratch-of-1", Target: "/run/carapace/rootfs/scratch"},
		{Source: "/data", Target: "/run/carapace/rootfs/data", ReadOnly: true},
	}
	if !slices.Equal(s.Mounts, want) {
		t.Errorf("%+v", s.Mounts)
	}
	if s.Rootfs != "host" || s.Image != nil || s.Layer != "" || !s.NoInit || s.Workdir != "/run/carapace" {
		t.Errorf("%+v", s)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
}

// TestRefusals checks that unsupported requests are refused with the name of the job's field.
func TestRefusals(t *testing.T) {
	around, err := container.New(container.Options{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	d := New("/opt/carapace", around)
	for want, task := range map[string]launcher.Task{
		"image: ":         {Spec: &messages.JobSpec{Image: "host", User: "root"}},
		"user: ":          {Spec: &messages.JobSpec{Image: "/srv/image", User: "nobody"}},
		"resources.gpu: ": {Spec: &messages.JobSpec{Image: "/srv/image", User: "0"}, Gpus: []*messages.Gpu{{Id: "GPU-1"}}},
	} {
		if err := d.Prepare(t.Context(), &task); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s%v", want, err)
		}
	}
}
