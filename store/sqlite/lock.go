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

// This file owns the lock by which only one process has the file. SQLite would let a second one in, and two leaders
// would take turns deposing each other.

// lockFile takes the lock beside the file. The kernel releases it when the process ends, however it ends, so nobody
// ever has to remove it. It is a file of its own: closing any handle on the database would drop SQLite's locks.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, fmt.Errorf("store: lock: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = fmt.Errorf("store: %s is in use by another synapse-scheduler (pid %s); stop it, or give this one a file of "+
			"its own", path, holder(f))
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

// sign writes the process id for schedulers that are refused.
func sign(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("store: lock: %w", err)
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return fmt.Errorf("store: lock: %w", err)
	}
	return nil
}

// holder reads which process has the lock. It may not have signed yet.
func holder(f *os.File) string {
	const most = 20
	text, err := io.ReadAll(io.LimitReader(f, most))
	if pid := strings.TrimSpace(string(text)); err == nil && pid != "" {
		return pid
	}
	return "not known yet"
}
