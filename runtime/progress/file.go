package progress

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// This file owns how the file $SYNAPSE_PROGRESS is read. The task owns the directory, so that anything may lie there: a
// link, a pipe, a file of somebody else, a file that grows by gigabytes a second. Each look reads a bounded piece from
// the end, follows no link, and waits for nothing.

const (
	// FileName is the name of the file in the scratch directory of a task.
	FileName = "synapse-progress"

	// tailBytes bounds what one look reads of a file or of a log.
	tailBytes = 8 << 10
	// markBytes is how many bytes a look reads again.
	markBytes = 64
	// maxLines bounds the lines of one look: the last ones count.
	maxLines = 16
)

// File remembers how far the progress file of one task was read. The zero File has read nothing.
type File struct {
	inode uint64
	at    int64  // behind the last whole line that was read
	mark  []byte // the last bytes before that
	size  int64
	mtime unix.Timespec
	wrong string // why it was not read the last time
}

// Read calls a function with the lines that were appended to the file in a scratch directory since the last call; if
// there are many, only with the last ones. It returns an error once for each reason why the file cannot be read. A file
// that is not there is no error.
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
	dir, err := unix.Open(scratch, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil // the task has gone
	}
	defer unix.Close(dir)
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, FileName, flags, 0)
	if errors.Is(err, unix.ENOENT) {
		*f = File{}
		return nil
	}
	if err != nil {
		return fmt.Errorf("the progress file cannot be opened: %w", err)
	}
	defer unix.Close(fd)
	var is, owner unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &is), unix.Fstat(dir, &owner)); err != nil {
		return fmt.Errorf("the progress file: %w", err)
	}
	switch {
	case is.Mode&unix.S_IFMT != unix.S_IFREG:
		return errors.New("the progress file is no plain file")
	case is.Uid != owner.Uid:
		return errors.New("the progress file belongs to another user than the task's")
	case is.Ino != f.inode || is.Size < f.at:
		*f = File{inode: is.Ino, wrong: f.wrong}
	case is.Size == f.size && is.Mtim == f.mtime:
		return nil
	}
	f.size, f.mtime = is.Size, is.Mtim
	return f.tail(fd, each)
}

// tail reads the whole lines at the end. The last bytes that it read before are read again: if they have changed, the
// task wrote the file again from its begin.
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
	if from > f.at { // the first line may have begun before
		cut := bytes.IndexByte(data, '\n') + 1
		data, from = data[cut:], from+int64(cut)
	}
	end := bytes.LastIndexByte(data, '\n') + 1
	switch {
	case end > 0:
	case len(data) > MaxLineBytes: // a line that is too long is no line
		end = len(data)
	default:
		return nil
	}
	f.at, f.mark = from+int64(end), bytes.Clone(data[max(0, end-markBytes):end])
	eachLine(data[:end], each)
	return nil
}

// piece reads from the mark, or from as far before the end as a look may.
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

// eachLine calls a function with the last lines of a text, in their order. Empty lines do not count.
func eachLine(text []byte, each func(line []byte)) {
	lines := bytes.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for _, line := range lines[max(0, len(lines)-maxLines):] {
		each(line)
	}
}
