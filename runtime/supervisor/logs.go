package supervisor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file owns a task's output on disk. A stream consists of segments, which are named by the offset of their first
// byte. A reader therefore finds any offset without an index, and detects segments that rotation has removed.

// Stdout and Stderr name the two streams.
const (
	Stdout = "stdout"
	Stderr = "stderr"

	defaultSegmentBytes = 8 << 20
	defaultSegments     = 8
	logSuffix           = ".log"
)

// logWriter writes one stream. A full disk never blocks the task. Data that cannot be written is dropped and counted.
type logWriter struct {
	dir, stream string
	segment     int64 // size of a segment in bytes
	keep        int
	file        *os.File
	begin, at   int64 // offset of the segment; offset in the stream
	dropped     int64
	times       *os.File  // marks of the segment; nil: they cannot be written
	marked      time.Time // of the last mark of the segment
}

func segmentName(stream string, offset int64) string {
	return fmt.Sprintf("%s-%016d%s", stream, offset, logSuffix)
}

// Write never fails and never blocks on a full disk.
func (w *logWriter) Write(data []byte) (int, error) {
	for rest := data; len(rest) > 0; {
		if w.file == nil || w.at-w.begin >= w.segment {
			if err := w.rotate(); err != nil {
				w.dropped += int64(len(rest))
				break
			}
		}
		part := rest[:min(int64(len(rest)), w.segment-(w.at-w.begin))]
		w.mark()
		n, err := w.file.Write(part)
		w.at += int64(n)
		if err != nil {
			w.dropped += int64(len(rest) - n)
			break
		}
		rest = rest[n:]
	}
	return len(data), nil
}

// rotate begins the next segment and removes the oldest ones.
func (w *logWriter) rotate() error {
	file, err := os.OpenFile(filepath.Join(w.dir, segmentName(w.stream, w.at)), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if w.file != nil {
		w.file.Close()
	}
	w.file, w.begin = file, w.at
	w.rotateTimes()
	segments, err := listSegments(w.dir, w.stream)
	if err != nil {
		return nil // keeping more loses nothing
	}
	for _, s := range segments[:max(0, len(segments)-w.keep)] {
		_ = os.Remove(filepath.Join(w.dir, segmentName(w.stream, s)))
		_ = os.Remove(filepath.Join(w.dir, timesName(w.stream, s)))
	}
	return nil
}

// listSegments returns the offsets of a stream's segments, in order.
func listSegments(dir, stream string) ([]int64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var offsets []int64
	for _, e := range entries {
		middle, ok := strings.CutPrefix(e.Name(), stream+"-")
		middle, isLog := strings.CutSuffix(middle, logSuffix)
		if !ok || !isLog {
			continue
		}
		if offset, err := strconv.ParseInt(middle, 10, 64); err == nil && offset >= 0 {
			offsets = append(offsets, offset)
		}
	}
	slices.Sort(offsets)
	return offsets, nil
}

// ReadLog reads at most limit bytes of a stream from an offset. It skips segments that rotation has removed, and
// returns the offset of the data as at. atEnd reports that no more data follows yet.
func ReadLog(dir, stream string, offset int64, limit int) (at int64, data []byte, atEnd bool, err error) {
	for {
		segments, err := listSegments(dir, stream)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return offset, nil, false, fmt.Errorf("read the log: %w", err)
		}
		if len(segments) == 0 {
			return offset, nil, true, nil
		}
		at, data, atEnd, err = readSegments(dir, stream, segments, offset, limit)
		if !errors.Is(err, fs.ErrNotExist) {
			return at, data, atEnd, err
		}
	}
}

// readSegments reads like ReadLog from segments that were just listed. If rotation has removed some of them meanwhile,
// the data begins after them or ends before them. fs.ErrNotExist means that rotation has removed all of it.
func readSegments(dir, stream string, segments []int64, offset int64, limit int) (
	at int64, data []byte, atEnd bool, err error) {
	at = max(offset, segments[0])
	i, found := slices.BinarySearch(segments, at)
	if !found {
		i--
	}
	data = make([]byte, 0, min(limit, 64<<10))
	for ; i < len(segments) && len(data) < limit; i++ {
		from := at + int64(len(data)) - segments[i]
		part, err := readPart(filepath.Join(dir, segmentName(stream, segments[i])), from, limit-len(data))
		gone := errors.Is(err, fs.ErrNotExist)
		switch {
		case gone && len(data) > 0:
			return at, data, false, nil
		case gone && i+1 < len(segments):
			at = segments[i+1]
			continue
		case err != nil:
			return at, nil, false, fmt.Errorf("read the log: %w", err)
		}
		data = append(data, part...)
	}
	return at, data, len(data) < limit, nil
}

func readPart(name string, from int64, limit int) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.NewSectionReader(file, from, int64(limit)))
}

// ReadEnd reads a stream from an offset, but at most its last limit bytes. at is the offset of the data.
func ReadEnd(dir, stream string, offset int64, limit int) (at int64, data []byte, err error) {
	segments, err := listSegments(dir, stream)
	if err != nil || len(segments) == 0 {
		return offset, nil, err
	}
	last := segments[len(segments)-1]
	info, err := os.Stat(filepath.Join(dir, segmentName(stream, last)))
	if err != nil {
		return offset, nil, err
	}
	from := max(offset, last+info.Size()-int64(limit))
	if from >= last+info.Size() {
		return offset, nil, nil
	}
	at, data, _, err = readSegments(dir, stream, segments, from, limit)
	return at, data, err
}
