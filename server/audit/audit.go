// Package audit keeps a scheduler's account of who asked what of it: files that are only added to, in which each line
// has the hash of the one before, also over the end of a file. It is told what to write, judges nothing, and never
// writes what a job brings.
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

// This file owns how lines are written.
//
// A chain beside its data convinces nobody: who can change the file can make another chain. So the head, which is the
// last line's number and hash, is told to the log of the scheduler, which goes elsewhere, and every head that was kept
// anywhere pins all lines up to it.

const (
	// File is the name of the account in its folder: of the file that is added to. Those that are full are beside it.
	File = "audit.log"
	// fullAt is the size at which a file is full.
	fullAt = 64 << 20
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
	Pass    string `json:"token,omitempty"` // the id of the token, where it was shown in place of a certificate
	From    string `json:"from,omitempty"`
	Call    string `json:"call,omitempty"`
	What    string `json:"what,omitempty"`
	Outcome string `json:"outcome"`      // asked, ok, refused: …, or how it failed
	Of      uint64 `json:"of,omitempty"` // the line in which it was asked
	Heads   []Pin  `json:"heads,omitempty"`
	Prev    string `json:"prev"` // the hash of the line before
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
	dir  string

	mu    sync.Mutex
	file  *os.File
	size  int64
	full  int64  // the size at which the next file begins
	first uint64 // the number of the file's first line; 0: it has none
	head  Head
	told  uint64
	dirty bool
	stuck bool // it was told that no next file can be begun

	who string // whose account it is; empty, like in, where it is shared with nobody
	in  Board

	keeping sync.Mutex // guards what follows
	kept    Head       // what the store has
	unkept  bool       // it was told that the store has no newer one

	closed  chan struct{}
	closing sync.Once
	running sync.WaitGroup
}

// Open goes on with the account in a folder, or begins one. Tell is told the head now and then.
func Open(dir string, now func() time.Time, tell func(format string, args ...any)) (*Log, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("the audit: %w", err)
	}
	file, err := begin(dir)
	if err != nil {
		return nil, fmt.Errorf("the audit: %w", err)
	}
	l := &Log{now: now, tell: tell, dir: dir, file: file, full: fullAt, closed: make(chan struct{})}
	if err := l.goOn(); err != nil {
		return nil, errors.Join(fmt.Errorf("the audit %s: %w", file.Name(), err), file.Close())
	}
	l.running.Add(1)
	go l.keep()
	return l, nil
}

// begin opens the file that is added to, and makes it where there is none.
func begin(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, File), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
}

// goOn finds the last line, which is in the file before where this one has none yet. What a crash left of one that was
// not written whole is cut off, and told in the next line.
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
		if err := l.findFirst(); err != nil {
			return err
		}
	} else if l.size > 0 {
		return fmt.Errorf("its last line has more than %d bytes, as none of ours; look at it, and move it away", maxLine)
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

// findFirst reads the number of the file's first line, which will be in its name when it is full.
func (l *Log) findFirst() error {
	text, err := bufio.NewReaderSize(io.NewSectionReader(l.file, 0, l.size), maxLine).ReadSlice('\n')
	if err != nil {
		return err
	}
	line, err := parse(bytes.TrimSuffix(text, []byte("\n")))
	if err != nil {
		return fmt.Errorf("its first line cannot be read; look at it, and move it away: %w", err)
	}
	l.first = line.N
	return nil
}

// goOnBehind takes the head from the last file that is full. Each of them ends with a whole line.
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

// turn puts the full file aside and begins the next one. Where that fails, the file is added to as before: a line that
// is too far behind in a file is better than none.
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
	if l.size > 0 && l.size+int64(len(text)) >= l.full {
		l.turn()
	}
	if n, err := l.file.Write(append(text, '\n')); err != nil {
		if n > 0 { // half a line must not be the beginning of the next
			err = errors.Join(err, l.file.Truncate(l.size))
		}
		return 0, fmt.Errorf("the audit: %w", err)
	}
	l.size += int64(len(text)) + 1
	l.head, l.dirty = Head{line.N, hashOf(text)}, true
	if l.first == 0 {
		l.first = line.N
	}
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
	dirty, file := l.dirty, l.file
	l.dirty = false
	l.mu.Unlock()
	if !dirty {
		return
	}
	if err := file.Sync(); err != nil && !errors.Is(err, os.ErrClosed) { // one that is full meanwhile is on its disk
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

// Close tells and keeps the last head.
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
