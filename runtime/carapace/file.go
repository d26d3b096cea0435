//go:build linux

package carapace

// This file reads and writes files without Go's poller. The kernel reports cgroup files as pollable, so the poller
// wakes a thread for each of them. That caused a tenth of the thread switches of a start.

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// file is an open file descriptor. Reading and writing blocks the thread.
type file int

func openFile(path string, flags int, mode uint32) (file, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, mode)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return -1, &os.PathError{Op: "open", Path: path, Err: err}
		}
		return file(fd), nil
	}
}

func (f file) Read(into []byte) (int, error) {
	for {
		n, err := unix.Read(int(f), into)
		switch {
		case err == unix.EINTR:
			continue
		case err == nil && n == 0 && len(into) > 0:
			return 0, io.EOF
		}
		return max(n, 0), err
	}
}

func (f file) Write(text []byte) (int, error) {
	for written := 0; written < len(text); {
		n, err := unix.Write(int(f), text[written:])
		if err != nil && err != unix.EINTR {
			return written, err
		}
		written += max(n, 0)
	}
	return len(text), nil
}

func (f file) WriteString(text string) (int, error) { return f.Write([]byte(text)) }
func (f file) Close() error                         { return unix.Close(int(f)) }

// readFile reads a whole file.
func readFile(path string) ([]byte, error) {
	from, err := openFile(path, unix.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	text := make([]byte, 0, 1024)
	for {
		n, err := from.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		switch {
		case err == io.EOF:
			return text, nil
		case err != nil:
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		case len(text) == cap(text):
			text = append(text, 0)[:len(text)]
		}
	}
}

// writeFile writes a value into an existing file with one write.
func writeFile(folder, name, value string) error {
	to, err := openFile(filepath.Join(folder, name), unix.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err = to.WriteString(value); err != nil {
		err = &os.PathError{Op: "write", Path: filepath.Join(folder, name), Err: err}
	}
	return errors.Join(err, to.Close())
}
