//go:build linux

// Package squash reads SquashFS images, version 4.0, as enroot and mksquashfs write them. A user supplies the image,
// so every number in it is checked before its use, and the kernel never mounts it.
package squash

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// This file reads the superblock and the tables of an image.

const (
	superBytes = 96
	metaBytes  = 8 << 10 // of a metadata block after decompression
	maxBlock   = 1 << 20
	none       = 1<<32 - 1 // no fragment
	plainMeta  = 1 << 15   // flag of a metadata block that is not compressed
	plainData  = 1 << 24   // the same flag of a data block

	// maxFragments and maxIDs limit the tables that stay in memory.
	maxFragments = 4 << 20
	maxIDs       = 1 << 16
)

// magic is the start of each image.
const magic = "hsqs"

// Is reports whether a file begins like a SquashFS image.
func Is(file io.ReaderAt) bool {
	start := make([]byte, len(magic))
	_, err := file.ReadAt(start, 0)
	return err == nil && string(start) == magic
}

// errDamaged reports an image whose numbers cannot be true.
var errDamaged = errors.New("the SquashFS image is damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errDamaged, fmt.Sprintf(format, args...))
}

// Image is an open image.
type Image struct {
	file      io.ReaderAt
	size      int64
	blockSize int64
	expand    expander
	root      uint64
	inodes    int64 // offsets of the tables
	folders   int64
	ids       []uint32
	fragments []fragment
	meta      map[int64]metaBlock // some decompressed metadata blocks
	last      struct {            // the last decompressed fragment block
		at   int64
		data []byte
	}
}

// fragment is a block that holds the ends of several files.
type fragment struct {
	at   int64
	size uint32
}

// Open reads the superblock and the tables.
func Open(file io.ReaderAt, size int64) (*Image, error) {
	super := make([]byte, superBytes)
	if _, err := file.ReadAt(super, 0); err != nil || string(super[:4]) != magic {
		return nil, errors.New("the file is not a SquashFS image")
	}
	le := binary.LittleEndian
	x := &Image{file: file, size: min(size, int64(le.Uint64(super[40:]))), blockSize: int64(le.Uint32(super[12:])),
		root: le.Uint64(super[32:]), inodes: int64(le.Uint64(super[64:])), folders: int64(le.Uint64(super[72:])),
		meta: map[int64]metaBlock{}}
	x.last.at = -1
	if major, minor := le.Uint16(super[28:]), le.Uint16(super[30:]); major != 4 || minor != 0 {
		return nil, fmt.Errorf("the SquashFS image has version %d.%d, and only 4.0 is supported; create it again with "+
			"mksquashfs", major, minor)
	}
	if x.blockSize < 4096 || x.blockSize > maxBlock || x.blockSize&(x.blockSize-1) != 0 {
		return nil, damaged("its block size is %d", x.blockSize)
	}
	var err error
	if x.expand, err = expanderOf(le.Uint16(super[20:])); err != nil {
		return nil, err
	}
	if err := x.readIDs(int64(le.Uint64(super[48:])), int(le.Uint16(super[26:]))); err != nil {
		return nil, err
	}
	return x, x.readFragments(int64(le.Uint64(super[80:])), int64(le.Uint32(super[16:])))
}

// read reads bytes of the file.
func (x *Image) read(at, n int64) ([]byte, error) {
	if at < 0 || n < 0 || at > x.size || n > x.size-at {
		return nil, damaged("it needs %d bytes at %d, and has %d", n, at, x.size)
	}
	out := make([]byte, n)
	_, err := x.file.ReadAt(out, at)
	return out, err
}

// metaBlock is a decompressed metadata block, and the offset of the next one.
type metaBlock struct {
	data []byte
	next int64
}

// maxMeta limits the metadata blocks in memory.
const maxMeta = 512

// metaAt returns the metadata block at an offset of the file.
func (x *Image) metaAt(at int64) (metaBlock, error) {
	if b, is := x.meta[at]; is {
		return b, nil
	}
	head, err := x.read(at, 2)
	if err != nil {
		return metaBlock{}, err
	}
	word := binary.LittleEndian.Uint16(head)
	size := int64(word &^ plainMeta)
	data, err := x.read(at+2, size)
	if err == nil && word&plainMeta == 0 {
		data, err = x.expand(data, metaBytes)
	}
	if err == nil && (len(data) == 0 || len(data) > metaBytes) {
		err = damaged("a metadata block has %d bytes", len(data))
	}
	if err != nil {
		return metaBlock{}, err
	}
	if len(x.meta) >= maxMeta {
		clear(x.meta)
	}
	b := metaBlock{data, at + 2 + size}
	x.meta[at] = b
	return b, nil
}

// cursor reads a sequence of metadata blocks.
type cursor struct {
	x    *Image
	next int64
	rest []byte
	err  error
}

// cursorAt returns a cursor at an offset in the metadata block at an offset of the file.
func (x *Image) cursorAt(block int64, offset int) *cursor {
	c := &cursor{x: x, next: block}
	c.load()
	if c.err == nil && offset > len(c.rest) {
		c.err = damaged("the offset %d is outside of a metadata block", offset)
	}
	if c.err == nil {
		c.rest = c.rest[offset:]
	}
	return c
}

func (c *cursor) load() {
	b, err := c.x.metaAt(c.next)
	c.rest, c.next, c.err = b.data, b.next, err
}

// bytes returns the next bytes, or zeros after an error.
func (c *cursor) bytes(n int) []byte {
	out := make([]byte, n)
	for got := 0; got < n && c.err == nil; {
		if len(c.rest) == 0 {
			c.load()
			continue
		}
		did := copy(out[got:], c.rest)
		got, c.rest = got+did, c.rest[did:]
	}
	if c.err != nil {
		clear(out)
	}
	return out
}

func (c *cursor) u16() uint16 { return binary.LittleEndian.Uint16(c.bytes(2)) }
func (c *cursor) u32() uint32 { return binary.LittleEndian.Uint32(c.bytes(4)) }
func (c *cursor) u64() uint64 { return binary.LittleEndian.Uint64(c.bytes(8)) }

// table reads a table of n entries, which is a list of the offsets of metadata blocks.
func (x *Image) table(at, n int64, each int, take func(*cursor)) error {
	perBlock := int64(metaBytes / each)
	for done := int64(0); done < n; done += perBlock {
		pointer, err := x.read(at+done/perBlock*8, 8)
		if err != nil {
			return err
		}
		c := x.cursorAt(int64(binary.LittleEndian.Uint64(pointer)), 0)
		for range min(perBlock, n-done) {
			take(c)
		}
		if c.err != nil {
			return c.err
		}
	}
	return nil
}

func (x *Image) readIDs(at int64, n int) error {
	if n > maxIDs {
		return damaged("it has %d owners", n)
	}
	return x.table(at, int64(n), 4, func(c *cursor) { x.ids = append(x.ids, c.u32()) })
}

func (x *Image) readFragments(at, n int64) error {
	if n > maxFragments {
		return damaged("it has %d fragments", n)
	}
	return x.table(at, n, 16, func(c *cursor) {
		x.fragments = append(x.fragments, fragment{int64(c.u64()), c.u32()})
		c.u32()
	})
}

// block returns a data block, decompressed.
func (x *Image) block(at int64, size uint32) ([]byte, error) {
	n := int64(size &^ plainData)
	if n > x.blockSize {
		return nil, damaged("a block has %d bytes", n)
	}
	data, err := x.read(at, n)
	if err != nil || size&plainData != 0 {
		return data, err
	}
	return x.expand(data, int(x.blockSize))
}

// fragmentAt returns bytes of a fragment block.
func (x *Image) fragmentAt(index, offset uint32, n int64) ([]byte, error) {
	if int64(index) >= int64(len(x.fragments)) {
		return nil, damaged("the fragment %d does not exist", index)
	}
	of := x.fragments[index]
	if x.last.at != of.at {
		data, err := x.block(of.at, of.size)
		if err != nil {
			return nil, err
		}
		x.last.at, x.last.data = of.at, data
	}
	if int64(offset)+n > int64(len(x.last.data)) {
		return nil, damaged("a file ends outside of its fragment")
	}
	return x.last.data[offset:][:n], nil
}
