package supervisor

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// This file owns the pipes of a task's output.

// openOutput makes the pipes and returns the task's ends. The caller closes them.
func (k *keeper) openOutput() (theirs [2]*os.File, err error) {
	for i := range theirs {
		if k.out[i], theirs[i], err = os.Pipe(); err != nil {
			closeAll(theirs[:])
			closeAll(k.out[:])
			return theirs, err
		}
	}
	return theirs, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// copyLogs copies both streams to the logs. The supervisor owns the pipes, so the end of the agent does not break them.
func (k *keeper) copyLogs() {
	var copies sync.WaitGroup
	for i, source := range k.out {
		w := &logWriter{dir: ".", stream: [2]string{Stdout, Stderr}[i], segment: k.spec.SegmentBytes, keep: k.spec.Segments}
		if w.segment <= 0 {
			w.segment = defaultSegmentBytes
		}
		if w.keep <= 0 {
			w.keep = defaultSegments
		}
		k.logs[i] = w
		if w.stream == Stderr && k.spec.Notice != "" {
			_, _ = w.Write([]byte(k.spec.Notice + "\n"))
		}
		copies.Go(func() { w.copy(source) })
	}
	go func() {
		copies.Wait()
		close(k.drained)
	}()
}

// copy copies a stream until its end. If the time runs out first, it copies the bytes that are in the pipe at that
// moment. These include all that the task wrote, no matter how long a slow disk or a busy host delayed the copy.
func (w *logWriter) copy(source *os.File) {
	// io.Copy would use splice, and a full disk would end the copy.
	buffer := make([]byte, 16<<10)
	for {
		n, err := source.Read(buffer)
		_, _ = w.Write(buffer[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			return
		}
	}
	_ = source.SetReadDeadline(time.Time{}) // The rest needs no waiting, because no other process reads.
	_, _ = io.CopyN(w, source, unread(source))
}

// unread returns the number of bytes in a pipe.
func unread(pipe *os.File) (bytes int64) {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err == nil {
			bytes = int64(n)
		}
	})
	return bytes
}

// closeLogs waits for the end of the output. Every possible writer has gone, unless a process passed its end of the
// pipe to an outside process.
func (k *keeper) closeLogs() {
	for _, f := range k.out {
		_ = f.SetReadDeadline(time.Now().Add(drainPatience))
	}
	<-k.drained
}
