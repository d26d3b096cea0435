package launcher

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/tree"
)

// This file owns the program that tasks are shown: it copies files and reaches ports, inside and as the task's user, so
// that nothing of it needs a program of the image, or a right that the task has not. It lies in a folder of the task's
// scratch directory. A task may put links there, so no step of the agent follows one. (os.Root would do as well, and
// makes the agent larger by 60 kB.)

const helperDir = ".synapse"

// HelperName is the name of the program.
const HelperName = "synapse-exec"

// Helper is where a task finds the program: in its scratch directory.
func Helper(scratch string) string { return filepath.Join(scratch, helperDir, HelperName) }

// helps reports whether the task has the program.
func (t *task) helps() bool {
	d, ok := t.driver.(interface{ Helps() bool })
	return ok && d.Helps() && t.l.o.Helper != ""
}

// HelperMount makes the file that the program is mounted upon.
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

// HelperLink makes a link to the program, for a task that sees the machine's own files.
func (t *Task) HelperLink() error {
	return t.inHelperDir(func(dir int) error { return unix.Symlinkat(t.Helper, dir, HelperName) })
}

// inHelperDir does something in the folder for the program, which is new and for all to read.
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
		return fmt.Errorf("the place of %s: %w", HelperName, err)
	}
	return nil
}

// removeHelper takes the folder away, after the task's end.
func (t *task) removeHelper() {
	if err := tree.Remove(filepath.Join(t.Scratch, helperDir)); err != nil {
		t.l.o.Log.Info("Task %v: %s stays in its scratch directory: %v", t.Key, helperDir, err)
	}
}
