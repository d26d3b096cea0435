//go:build linux

package squash

import (
	"archive/tar"
	"io"
	"path"
	"strings"
	"time"
)

// This file writes the files of an image as a tar archive, always in the same order and form. The archive is unpacked
// like a layer of any other image.

const (
	maxLevels = 512
	maxTarget = 4096
)

// The types of inodes. A larger form of each type has the number plus 7.
const (
	typeFolder = iota + 1
	typeFile
	typeSymlink
	typeBlock
	typeChar
	typeFIFO
	typeSocket
	extended = 7
)

// inode is a file of an image.
type inode struct {
	kind         uint16
	large        bool // the extended form
	mode         uint16
	owner, group uint32
	modified     uint32
	number       uint32
	links        uint32

	block, size      int64 // of a folder: its listing in the table of folders
	offset           int
	fragment, within uint32
	blocks           *cursor // at the sizes of the blocks of a file
	target           string
}

// inodeAt reads the inode of a reference.
func (x *Image) inodeAt(ref uint64) (*inode, error) {
	c := x.cursorAt(x.inodes+int64(ref>>16), int(ref&0xffff))
	i := &inode{kind: c.u16(), mode: c.u16() & 0o7777, links: 1}
	owner, group := c.u16(), c.u16()
	i.modified, i.number = c.u32(), c.u32()
	if int(owner) >= len(x.ids) || int(group) >= len(x.ids) {
		return nil, damaged("a file has an unknown owner")
	}
	i.owner, i.group = x.ids[owner], x.ids[group]
	if i.kind > extended {
		i.kind, i.large = i.kind-extended, true
	}
	switch i.kind {
	case typeFolder:
		i.readFolder(c)
	case typeFile:
		i.readFile(c)
	case typeSymlink:
		i.links = c.u32()
		n := c.u32()
		if n == 0 || n > maxTarget {
			return nil, damaged("a link has a target of %d bytes", n)
		}
		i.target = string(c.bytes(int(n)))
	case typeBlock, typeChar, typeFIFO, typeSocket:
		i.links = c.u32()
	default:
		return nil, damaged("a file has the type %d", i.kind)
	}
	return i, c.err
}

func (i *inode) readFolder(c *cursor) {
	if !i.large {
		i.block, _ = int64(c.u32()), c.u32()
		i.size, i.offset = int64(c.u16()), int(c.u16())
		return
	}
	c.u32()
	i.size, i.block = int64(c.u32()), int64(c.u32())
	c.u32()
	c.u16()
	i.offset = int(c.u16())
}

func (i *inode) readFile(c *cursor) {
	if i.large {
		i.block, i.size = int64(c.u64()), int64(c.u64())
		c.u64()
		i.links, i.fragment, i.within = c.u32(), c.u32(), c.u32()
		c.u32()
	} else {
		i.block, i.fragment, i.within, i.size = int64(c.u32()), c.u32(), c.u32(), int64(c.u32())
	}
	i.blocks = c
}

// writer writes one archive.
type writer struct {
	x     *Image
	to    *tar.Writer
	left  int64             // entries
	names map[uint32]string // of files with several names, by inode
	seen  func(name string, content io.Reader) io.Reader
}

// Tar writes all files as an archive. most limits the number of entries. seen, if not nil, gets the name and the
// content of each file, and returns the content to write. Extended attributes are left out.
func (x *Image) Tar(to io.Writer, most int64, seen func(name string, content io.Reader) io.Reader) error {
	w := &writer{x: x, to: tar.NewWriter(to), left: most, names: map[uint32]string{}, seen: seen}
	root, err := x.inodeAt(x.root)
	if err == nil && root.kind != typeFolder {
		err = damaged("its root is not a folder")
	}
	if err == nil {
		err = w.entry(root, "", 0)
	}
	if err != nil {
		return err
	}
	return w.to.Close()
}

// entry writes a file or a folder with its content.
func (w *writer) entry(i *inode, name string, level int) error {
	if w.left--; w.left < 0 {
		return damaged("it has too many files")
	}
	header := &tar.Header{Format: tar.FormatPAX, Name: name, Mode: int64(i.mode), Uid: int(i.owner), Gid: int(i.group),
		ModTime: time.Unix(int64(i.modified), 0)}
	if first := w.names[i.number]; i.links > 1 && i.kind != typeFolder && first != "" {
		header.Typeflag, header.Linkname = tar.TypeLink, first
		return w.to.WriteHeader(header)
	}
	if i.links > 1 && i.kind != typeFolder {
		w.names[i.number] = name
	}
	switch i.kind {
	case typeFolder:
		header.Typeflag, header.Name = tar.TypeDir, name+"/"
		if err := w.to.WriteHeader(header); err != nil {
			return err
		}
		return w.folder(i, name, level)
	case typeFile:
		return w.file(i, header)
	case typeSymlink:
		header.Typeflag, header.Linkname = tar.TypeSymlink, i.target
	case typeFIFO:
		header.Typeflag = tar.TypeFifo
	case typeBlock:
		header.Typeflag = tar.TypeBlock // without numbers: no device is created
	case typeChar:
		header.Typeflag = tar.TypeChar
	default:
		return nil // a socket in an image has no listener
	}
	return w.to.WriteHeader(header)
}

// folder writes the entries of a folder.
func (w *writer) folder(i *inode, name string, level int) error {
	if level >= maxLevels {
		return damaged("a folder has more than %d levels", maxLevels)
	}
	left := i.size - 3 // the size includes . and ..
	if left <= 0 {
		return nil
	}
	c := w.x.cursorAt(w.x.folders+i.block, i.offset)
	for left > 0 && c.err == nil {
		n, block := int(c.u32())+1, uint64(c.u32())
		c.u32()
		if left -= 12; n > 256 {
			return damaged("a part of a folder has %d entries", n)
		}
		for range n {
			offset := uint64(c.u16())
			c.u16()
			c.u16()
			own := string(c.bytes(int(c.u16()) + 1))
			left -= 8 + int64(len(own))
			if c.err != nil {
				return c.err
			}
			if own == "." || own == ".." || strings.ContainsAny(own, "/\x00") || len(own) > 256 {
				return damaged("a file has the name %.40q", own)
			}
			child, err := w.x.inodeAt(block<<16 | offset)
			if err != nil {
				return err
			}
			if err := w.entry(child, path.Join(name, own), level+1); err != nil {
				return err
			}
		}
	}
	return c.err
}

// file writes a file with its content.
func (w *writer) file(i *inode, header *tar.Header) error {
	if i.size < 0 {
		return damaged("a file has %d bytes", i.size)
	}
	header.Typeflag, header.Size = tar.TypeReg, i.size
	if err := w.to.WriteHeader(header); err != nil {
		return err
	}
	var content io.Reader = &contentReader{x: w.x, i: i, at: i.block, left: i.size}
	if w.seen != nil {
		content = w.seen(header.Name, content)
	}
	_, err := io.Copy(w.to, content)
	return err
}

// contentReader reads the content of a file, block by block.
type contentReader struct {
	x    *Image
	i    *inode
	at   int64
	left int64
	rest []byte
}

func (r *contentReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.left == 0 {
			return 0, io.EOF
		}
		if err := r.load(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// load reads the next block.
func (r *contentReader) load() (err error) {
	n := min(r.left, r.x.blockSize)
	if r.left -= n; n < r.x.blockSize && r.i.fragment != none {
		r.rest, err = r.x.fragmentAt(r.i.fragment, r.i.within, n)
		return err
	}
	size := r.i.blocks.u32()
	switch {
	case r.i.blocks.err != nil:
		return r.i.blocks.err
	case size == 0: // a hole
		r.rest = make([]byte, n)
		return nil
	}
	if r.rest, err = r.x.block(r.at, size); err == nil && int64(len(r.rest)) != n {
		err = damaged("a block of a file has %d bytes instead of %d", len(r.rest), n)
	}
	r.at += int64(size &^ plainData)
	return err
}
