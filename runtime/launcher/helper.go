package launcher

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/tree"
)

// This file shows the helper program to tasks. It copies files and reaches ports inside the task, as the task's user.
// The image therefore needs no such program, and the task gets no additional right. The program is in a folder of the
// task's scratch directory. A task may put links there, so the agent follows none. (os.Root would do the same but makes
// the agent 60 kB larger.)

const helperDir = ".synapse"

// HelperName is the file name of the helper program.
const HelperName = "synapse-exec"

// Helper returns the path of the helper program in a task's scratch directory.
func Helper(scratch string) string { return filepath.Join(scratch, helperDir, HelperName) }

// helps reports whether the task has the helper program.
func (t *task) helps() bool {
	d, ok := t.driver.(interface{ Helps() bool })
	return ok && d.Helps() && t.l.o.Helper != ""
}

// HelperMount makes the file that becomes the mount point of the helper program.
func (t *Task) HelperMount() error {
	return t.inHelperDir(func(dir int) error {
		const flags = unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_WRONLY | unix.O_CLOEXEC
		file, err := unix.Openat(dir, HelperName, flags, 0o755)
		if err != nil {
			return err
		}
		return unix.Close(file)
	})
}

// HelperLink makes a link to the helper program, for a task that sees the host's files.
func (t *Task) HelperLink() error {
	return t.inHelperDir(func(dir int) error { return unix.Symlinkat(t.Helper, dir, HelperName) })
}

// inHelperDir calls do in a new folder for the helper program, which all users may read.
func (t *Task) inHelperDir(do func(dir int) error) error {
	err := tree.Remove(filepath.Join(t.Scratch, helperDir))
	scratch, wrong := unix.Open(t.Scratch, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err = errors.Join(err, wrong); err == nil {
		defer unix.Close(scratch)
		err = unix.Mkdirat(scratch, helperDir, 0o755)
	}
	if err == nil {
		var dir int
		dir, err = unix.Openat(scratch, helperDir, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == nil {
			defer unix.Close(dir)
			err = errors.Join(unix.Fchmod(dir, 0o755), do(dir))
		}
	}
	if err != nil {
		return fmt.Errorf("make the folder of %s: %w", HelperName, err)
	}
	return nil
}

// removeHelper removes the folder after the task's end.
func (t *task) removeHelper() {
	if err := tree.Remove(filepath.Join(t.Scratch, helperDir)); err != nil {
		t.l.o.Log.Info("Task %v: %s cannot be removed from its scratch directory: %v", t.Key, helperDir, err)
	}
}
