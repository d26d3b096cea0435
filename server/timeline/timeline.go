// Package timeline records the states of a cluster: what the web UI shows for the last day, and sums for the last
// month. The leader writes it separately. No actor waits for it or knows of it, and a full disk affects only the
// timeline.
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

// This file writes the timeline. A part is a file of blocks: the first block contains the texts of all things, and
// each later block contains the changes. Any state can therefore be read from the start of one part. A part that is
// truncated within a block is valid up to the previous block. A process never writes to a part of another process.
//
// A text is written once and then edited. If a job starts on a node, only the bytes in the middle of the node's
// text change, and all nodes of the gang have the same change. An edit is therefore written once for all things
// that share it. The format does not depend on the content of the texts. A rejected alternative was to read the
// store. It has no resources of nodes, and readers of the web UI would compete with the writes of jobs.

const (
	// partFor is how long a part is written. In a longer part, a state takes longer to find.
	partFor = 30 * time.Minute
	// maxPart is the size at which a part ends earlier.
	maxPart = 8 << 20
	// MaxBytes limits the size of all parts together. With very many changes, the timeline is shorter than a
	// day.
	MaxBytes = 100 << 20
	// DefaultFor is how long the timeline is kept by default.
	DefaultFor = 24 * time.Hour

	partSuffix = ".past"
)

// Log writes the timeline. Only one goroutine may use it.
type Log struct {
	dir  string
	most int64
	keep time.Duration

	known   map[string]*thing
	pending map[string]*edit // since the last block
	order   []string         // keys of pending, in order
	next    int              // number of the next new thing in the part

	file  *os.File // nil: no part is open
	out   *flate.Writer
	began int64 // first and last time of the part
	last  int64
	size  int64
}

// thing holds what is known of one thing in the open part.
type thing struct {
	number int // -1: not in the part yet
	text   []byte
}

// edit is the change of a thing.
type edit struct {
	text []byte
	over bool // the thing has ended, and is forgotten
}

// Open starts writing in a folder. It does not change existing parts.
func Open(dir string, keep time.Duration, most int64) (*Log, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return &Log{dir: dir, most: most, keep: keep, known: map[string]*thing{}, pending: map[string]*edit{}}, nil
}

// Put records the current text of a thing.
func (l *Log) Put(key string, text []byte) { l.note(key, &edit{text: text}) }

// End records the last text of a thing, and forgets the thing.
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

// Knows reports whether a thing exists now.
func (l *Log) Knows(key string) bool { return l.known[key] != nil || l.pending[key] != nil }

// Keys returns the keys of all existing things, unsorted.
func (l *Log) Keys() []string {
	all := make([]string, 0, len(l.known))
	for key := range l.known { //order: the doc comment says so
		all = append(all, key)
	}
	return all
}

// Write writes the changes as one block. After an error, the next call starts a new part with the complete state,
// so only intermediate states are lost.
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

// begin starts a part, and removes old parts if the limit requires it.
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
		panic(err) // the level exists
	}
	return nil
}

// counting is the file of the part, and counts its bytes.
type counting struct{ l *Log }

func (c counting) Write(text []byte) (int, error) {
	n, err := c.l.file.Write(text)
	c.l.size += int64(n)
	return n, err
}

// Close ends the part. A part that was not closed is valid up to its last block.
func (l *Log) Close() {
	if l.file == nil {
		return
	}
	_ = l.out.Close() // flushed data is already in the file
	_ = l.file.Close()
	l.file = nil
	for _, t := range l.known { //order: each is independent
		t.number = -1
	}
}

// block returns the bytes of one block, and the keys that are forgotten after it.
func (l *Log) block(nowMs int64, fresh bool) (block []byte, ended []string) {
	var made [][]byte
	var gone []int
	groups := map[string][]int{} // things that share an edit
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

// settle clears the written changes, and forgets ended things.
func (l *Log) settle(ended []string) {
	if l.file == nil { // nothing was written, but the texts are known
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

// editOf returns the change from one text to another: a replacement of bytes between a common start and a common
// end. It counts from the end, because names of different lengths are at the start.
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

// appendNumbers writes sorted numbers as differences.
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

// part is an existing file.
type part struct {
	path  string
	began int64
	size  int64
}

func partName(began int64) string { return fmt.Sprintf("%015d%s", began, partSuffix) }

// parts returns all parts, oldest first.
func parts(dir string) ([]part, error) { return files(dir, partSuffix) }

// files returns the files with this suffix, oldest first according to their names.
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
		if info, err := e.Info(); err == nil { // otherwise it has been removed meanwhile
			all = append(all, part{filepath.Join(dir, e.Name()), began, info.Size()})
		}
	}
	return all, nil
}

// prune removes parts that are too old, and the oldest ones until the next part fits into the limit.
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
		old := i+1 < len(all) && all[i+1].began < nowMs-l.keep.Milliseconds() // the next part covers the kept time
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
