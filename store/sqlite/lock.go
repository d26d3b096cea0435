package sqlite

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// This file owns the lock that gives one process exclusive use of the file. SQLite would allow a second process, and
// two leaders would depose each other repeatedly.

// lockFile takes the lock next to the file. The kernel releases it when the process ends, in any way, so an operator
// never has to remove it. The lock is a separate file, because closing any handle of the database would release
// SQLite's locks.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, fmt.Errorf("store: lock: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = fmt.Errorf("store: %s is in use by another synapse-scheduler (pid %s); stop it, or give this one another "+
			"file", path, holder(f))
	case err != nil:
		err = fmt.Errorf("store: lock %s: %w", f.Name(), err)
	default:
		err = sign(f)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// sign writes the process ID for schedulers that are refused.
func sign(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("store: lock: %w", err)
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return fmt.Errorf("store: lock: %w", err)
	}
	return nil
}

// holder reads the ID of the process that has the lock. It may not be written yet.
func holder(f *os.File) string {
	const most = 20
	text, err := io.ReadAll(io.LimitReader(f, most))
	if pid := strings.TrimSpace(string(text)); err == nil && pid != "" {
		return pid
	}
	return "unknown"
}
