// Package audit is a scheduler's account of who asked what of it: a file that is only added to, in which each line has
// the hash of the one before. It is told what to write, judges nothing, and never writes what a job brings.
package audit

import (
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

// This file owns how lines are written.
//
// A chain beside its data convinces nobody: who can change the file can make another chain. So the head, which is the
// last line's number and hash, is told to the log of the scheduler, which goes elsewhere, and every head that was kept
// anywhere pins all lines up to it.

const (
	// File is the account's name in its folder.
	File = "audit.log"
	// headsEvery is how often the head is told where there are new lines, and syncEvery how often lines go to the disk: a
	// process that is killed loses none, a machine that loses its power those of a second.
	headsEvery = time.Minute
	syncEvery  = time.Second

	maxLine = 64 << 10
	maxText = 2 << 10 // of a field that a caller can choose
)

// Line is one line. Of a call that changes something there are two: one before it, without which it is not made, and
// one that says how it ended.
type Line struct {
	N       uint64 `json:"n"`
	At      string `json:"at"`
	Who     string `json:"who,omitempty"`
	From    string `json:"from,omitempty"`
	Call    string `json:"call,omitempty"`
	What    string `json:"what,omitempty"`
	Outcome string `json:"outcome"`      // asked, ok, refused: …, or how it failed
	Of      uint64 `json:"of,omitempty"` // the line in which it was asked
	Prev    string `json:"prev"`         // the hash of the line before
}

// The outcomes that are always written so.
const (
	Asked   = "asked"
	OK      = "ok"
	Refused = "refused"
)

// Head is the last line.
type Head struct {
	N    uint64
	Hash string
}

// headWords begin a head where it is told.
const headWords = "Audit head "

func (h Head) String() string { return fmt.Sprintf("%s%d %s", headWords, h.N, h.Hash) }

// Log is an open account.
type Log struct {
	now  func() time.Time
	tell func(format string, args ...any)

	mu    sync.Mutex
	file  *os.File
	size  int64
	head  Head
	told  uint64
	dirty bool

	closed  chan struct{}
	closing sync.Once
	running sync.WaitGroup
}

// Open goes on with the account in a folder, or begins one. Tell is told the head now and then.
func Open(dir string, now func() time.Time, tell func(format string, args ...any)) (*Log, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("the audit: %w", err)
	}
	path := filepath.Join(dir, File)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the audit: %w", err)
	}
	l := &Log{now: now, tell: tell, file: file, closed: make(chan struct{})}
	if err := l.goOn(); err != nil {
		return nil, errors.Join(fmt.Errorf("the audit %s: %w", path, err), file.Close())
	}
	l.running.Add(1)
	go l.keep()
	return l, nil
}

// goOn finds the last line. What a crash left of one that was not written whole is cut off, and told in the next line.
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
			return fmt.Errorf("its last line cannot be read, so nothing is added to it; look at it, and move it away: %w", err)
		}
		l.head = Head{line.N, hashOf(last)}
	} else if l.size > 0 {
		return fmt.Errorf("its last line has more than %d bytes, as none of ours; look at it, and move it away", maxLine)
	}
	if cut > 0 {
		if err := l.file.Truncate(l.size); err != nil {
			return err
		}
		_, err = l.Add(Line{What: fmt.Sprintf("cut off %d bytes of a line that was not written whole", cut), Outcome: OK})
	}
	return err
}

// Add writes a line, and answers its number. N, At and Prev are the log's own.
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
	if n, err := l.file.Write(append(text, '\n')); err != nil {
		if n > 0 { // half a line must not be the beginning of the next
			err = errors.Join(err, l.file.Truncate(l.size))
		}
		return 0, fmt.Errorf("the audit: %w", err)
	}
	l.size += int64(len(text)) + 1
	l.head, l.dirty = Head{line.N, hashOf(text)}, true
	return line.N, nil
}

// keep brings lines to the disk, and tells the head.
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
	dirty := l.dirty
	l.dirty = false
	l.mu.Unlock()
	if !dirty {
		return
	}
	if err := l.file.Sync(); err != nil {
		l.tell("The audit does not reach its disk: %v", err)
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

// Close tells the last head.
func (l *Log) Close() (err error) {
	l.closing.Do(func() {
		close(l.closed)
		l.running.Wait()
		l.sync()
		l.tellHead()
		err = l.file.Close()
	})
	return err
}

func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
