package supervisor

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// This file owns the times of a task's output. Each segment has a file of marks next to it. A mark says when the data
// from an offset on was written. Marks are at least a second apart, so a time may be a second too early.

const (
	markBytes = 16 // offset and time
	markPause = time.Second
)

// Mark says when the data of a stream from an offset on was written.
type Mark struct{ Offset, UnixMs int64 }

func timesName(stream string, segment int64) string {
	return stream + "-times-" + segmentName("", segment)[1:]
}

// mark stores the time of the data that follows, unless the last mark of the segment is recent. A failure loses only
// times.
func (w *logWriter) mark() {
	if w.times == nil || !w.marked.IsZero() && time.Since(w.marked) < markPause {
		return
	}
	w.marked = time.Now()
	entry := make([]byte, 0, markBytes)
	entry = binary.BigEndian.AppendUint64(entry, uint64(w.at))
	entry = binary.BigEndian.AppendUint64(entry, uint64(w.marked.UnixMilli()))
	if _, err := w.times.Write(entry); err != nil {
		w.times.Close() // a later entry would not be aligned
		w.times = nil
	}
}

// rotateTimes begins the marks of the current segment.
func (w *logWriter) rotateTimes() {
	if w.times != nil {
		w.times.Close()
	}
	w.marked = time.Time{}
	w.times, _ = os.OpenFile(filepath.Join(w.dir, timesName(w.stream, w.begin)), os.O_WRONLY|os.O_CREATE|os.O_APPEND,
		0o600)
}

// ReadTimes returns the marks of a stream for the data from an offset to another: the last mark before the data, and
// all marks within it, up to a maximum number. It returns none for output of an earlier version.
func ReadTimes(dir, stream string, from, to int64, most int) ([]Mark, error) {
	segments, err := listSegments(dir, stream)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var marks []Mark
	for i, segment := range segments {
		if segment >= to || i+1 < len(segments) && segments[i+1] <= from {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, timesName(stream, segment)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for ; len(text) >= markBytes; text = text[markBytes:] {
			m := Mark{int64(binary.BigEndian.Uint64(text)), int64(binary.BigEndian.Uint64(text[8:]))}
			switch {
			case m.Offset <= from:
				marks = append(marks[:0], m) // the last one before the data
			case m.Offset < to:
				marks = append(marks, m)
			}
		}
	}
	for len(marks) > most { // every second mark is enough for a coarser time
		kept := marks[:0]
		for i := 0; i < len(marks); i += 2 {
			kept = append(kept, marks[i])
		}
		marks = slices.Clip(kept)
	}
	return marks, nil
}
