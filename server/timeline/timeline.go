// Package timeline keeps how a cluster was: what its page shows, over the last day, and its sums over the last month.
// It is written by whoever leads, beside all else: no actor waits for it or knows of it, and a disk that is full costs
// the past and nothing more.
package timeline

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file owns how the past is written. A part is a file of blocks: the first has the text of everything that there
// is, each later one what has become of that since. So any moment is found from the beginning of one part, and a part
// that was cut off in the middle of a block is good up to there. Nothing is ever written into a part that another
// process began.
//
// A text is written once and then edited: of a machine that is given to a job only the bytes in between change, and the
// same bytes on all machines of the gang, so an edit is written once for all things that have it in common. The format
// knows nothing else of what the texts say. Turned down was to keep what the store has on disk: it has no machines'
// books, and would be read by those who look at the page while jobs want to be written.

const (
	// partFor is how long a part is written; a larger one makes what a moment costs longer to read.
	partFor = 30 * time.Minute
	// maxPart is the size at which a part ends earlier.
	maxPart = 8 << 20
	// MaxBytes bounds all parts together: where very much changes, the past is shorter than a day.
	MaxBytes = 100 << 20
	// DefaultFor is for how long the past is kept.
	DefaultFor = 24 * time.Hour

	partSuffix = ".past"
)

// Log writes all that is kept. It belongs to one goroutine.
type Log struct {
	dir  string
	most int64
	keep time.Duration

	known   map[string]*thing
	pending map[string]*edit // since the last block
	order   []string         // of the pending keys, as they came first
	next    int              // the number of the next thing that is new to the part

	file  *os.File // nil: no part is open
	out   *flate.Writer
	began int64 // the part's first moment, and its last
	last  int64
	size  int64
}

// thing has what is known of one, in the part that is written.
type thing struct {
	number int // −1: not in the part yet
	text   []byte
}

// edit says what has become of a thing.
type edit struct {
	text []byte
	over bool // it changes no more, and is forgotten
}

// Open begins to write in a folder, beside the parts that are there.
func Open(dir string, keep time.Duration, most int64) (*Log, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return &Log{dir: dir, most: most, keep: keep, known: map[string]*thing{}, pending: map[string]*edit{}}, nil
}

// Put notes what a thing is now.
func (l *Log) Put(key string, text []byte) { l.note(key, &edit{text: text}) }

// End notes what a thing is at last. It is forgotten then.
func (l *Log) End(key string, text []byte) { l.note(key, &edit{text: text, over: true}) }

func (l *Log) note(key string, e *edit) {
	if l.pending[key] == nil {
		if t := l.known[key]; t != nil && !e.over && bytes.Equal(t.text, e.text) {
			return
		}
		l.order = append(l.order, key)
	}
	l.pending[key] = e
}

// Knows reports whether a thing is there now.
func (l *Log) Knows(key string) bool { return l.known[key] != nil || l.pending[key] != nil }

// Keys returns the keys of all that is there, in no order.
func (l *Log) Keys() []string {
	all := make([]string, 0, len(l.known))
	for key := range l.known { //order: the caller is told so
		all = append(all, key)
	}
	return all
}

// Write writes what has changed as one block of a moment. After an error nothing is lost but what has been between: the
// next one begins a part.
func (l *Log) Write(nowMs int64) error {
	if l.file != nil && (nowMs-l.began > partFor.Milliseconds() || l.size > maxPart || nowMs < l.last) {
		l.Close()
	}
	fresh := l.file == nil
	if fresh {
		if err := l.begin(nowMs); err != nil {
			l.settle(nil)
			return err
		}
	}
	block, ended := l.block(nowMs, fresh)
	l.settle(ended)
	var head [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(head[:], uint64(len(block)))
	_, err := l.out.Write(head[:n])
	if err == nil {
		_, err = l.out.Write(block)
	}
	if err == nil {
		err = l.out.Flush()
	}
	if err != nil {
		l.Close()
		return err
	}
	l.last = nowMs
	return nil
}

// begin begins a part, for which there has to be room.
func (l *Log) begin(nowMs int64) error {
	if err := l.prune(nowMs); err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(l.dir, partName(nowMs)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	l.file, l.began, l.last, l.size, l.next = file, nowMs, nowMs, 0, 0
	if l.out != nil {
		l.out.Reset(counting{l})
		return nil
	}
	if l.out, err = flate.NewWriter(counting{l}, flate.DefaultCompression); err != nil {
		panic(err) // there is such a level
	}
	return nil
}

// counting is the part's file, and counts its bytes.
type counting struct{ l *Log }

func (c counting) Write(text []byte) (int, error) {
	n, err := c.l.file.Write(text)
	c.l.size += int64(n)
	return n, err
}

// Close ends the part. A past that was not closed is as good up to its last block.
func (l *Log) Close() {
	if l.file == nil {
		return
	}
	_ = l.out.Close() // what has been flushed is there
	_ = l.file.Close()
	l.file = nil
	for _, t := range l.known { //order: each alike
		t.number = -1
	}
}

// block is the bytes of one block, and the keys that are forgotten behind it.
func (l *Log) block(nowMs int64, fresh bool) (block []byte, ended []string) {
	var made [][]byte
	var gone []int
	groups := map[string][]int{} // things by the edit that they have in common
	add := func(text []byte) int {
		made = append(made, text)
		l.next++
		return l.next - 1
	}
	if fresh {
		for _, key := range sortedKeys(l.known) {
			if l.pending[key] == nil {
				l.known[key].number = add(l.known[key].text)
			}
		}
	}
	for _, key := range l.order {
		e, t := l.pending[key], l.known[key]
		switch {
		case t == nil:
			t = &thing{number: add(e.text)}
			l.known[key] = t
		case t.number < 0:
			t.number = add(e.text)
		case !bytes.Equal(t.text, e.text):
			common := string(editOf(t.text, e.text))
			groups[common] = append(groups[common], t.number)
		}
		t.text = e.text
		if e.over {
			gone, ended = append(gone, t.number), append(ended, key)
		}
	}
	block = binary.AppendUvarint(block, uint64(nowMs))
	block = binary.AppendUvarint(block, uint64(len(made)))
	for _, text := range made {
		block = append(binary.AppendUvarint(block, uint64(len(text))), text...)
	}
	block = binary.AppendUvarint(block, uint64(len(groups)))
	for _, common := range sortedKeys(groups) {
		block = appendNumbers(append(block, common...), groups[common])
	}
	return appendNumbers(block, gone), ended
}

// settle forgets what is written, and what is over.
func (l *Log) settle(ended []string) {
	if l.file == nil { // nothing could be written: what is known is known all the same
		for _, key := range l.order {
			switch e := l.pending[key]; {
			case e.over:
				ended = append(ended, key)
			case l.known[key] != nil:
				l.known[key].text = e.text
			default:
				l.known[key] = &thing{number: -1, text: e.text}
			}
		}
	}
	for _, key := range ended {
		delete(l.known, key)
	}
	clear(l.pending)
	l.order = l.order[:0]
}

// editOf says how one text becomes another: of the old one's end so many bytes are replaced, up to so many that stay.
// It counts from the end, since names, which differ in length, stand at the beginning.
func editOf(old, now []byte) []byte {
	same, limit := 0, min(len(old), len(now))
	for same < limit && old[same] == now[same] {
		same++
	}
	stay := 0
	for stay < limit-same && old[len(old)-1-stay] == now[len(now)-1-stay] {
		stay++
	}
	middle := now[same : len(now)-stay]
	edit := binary.AppendUvarint(nil, uint64(len(old)-same))
	edit = binary.AppendUvarint(edit, uint64(stay))
	edit = binary.AppendUvarint(edit, uint64(len(middle)))
	return append(edit, middle...)
}

// appendNumbers writes numbers in their order, each as how far it is from the one before.
func appendNumbers(to []byte, numbers []int) []byte {
	slices.Sort(numbers)
	to = binary.AppendUvarint(to, uint64(len(numbers)))
	before := 0
	for _, n := range numbers {
		to = binary.AppendUvarint(to, uint64(n-before))
		before = n
	}
	return to
}

func sortedKeys[V any](of map[string]V) []string {
	keys := make([]string, 0, len(of))
	for key := range of { //order: sorted below
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// part is a file that is there.
type part struct {
	path  string
	began int64
	size  int64
}

func partName(began int64) string { return fmt.Sprintf("%015d%s", began, partSuffix) }

// parts returns all that are there, the oldest first.
func parts(dir string) ([]part, error) { return files(dir, partSuffix) }

// files returns those with such a name, the oldest first, as their names have it.
func files(dir, suffix string) ([]part, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []part
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), suffix)
		began, err := strconv.ParseInt(name, 10, 64)
		if !ok || err != nil {
			continue
		}
		if info, err := e.Info(); err == nil { // or it has gone meanwhile
			all = append(all, part{filepath.Join(dir, e.Name()), began, info.Size()})
		}
	}
	return all, nil
}

// prune removes the parts that are too old, or too many for the next to be as large as one may be.
func (l *Log) prune(nowMs int64) error {
	all, err := parts(l.dir)
	if err != nil {
		return err
	}
	var sum int64
	for _, p := range all {
		sum += p.size
	}
	for i, p := range all {
		old := i+1 < len(all) && all[i+1].began < nowMs-l.keep.Milliseconds() // what follows covers what is kept
		if !old && sum <= l.most-maxPart {
			break
		}
		if err := os.Remove(p.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		sum -= p.size
	}
	return nil
}
