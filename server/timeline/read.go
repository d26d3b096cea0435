package timeline

import (
	"bufio"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
)

// This file reads the state at a given time. The files may be truncated, in use or removed meanwhile. Everything
// that is readable is returned.

// Piece holds the state at a time, or the changes at a time. The texts are valid until the next Piece.
type Piece struct {
	AtMs  int64
	Fresh bool // the complete state
	Gap   bool // nothing is recorded until the next piece, which is fresh
	Texts [][]byte
}

const (
	// maxEnded is the number of ended things that a complete state includes.
	maxEnded = 200
	// maxBlock limits the accepted length of a block, and maxText that of a text.
	maxBlock = 256 << 20
	// gapAfter is the time in ms after the last block of a part from which nothing is known. A part has at
	// least one block per minute.
	gapAfter = 150_000
)

// Since returns the first recorded time, or 0 if nothing is recorded.
func Since(dir string) (int64, error) {
	all, err := parts(dir)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	return all[0].began, nil
}

// Read calls take with the state at a time, or at the first recorded time after it, and then with the changes up to
// another time.
func Read(dir string, at, until int64, take func(Piece) error) error {
	all, err := parts(dir)
	if err != nil {
		return err
	}
	first := 0
	for i := range all {
		if all[i].began <= at {
			first = i
		}
	}
	r := &reader{at: at, until: until, take: take}
	for i := first; i < len(all) && all[i].began <= until && !r.done; i++ {
		if err := r.part(all[i]); err != nil {
			return err
		}
	}
	if !r.told && r.last != 0 { // the requested time is after the last block
		return r.tellAll(min(at, r.last+gapAfter))
	}
	return nil
}

// reader reads successive parts.
type reader struct {
	at, until int64
	take      func(Piece) error
	texts     [][]byte // by number; nil: ended
	ended     [][]byte // the last ended things
	last      int64
	told      bool // the complete state was passed on
	done      bool
}

// errTorn means that the rest of a part is unreadable.
var errTorn = errors.New("torn")

func (r *reader) part(p part) error {
	file, err := os.Open(p.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	in := bufio.NewReader(flate.NewReader(bufio.NewReader(file)))
	gap := p.began-r.last > gapAfter
	if !r.told && r.last != 0 && p.began > r.at && (!gap || r.at-r.last <= gapAfter) {
		err = r.tellAll(r.at)
	}
	if err == nil && r.told && gap {
		err = r.take(Piece{AtMs: max(r.last, r.at) + 1, Gap: true})
	}
	if err != nil {
		return err
	}
	r.texts = r.texts[:0]
	for fresh := true; !r.done; fresh = false {
		block, err := readBlock(in)
		if err != nil { // the end, or the end of the written data
			return nil
		}
		if err := r.block(block, fresh); errors.Is(err, errTorn) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

func readBlock(in *bufio.Reader) ([]byte, error) {
	n, err := binary.ReadUvarint(in)
	if err != nil || n > maxBlock {
		return nil, errTorn
	}
	var block bytes.Buffer // grows with the data, not with a length in a damaged file
	if _, err := io.CopyN(&block, in, int64(n)); err != nil {
		return nil, errTorn
	}
	return block.Bytes(), nil
}

// block applies one block, and passes on the requested part.
func (r *reader) block(block []byte, fresh bool) error {
	c := cursor{left: block}
	now := int64(c.number())
	if c.torn {
		return errTorn
	}
	if !r.told && !fresh && now > r.at { // the requested state is the one before this block
		if err := r.tellAll(r.at); err != nil {
			return err
		}
	}
	if r.done = now > r.until; r.done {
		return nil
	}
	changes, gone := c.apply(r)
	if c.torn {
		return errTorn
	}
	var err error
	switch {
	case r.told && fresh:
		err = r.take(Piece{AtMs: now, Fresh: true, Texts: r.all()})
	case r.told && len(changes) > 0:
		err = r.take(Piece{AtMs: now, Texts: changes})
	case !r.told && now >= r.at:
		err = r.tellAll(now)
	}
	for _, n := range gone {
		r.ended = append(r.ended, r.texts[n])
		r.texts[n] = nil
	}
	r.ended = r.ended[max(len(r.ended)-maxEnded, 0):]
	r.last = now
	return err
}

func (r *reader) tellAll(at int64) error {
	r.told = true
	return r.take(Piece{AtMs: at, Fresh: true, Texts: append(slices.Clone(r.ended), r.all()...)})
}

func (r *reader) all() [][]byte {
	return slices.DeleteFunc(slices.Clone(r.texts), func(text []byte) bool { return text == nil })
}

// cursor reads the bytes of a block.
type cursor struct {
	left []byte
	torn bool
}

func (c *cursor) number() uint64 {
	n, size := binary.Uvarint(c.left)
	if size <= 0 {
		c.torn = true
		return 0
	}
	c.left = c.left[size:]
	return n
}

func (c *cursor) bytes(n uint64) []byte {
	if n > uint64(len(c.left)) {
		c.torn = true
		return nil
	}
	text := c.left[:n:n]
	c.left = c.left[n:]
	return text
}

// numbers reads a list of numbers of existing things.
func (c *cursor) numbers(texts [][]byte) (all []int) {
	at := uint64(0)
	for n := c.number(); n > 0 && !c.torn; n-- {
		step := c.number()
		if at += step; step > uint64(len(texts)) || at >= uint64(len(texts)) || texts[at] == nil {
			c.torn = true
			return nil
		}
		all = append(all, int(at))
	}
	return all
}

// apply applies the changes of a block to the texts. Things that end in this block still have their texts.
func (c *cursor) apply(r *reader) (changes [][]byte, gone []int) {
	for n := c.number(); n > 0 && !c.torn; n-- {
		text := c.bytes(c.number())
		r.texts = append(r.texts, text)
		changes = append(changes, text)
	}
	for n := c.number(); n > 0 && !c.torn; n-- {
		tail, stay := c.number(), c.number()
		middle := c.bytes(c.number())
		for _, at := range c.numbers(r.texts) {
			old := r.texts[at]
			if stay > tail || tail > uint64(len(old)) {
				c.torn = true
				return nil, nil
			}
			text := slices.Concat(old[:uint64(len(old))-tail], middle, old[uint64(len(old))-stay:])
			r.texts[at] = text
			changes = append(changes, text)
		}
	}
	gone = c.numbers(r.texts)
	return changes, gone
}
