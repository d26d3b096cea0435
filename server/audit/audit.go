// Package audit writes a scheduler's audit log: who requested what, and with which result. The log is a sequence of
// append-only files. Each line contains the hash of the previous line, also across files. Callers decide what to
// write. The package never writes the content of a job.
package audit

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// This file writes the lines.
//
// A hash chain alone proves nothing, because anyone who can change the file can compute a new chain. The scheduler
// therefore writes the head (number and hash of the last line) to its own log, which is stored elsewhere. Any saved
// head proves all lines up to it.

const (
	// File is the name of the current audit file in its folder. Full files are in the same folder.
	File = "audit.log"
	// fullAt is the size at which a file is full.
	fullAt = 64 << 20
	// headsEvery is the interval for logging the head, if there are new lines. syncEvery is the interval for
	// syncing lines to disk. A killed process loses no lines. A power failure loses at most the lines of one
	// second.
	headsEvery = time.Minute
	syncEvery  = time.Second

	maxLine = 64 << 10
	maxText = 2 << 10 // limit of each field that callers choose
)

// Line is one line of the audit log. A call that changes something has two lines: one before the call, which must
// be written first, and one with the result.
type Line struct {
	N       uint64 `json:"n"`
	At      string `json:"at"`
	Who     string `json:"who,omitempty"`
	Pass    string `json:"token,omitempty"` // ID of the token, if the caller used a token instead of a certificate
	From    string `json:"from,omitempty"`
	Call    string `json:"call,omitempty"`
	What    string `json:"what,omitempty"`
	Outcome string `json:"outcome"`      // asked, ok, refused: …, or the failure
	Of      uint64 `json:"of,omitempty"` // number of the line with the request
	Heads   []Pin  `json:"heads,omitempty"`
	Prev    string `json:"prev"` // hash of the previous line
}

// These outcomes have a fixed text.
const (
	Asked   = "asked"
	OK      = "ok"
	Refused = "refused"
)

// Head identifies the last line.
type Head struct {
	N    uint64
	Hash string
}

// headWords is the start of a logged head.
const headWords = "Audit head "

func (h Head) String() string { return fmt.Sprintf("%s%d %s", headWords, h.N, h.Hash) }

// Log is an open audit log.
type Log struct {
	now  func() time.Time
	tell func(format string, args ...any)
	dir  string

	mu    sync.Mutex
	file  *os.File
	size  int64
	full  int64  // size at which the next file begins
	first uint64 // number of the file's first line; 0: the file is empty
	head  Head
	told  uint64
	dirty bool
	stuck bool // the failure to begin a new file was logged

	who string // owner of the audit log; like in, empty without a shared store
	in  Board

	keeping sync.Mutex // guards the fields below
	kept    Head       // last head in the store
	unkept  bool       // the failure to store a head was logged

	closed  chan struct{}
	closing sync.Once
	running sync.WaitGroup
}

// Open continues the audit log in a folder, or creates one. It calls tell with each logged head and each problem.
func Open(dir string, now func() time.Time, tell func(format string, args ...any)) (*Log, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	file, err := begin(dir)
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	l := &Log{now: now, tell: tell, dir: dir, file: file, full: fullAt, closed: make(chan struct{})}
	if err := l.goOn(); err != nil {
		return nil, errors.Join(fmt.Errorf("audit log %s: %w", file.Name(), err), file.Close())
	}
	l.running.Add(1)
	go l.keep()
	return l, nil
}

// begin opens the current file, and creates it if it does not exist.
func begin(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, File), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
}

// goOn finds the last line. If the current file is empty, the last line is in the previous file. goOn removes an
// incomplete line after a crash and records the removal in the next line.
func (l *Log) goOn() error {
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	from := max(0, info.Size()-2*maxLine)
	tail := make([]byte, info.Size()-from)
	if _, err := io.ReadFull(io.NewSectionReader(l.file, from, int64(len(tail))), tail); err != nil {
		return err
	}
	whole := tail[:bytes.LastIndexByte(tail, '\n')+1]
	cut := len(tail) - len(whole)
	l.size = info.Size() - int64(cut)
	if len(whole) > 0 {
		last := bytes.TrimSuffix(whole, []byte("\n"))
		last = last[bytes.LastIndexByte(last, '\n')+1:]
		line, err := parse(last)
		if err != nil {
			return fmt.Errorf("last line is unreadable, so no line can be added; inspect the file, and move it away: %w", err)
		}
		l.head = Head{line.N, hashOf(last)}
		if err := l.findFirst(); err != nil {
			return err
		}
	} else if l.size > 0 {
		return fmt.Errorf("last line has more than %d bytes; inspect the file, and move it away", maxLine)
	} else if err := l.goOnBehind(); err != nil {
		return err
	}
	if cut > 0 {
		if err := l.file.Truncate(l.size); err != nil {
			return err
		}
		_, err = l.Add(Line{What: fmt.Sprintf("cut off %d bytes of a line that was not written whole", cut), Outcome: OK})
	}
	return err
}

// findFirst reads the number of the file's first line. This number becomes part of the name of the full file.
func (l *Log) findFirst() error {
	text, err := bufio.NewReaderSize(io.NewSectionReader(l.file, 0, l.size), maxLine).ReadSlice('\n')
	if err != nil {
		return err
	}
	line, err := parse(bytes.TrimSuffix(text, []byte("\n")))
	if err != nil {
		return fmt.Errorf("first line is unreadable; inspect the file, and move it away: %w", err)
	}
	l.first = line.N
	return nil
}

// goOnBehind takes the head from the last full file. Each full file ends with a complete line.
func (l *Log) goOnBehind() error {
	full, err := fullFiles(l.dir)
	if err != nil || len(full) == 0 {
		return err
	}
	file, err := os.Open(full[len(full)-1])
	if err != nil {
		return err
	}
	defer file.Close()
	behind := &Log{file: file, now: l.now, dir: l.dir}
	if err := behind.goOn(); err != nil {
		return fmt.Errorf("%s: %w", file.Name(), err)
	}
	l.head = behind.head
	return nil
}

// turn renames the full file and starts the next one. If this fails, the log continues in the full file, because an
// oversized file is better than a missing line.
func (l *Log) turn() {
	aside := filepath.Join(l.dir, fmt.Sprintf("%s%020d%s", fullPrefix, l.first, fullSuffix))
	err := os.Rename(l.file.Name(), aside)
	if err == nil {
		var next *os.File
		if next, err = begin(l.dir); err == nil {
			err = errors.Join(l.file.Sync(), l.file.Close())
			l.file, l.size, l.first, l.stuck = next, 0, 0, false
		} else {
			err = errors.Join(err, os.Rename(aside, l.file.Name()))
		}
	}
	if err != nil && !l.stuck {
		l.stuck = true
		l.tell("The audit log continues in a full file: %v", err)
	}
}

// Add writes a line and returns its number. Add sets N, At and Prev.
func (l *Log) Add(line Line) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line.N, line.Prev, line.At = l.head.N+1, l.head.Hash, l.now().UTC().Format(time.RFC3339Nano)
	for _, field := range []*string{&line.Who, &line.From, &line.Call, &line.What, &line.Outcome} {
		if len(*field) > maxText {
			*field = strings.ToValidUTF8((*field)[:maxText], "") + "…"
		}
	}
	text, err := json.Marshal(line)
	if err != nil {
		return 0, err
	}
	if l.size > 0 && l.size+int64(len(text)) >= l.full {
		l.turn()
	}
	if n, err := l.file.Write(append(text, '\n')); err != nil {
		if n > 0 { // the next line must not follow an incomplete one
			err = errors.Join(err, l.file.Truncate(l.size))
		}
		return 0, fmt.Errorf("audit log: %w", err)
	}
	l.size += int64(len(text)) + 1
	l.head, l.dirty = Head{line.N, hashOf(text)}, true
	if l.first == 0 {
		l.first = line.N
	}
	return line.N, nil
}

// keep syncs lines to disk and logs the head, at fixed intervals.
func (l *Log) keep() {
	defer l.running.Done()
	sync, heads := time.NewTicker(syncEvery), time.NewTicker(headsEvery)
	defer sync.Stop()
	defer heads.Stop()
	for {
		select {
		case <-l.closed:
			return
		case <-sync.C:
			l.sync()
		case <-heads.C:
			l.tellHead()
		}
	}
}

func (l *Log) sync() {
	l.mu.Lock()
	dirty, file := l.dirty, l.file
	l.dirty = false
	l.mu.Unlock()
	if !dirty {
		return
	}
	if err := file.Sync(); err != nil && !errors.Is(err, os.ErrClosed) { // turn has synced it
		l.tell("The audit log cannot be written to its disk: %v", err)
	}
}

func (l *Log) tellHead() {
	l.mu.Lock()
	head, fresh := l.head, l.head.N != l.told
	l.told = l.head.N
	l.mu.Unlock()
	if fresh {
		l.tell("%s", head)
	}
}

// Close logs the last head and stores it.
func (l *Log) Close() (err error) {
	l.closing.Do(func() {
		close(l.closed)
		l.running.Wait()
		l.sync()
		l.tellHead()
		l.KeepHead()
		err = l.file.Close()
	})
	return err
}

func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
