// Package transfer copies a file or a folder over a stream of bytes from one host to another. Pack writes it as a tar
// archive, and Unpack restores it. The package decides which parts of a tree are copied. It never writes outside of the
// given target, no matter what the other side sends. The other side may be a task that attacks its user's computer.
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

// Skipped is called with each file that is not copied, and the reason. The other files are copied.
type Skipped func(name, why string)

// pieceBytes bounds the part of a file in memory.
const pieceBytes = 1 << 20

// modes lists the mode bits that are copied. Set-user-id bits are not copied.
const modes = fs.ModePerm

// Pack writes the file or folder at a path. If the path is a link, Pack follows it, like cp. Links inside a folder are
// copied as links. All names begin with the last element of the path.
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

// packing writes one archive.
type packing struct {
	out     *tar.Writer
	root    *os.Root
	skipped Skipped
	buffer  []byte
}

// folder writes a folder with its content. It reads only through the root, so a folder that is replaced meanwhile leads
// nowhere else.
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
		p.skipped(name, "not a regular file, folder or link")
		return nil
	}
	file, err := p.root.OpenFile(at, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return p.passOver(name, err)
	}
	defer file.Close()
	return p.file(name, file)
}

// passOver skips a file that cannot be read.
func (p *packing) passOver(name string, err error) error {
	p.skipped(name, reason(err))
	return nil
}

// file writes a file with the size that it had when it was opened. If the file grows meanwhile, the rest is cut. If it
// shrinks, the copy fails, because the other side expects the announced size.
func (p *packing) file(name string, file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: not a regular file, folder or link", name)
	}
	if err := p.head(name, info, tar.TypeReg, ""); err != nil {
		return err
	}
	n, err := io.CopyBuffer(onlyWriter{p.out}, onlyReader{io.LimitReader(file, info.Size())}, p.buffer)
	if err == nil && n < info.Size() {
		err = fmt.Errorf("%s: the file became shorter while it was read", name)
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

// onlyReader and onlyWriter prevent the shortcuts of io.CopyBuffer for files, which would not use our buffer.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

// reason returns an error without the path, which the caller adds.
func reason(err error) string {
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		return e.Err.Error()
	}
	if e := (*os.LinkError)(nil); errors.As(err, &e) {
		return e.Err.Error()
	}
	return err.Error()
}

// leadsOut reports whether a link leads out of the tree. The first element of its name is the top of the tree.
func leadsOut(name, to string) bool {
	if to == "" || path.IsAbs(to) || filepath.IsAbs(filepath.FromSlash(to)) {
		return true
	}
	top, _, _ := strings.Cut(name, "/")
	target := path.Join(path.Dir(name), to)
	return target != top && !strings.HasPrefix(target, top+"/") || path.Dir(name) == "."
}
