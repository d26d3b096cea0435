package supervisor

import (
	"os"
	"sync"
	"time"
)

// This file owns the pipes of a task's output.

// openOutput makes the pipes, and answers the task's ends. The caller closes
// them.
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

// copyLogs keeps both streams. The supervisor owns the pipes, so that the agent's
// end does not end the task with a broken one.
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
		copies.Go(func() {
			// Not io.Copy, which would have the kernel splice, and a full disk end the copy.
			buffer := make([]byte, 16<<10)
			for {
				n, err := source.Read(buffer)
				_, _ = w.Write(buffer[:n])
				if err != nil {
					return
				}
			}
		})
	}
	go func() {
		copies.Wait()
		close(k.drained)
	}()
}

// closeLogs waits for the last of the output. Every process that could write has
// gone, unless one passed its end of the pipe to a stranger.
func (k *keeper) closeLogs() {
	for _, f := range k.out {
		_ = f.SetReadDeadline(time.Now().Add(drainPatience))
	}
	<-k.drained
}
