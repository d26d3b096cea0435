// Package transfer carries a file or a folder over a stream of bytes, from one machine to another: Pack writes it
// as a tar archive, and Unpack makes it again. It owns what of a tree travels, and that nothing outside of the
// place that was named is ever written, whatever the other side sends: it may be a task that wants to reach its
// user's machine.
package transfer

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Skipped is told of what does not travel, and why. The rest does.
type Skipped func(name, why string)

// pieceBytes is how much of a file is under way at once, whatever its size.
const pieceBytes = 1 << 20

// modes are the bits of a mode that travel: a program that runs as its owner is not made by copying it.
const modes = fs.ModePerm

// Pack writes the file or folder at a path. A link that is named itself is followed, as by cp; those in a folder
// travel as links. Everything is named by the last element of the path.
func Pack(to io.Writer, from string, skipped Skipped) error {
	top, err := os.Stat(from)
	if err != nil {
		return err
	}
	whole, err := filepath.Abs(from)
	if err != nil {
		return err
	}
	p := packing{out: tar.NewWriter(to), skipped: skipped, buffer: make([]byte, pieceBytes)}
	name := filepath.Base(whole)
	if name == string(filepath.Separator) || name == "." {
		name = "root"
	}
	if !top.IsDir() {
		folder, err := os.OpenRoot(filepath.Dir(whole))
		if err != nil {
			return err
		}
		defer folder.Close()
		file, err := os.Open(whole)
		if err != nil {
			return err
		}
		defer file.Close()
		return errors.Join(p.file(name, file), p.out.Close())
	}
	if p.root, err = os.OpenRoot(whole); err != nil {
		return err
	}
	defer p.root.Close()
	if err := p.folder(name, ".", top); err != nil {
		return err
	}
	return p.out.Close()
}

// packing is one archive that is being written.
type packing struct {
	out     *tar.Writer
	root    *os.Root
	skipped Skipped
	buffer  []byte
}

// folder writes a folder, and what is in it. It reads through the root alone: a folder that is put in another's place
// meanwhile leads nowhere else.
func (p *packing) folder(name, at string, info fs.FileInfo) error {
	if err := p.head(name+"/", info, tar.TypeDir, ""); err != nil {
		return err
	}
	folder, err := p.root.Open(at)
	if err != nil {
		return p.passOver(name, err)
	}
	entries, err := folder.ReadDir(-1)
	folder.Close()
	if err != nil {
		return p.passOver(name, err)
	}
	for _, e := range entries {
		if err := p.entry(path.Join(name, e.Name()), filepath.Join(at, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (p *packing) entry(name, at string) error {
	info, err := p.root.Lstat(at)
	switch {
	case err != nil:
		return p.passOver(name, err)
	case info.IsDir():
		return p.folder(name, at, info)
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := p.root.Readlink(at)
		if err != nil {
			return p.passOver(name, err)
		}
		return p.head(name, info, tar.TypeSymlink, filepath.ToSlash(to))
	case !info.Mode().IsRegular():
		p.skipped(name, "it is no file, folder or link")
		return nil
	}
	file, err := p.root.OpenFile(at, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return p.passOver(name, err)
	}
	defer file.Close()
	return p.file(name, file)
}

// passOver goes on without what cannot be read.
func (p *packing) passOver(name string, err error) error {
	p.skipped(name, reason(err))
	return nil
}

// file writes a file as long as it was when it was opened. One that grows meanwhile is cut there, and one that
// shrinks cannot be told to the other side, which waits for the bytes that were promised.
func (p *packing) file(name string, file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: it is no file, folder or link", name)
	}
	if err := p.head(name, info, tar.TypeReg, ""); err != nil {
		return err
	}
	n, err := io.CopyBuffer(onlyWriter{p.out}, onlyReader{io.LimitReader(file, info.Size())}, p.buffer)
	if err == nil && n < info.Size() {
		err = fmt.Errorf("%s: it became shorter while it was read", name)
	}
	return err
}

func (p *packing) head(name string, info fs.FileInfo, kind byte, link string) error {
	h := &tar.Header{
		Name: name, Typeflag: kind, Linkname: link, Mode: int64(info.Mode() & modes), ModTime: info.ModTime(),
		Format: tar.FormatPAX,
	}
	if kind == tar.TypeReg {
		h.Size = info.Size()
	}
	return p.out.WriteHeader(h)
}

// onlyReader and onlyWriter keep io.CopyBuffer from the shortcuts of files, which would take no buffer of ours.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

// reason is an error without the path, which its caller names.
func reason(err error) string {
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		return e.Err.Error()
	}
	if e := (*os.LinkError)(nil); errors.As(err, &e) {
		return e.Err.Error()
	}
	return err.Error()
}

// leadsOut reports whether a link in the folder leads out of the tree whose top is the first element of its name.
func leadsOut(name, to string) bool {
	if to == "" || path.IsAbs(to) || filepath.IsAbs(filepath.FromSlash(to)) {
		return true
	}
	top, _, _ := strings.Cut(name, "/")
	target := path.Join(path.Dir(name), to)
	return target != top && !strings.HasPrefix(target, top+"/") || path.Dir(name) == "."
}
