package progress

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/messages"
)

// This file reads the acknowledgements of saved checkpoints. A task writes them to the file ack.RANK in
// $SYNAPSE_CHECKPOINT_DIR: the number of the request and the step, one pair per line. The same rules as for the
// progress file apply: no links, only files of the task's user, and a bounded read from the end.

// savedBytes bounds the bytes that one look reads from the end of the file.
const savedBytes = 4 << 10

// SavedName returns the name of the file in which a rank acknowledges checkpoints.
func SavedName(rank int32) string { return "ack." + strconv.Itoa(int(rank)) }

// SavedFile reads the acknowledgements of one task. The zero SavedFile has read nothing.
type SavedFile struct {
	size  int64
	mtime unix.Timespec
}

// Read returns the steps that the task has saved for a request, the newest last. A last line without a line break
// counts only if the file has not changed since the last call, because the task may still be writing it.
func (f *SavedFile) Read(scratch string, rank int32, request uint64) ([]int64, error) {
	var data []byte
	err := openOwn(scratch, SavedName(rank), "acknowledgement", func(fd int, is *unix.Stat_t) error {
		from := max(is.Size-savedBytes, 0)
		data = make([]byte, is.Size-from)
		n, err := unix.Pread(fd, data, from)
		if err != nil {
			return fmt.Errorf("the acknowledgement file cannot be read: %w", err)
		}
		data = data[:max(n, 0)]
		if from > 0 { // it may begin in the middle of a line
			data = data[bytes.IndexByte(data, '\n')+1:]
		}
		if is.Size != f.size || is.Mtim != f.mtime {
			data = data[:bytes.LastIndexByte(data, '\n')+1]
		}
		f.size, f.mtime = is.Size, is.Mtim
		return nil
	})
	return SavedSteps(data, request), err
}

// SavedSteps returns the last steps in lines with the number of the request. It ignores all other lines.
func SavedSteps(text []byte, request uint64) (steps []int64) {
	for line := range bytes.Lines(text) {
		words := bytes.Fields(line)
		if len(words) != 2 {
			continue
		}
		number, bad := strconv.ParseUint(string(words[0]), 10, 64)
		step, wrong := strconv.ParseInt(string(words[1]), 10, 64)
		if bad == nil && wrong == nil && number == request && step >= 0 && step <= messages.MaxSteps {
			steps = append(slices.DeleteFunc(steps, func(n int64) bool { return n == step }), step)
		}
	}
	return steps[max(0, len(steps)-messages.MaxSavedSteps):]
}
