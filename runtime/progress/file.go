package progress

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// This file reads $SYNAPSE_PROGRESS. The task owns the directory, so it can put anything at this path: a link, a pipe,
// another user's file, or a file that grows by gigabytes per second. Each look reads a bounded piece from the end,
// follows no link, and never blocks.

const (
	// FileName is the name of the file in the scratch directory of a task.
	FileName = "synapse-progress"

	// tailBytes bounds the bytes that one look reads from the file.
	tailBytes = 8 << 10
	// markBytes is the number of bytes that the next look reads again.
	markBytes = 64
	// maxLines bounds the lines that one look passes on. Earlier lines are skipped.
	maxLines = 16
)

// File remembers how far the progress file of one task was read. The zero File has read nothing.
type File struct {
	inode uint64
	at    int64  // offset after the last complete line that was read
	mark  []byte // the last bytes before this offset
	size  int64
	mtime unix.Timespec
	wrong string // error text of the last read; empty if it succeeded
}

// Read calls each with the lines that were appended to the file in the scratch directory since the last call, but at
// most with the last 16. If the file cannot be read, Read returns the error once, and again only when the reason
// changes. A missing file is not an error.
func (f *File) Read(scratch string, each func(line []byte)) error {
	err := f.read(scratch, each)
	switch {
	case err == nil:
		f.wrong = ""
	case err.Error() == f.wrong:
		return nil
	default:
		f.wrong = err.Error()
	}
	return err
}

func (f *File) read(scratch string, each func(line []byte)) error {
	found := false
	err := openOwn(scratch, FileName, "progress", func(fd int, is *unix.Stat_t) error {
		found = true
		switch {
		case is.Ino != f.inode || is.Size < f.at:
			*f = File{inode: is.Ino, wrong: f.wrong}
		case is.Size == f.size && is.Mtim == f.mtime:
			return nil
		}
		f.size, f.mtime = is.Size, is.Mtim
		return f.tail(fd, each)
	})
	if err == nil && !found {
		*f = File{}
	}
	return err
}

// openOwn calls do with a file in the scratch directory of a task. The file must be a regular file of the task's user,
// and not a link. If the file or the directory is missing, openOwn does nothing.
func openOwn(scratch, name, what string, do func(fd int, is *unix.Stat_t) error) error {
	dir, err := unix.Open(scratch, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil // the directory was removed with the task
	}
	defer unix.Close(dir)
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, name, flags, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the %s file cannot be opened: %w", what, err)
	}
	defer unix.Close(fd)
	var is, owner unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &is), unix.Fstat(dir, &owner)); err != nil {
		return fmt.Errorf("the %s file cannot be examined: %w", what, err)
	}
	switch {
	case is.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("the %s file is not a regular file", what)
	case is.Uid != owner.Uid:
		return fmt.Errorf("the %s file does not belong to the user of the task", what)
	}
	return do(fd, &is)
}

// tail reads the complete lines at the end of the file. It also reads the last bytes of the previous look again. If
// they have changed, the task has rewritten the file, and tail starts from the beginning.
func (f *File) tail(fd int, each func(line []byte)) error {
	data, from, err := f.piece(fd)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(data, f.mark) {
		f.at, f.mark = 0, nil
		if data, from, err = f.piece(fd); err != nil {
			return err
		}
	}
	data, from = data[len(f.mark):], from+int64(len(f.mark))
	if from > f.at { // data may begin in the middle of a line
		cut := bytes.IndexByte(data, '\n') + 1
		data, from = data[cut:], from+int64(cut)
	}
	end := bytes.LastIndexByte(data, '\n') + 1
	switch {
	case end > 0:
	case len(data) > MaxLineBytes: // too long for a line: pass it on, so that it counts as invalid
		end = len(data)
	default:
		return nil
	}
	f.at, f.mark = from+int64(end), bytes.Clone(data[max(0, end-markBytes):end])
	eachLine(data[:end], each)
	return nil
}

// piece reads from the mark to the end, or only the last tailBytes if there is more.
func (f *File) piece(fd int) (data []byte, from int64, err error) {
	from = f.at - int64(len(f.mark))
	if least := f.size - tailBytes; from < least {
		from, f.mark = least, nil
	}
	data = make([]byte, f.size-from)
	n, err := unix.Pread(fd, data, from)
	if err != nil {
		return nil, 0, fmt.Errorf("the progress file cannot be read: %w", err)
	}
	return data[:max(n, 0)], from, nil
}

// eachLine calls each with the last lines of the text, in order. Empty lines do not count.
func eachLine(text []byte, each func(line []byte)) {
	lines := bytes.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for _, line := range lines[max(0, len(lines)-maxLines):] {
		each(line)
	}
}
