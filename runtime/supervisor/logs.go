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
)

// This file owns a task's output on disk. A stream lies in segments that are
// named by the offset of their first byte, so that a reader finds any offset
// without an index, and sees what rotation has already taken.

// Stdout and Stderr name the two streams.
const (
	Stdout = "stdout"
	Stderr = "stderr"

	defaultSegmentBytes = 8 << 20
	defaultSegments     = 8
	logSuffix           = ".log"
)

// logWriter keeps one stream. A disk that is full never blocks the task: what
// cannot be written is dropped and counted.
type logWriter struct {
	dir, stream string
	segment     int64 // bytes in one
	keep        int
	file        *os.File
	begin, at   int64 // of the segment; of the stream
	dropped     int64
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

// rotate begins the next segment and lets the oldest go.
func (w *logWriter) rotate() error {
	file, err := os.OpenFile(filepath.Join(w.dir, segmentName(w.stream, w.at)), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if w.file != nil {
		w.file.Close()
	}
	w.file, w.begin = file, w.at
	segments, err := listSegments(w.dir, w.stream)
	if err != nil {
		return nil // nothing is lost by keeping more
	}
	for _, s := range segments[:max(0, len(segments)-w.keep)] {
		_ = os.Remove(filepath.Join(w.dir, segmentName(w.stream, s)))
	}
	return nil
}

// listSegments are the offsets at which a stream's segments begin, in order.
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

// ReadLog reads a stream from an offset on, at most limit bytes. What rotation
// has taken is skipped: at is where the data really begins. atEnd tells that
// nothing follows as yet.
func ReadLog(dir, stream string, offset int64, limit int) (at int64, data []byte, atEnd bool, err error) {
	for {
		segments, err := listSegments(dir, stream)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return offset, nil, false, fmt.Errorf("log: %w", err)
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

// readSegments is ReadLog of the segments that were listed a moment ago. Rotation may have taken some of them since:
// the data then begins behind those, or ends before them. fs.ErrNotExist: it took all that was to be read.
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
			return at, nil, false, fmt.Errorf("log: %w", err)
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
