package transfer

import (
	"archive/tar"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// This file owns how an archive becomes files. The system keeps every name below the place (os.Root), through
// whatever links there are; what it would not refuse by itself, a link that leads out, is left out here.

// Unpack makes what an archive has at a path: in it, where that is a folder that is there, and else under that
// name. In a folder it is named as the caller says, whatever the other side calls it; empty: as that does. A file
// that is there is replaced when the new one is whole. It reads to the archive's end, or to the first thing that is
// wrong.
func Unpack(from io.Reader, to, as string, skipped Skipped) error {
	place, name := filepath.Dir(to), filepath.Base(to)
	info, err := os.Stat(to)
	switch {
	case err == nil && info.IsDir():
		place, name = to, as
	case err == nil, errors.Is(err, fs.ErrNotExist):
		if strings.HasSuffix(to, "/") || strings.HasSuffix(to, string(filepath.Separator)) {
			return fmt.Errorf("%s is no folder", to)
		}
	default:
		return err
	}
	root, err := os.OpenRoot(place)
	if err != nil {
		return err
	}
	defer root.Close()
	u := unpacking{
		in: tar.NewReader(from), root: root, name: name, skipped: skipped, buffer: make([]byte, pieceBytes),
		part: ".synapse-cp-" + rand.Text()[:8],
	}
	return u.all()
}

// unpacking is one archive that is being read.
type unpacking struct {
	in      *tar.Reader
	root    *os.Root // the place
	tree    *os.Root // the top in it, where that is a folder: what lies below it is not made through the place
	name    string   // of the top, where it gets another; empty: its own
	top     string   // as the archive has it
	skipped Skipped
	buffer  []byte
	part    string   // what a file is called until it is whole
	open    []folder // those whose contents still come, outermost first
}

// spot is where an entry goes: a root, and a path in it.
type spot struct {
	root *os.Root
	at   string
}

// folder is one that gets its mode and time when its contents are there: it may be closed to its owner.
type folder struct {
	spot
	name string // as the archive has it
	mode fs.FileMode
	time time.Time
}

func (u *unpacking) all() error {
	defer func() {
		if u.tree != nil {
			u.tree.Close()
		}
	}()
	for {
		h, err := u.in.Next()
		if errors.Is(err, io.EOF) {
			if u.top == "" {
				return errors.New("nothing came")
			}
			return u.leave("")
		}
		if err == nil {
			err = u.entry(h)
		}
		if err != nil {
			return err
		}
	}
}

func (u *unpacking) entry(h *tar.Header) error {
	name := path.Clean(h.Name)
	to, err := u.place(h, name)
	if err != nil {
		return err
	}
	if err := u.leave(name); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return u.enter(to, name, h)
	case tar.TypeReg:
		return u.file(to, h)
	case tar.TypeSymlink:
		if leadsOut(name, h.Linkname) {
			u.skipped(name, fmt.Sprintf("it is a link that leads out of what is copied, to %q", h.Linkname))
			return nil
		}
		_ = to.root.Remove(to.at)
		return to.root.Symlink(filepath.FromSlash(h.Linkname), to.at)
	}
	u.skipped(h.Name, "it is no file, folder or link")
	return nil
}

// place is where an entry goes. Its name must lie below the top, which comes first.
func (u *unpacking) place(h *tar.Header, name string) (spot, error) {
	if !filepath.IsLocal(filepath.FromSlash(name)) || name == "." || strings.ContainsRune(name, 0) {
		return spot{}, fmt.Errorf("the other side sends a file named %q, which would lie outside", h.Name)
	}
	top, rest, below := strings.Cut(name, "/")
	if u.top == "" && !below {
		u.top = top
	}
	switch {
	case top != u.top || below && u.tree == nil:
		return spot{}, fmt.Errorf("the other side sends a file named %q, which is not part of %q", h.Name, u.top)
	case below:
		return spot{u.tree, filepath.FromSlash(rest)}, nil
	case u.name != "":
		top = u.name
	}
	return spot{u.root, top}, nil
}

// enter makes a folder, open to us until we leave it.
func (u *unpacking) enter(to spot, name string, h *tar.Header) error {
	if info, err := to.root.Lstat(to.at); err == nil && !info.IsDir() {
		return fmt.Errorf("%s is there, and is no folder", name)
	} else if err != nil {
		if err := to.root.Mkdir(to.at, 0o700); err != nil {
			return err
		}
	}
	mode := fs.FileMode(h.Mode) & modes
	if err := to.root.Chmod(to.at, mode|0o700); err != nil {
		return err
	}
	if to.root == u.root && u.tree == nil {
		var err error
		if u.tree, err = to.root.OpenRoot(to.at); err != nil {
			return err
		}
	}
	u.open = append(u.open, folder{to, name, mode, h.ModTime})
	return nil
}

// leave finishes the folders that the next entry does not lie in.
func (u *unpacking) leave(next string) error {
	for len(u.open) > 0 {
		last := u.open[len(u.open)-1]
		if strings.HasPrefix(next, last.name+"/") {
			return nil
		}
		u.open = u.open[:len(u.open)-1]
		err := errors.Join(last.root.Chtimes(last.at, last.time, last.time), last.root.Chmod(last.at, last.mode))
		if err != nil {
			return err
		}
	}
	return nil
}

// file writes a file beside its place, and puts it there when it is whole.
func (u *unpacking) file(to spot, h *tar.Header) (err error) {
	if info, err := to.root.Lstat(to.at); err == nil && info.IsDir() {
		return fmt.Errorf("%s is there, and is a folder", to.at)
	}
	beside := filepath.Join(filepath.Dir(to.at), u.part)
	_ = to.root.Remove(beside)
	file, err := to.root.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			file.Close()
			_ = to.root.Remove(beside)
		}
	}()
	n, err := io.CopyBuffer(onlyWriter{file}, onlyReader{u.in}, u.buffer)
	if err == nil && n != h.Size {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		err = file.Chmod(fs.FileMode(h.Mode) & modes)
	}
	if err == nil {
		err = file.Close()
	}
	if err == nil {
		err = to.root.Chtimes(beside, h.ModTime, h.ModTime)
	}
	if err != nil {
		return err
	}
	return to.root.Rename(beside, to.at)
}
