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

// This file turns an archive into files. os.Root keeps every name below the target, through any links. This code itself
// skips links that lead out.

// Unpack unpacks an archive at a path. If the path is an existing folder, the content goes into it, under the name as,
// or under the archive's name if as is empty. Otherwise the content gets the name of the path. An existing file is
// replaced when the new one is complete. Unpack reads until the archive's end or the first error.
func Unpack(from io.Reader, to, as string, skipped Skipped) error {
	place, name := filepath.Dir(to), filepath.Base(to)
	info, err := os.Stat(to)
	switch {
	case err == nil && info.IsDir():
		place, name = to, as
	case err == nil, errors.Is(err, fs.ErrNotExist):
		if strings.HasSuffix(to, "/") || strings.HasSuffix(to, string(filepath.Separator)) {
			return fmt.Errorf("%s is not a folder", to)
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

// unpacking reads one archive.
type unpacking struct {
	in      *tar.Reader
	root    *os.Root // the target
	tree    *os.Root // the top folder inside the target, if the top is a folder; its content is created through it
	name    string   // the new name of the top; empty: its own
	top     string   // the top's name in the archive
	skipped Skipped
	buffer  []byte
	part    string   // the name of a file until it is complete
	open    []folder // the folders whose content is still expected, outermost first
}

// spot is the destination of an entry: a root, and a path in it.
type spot struct {
	root *os.Root
	at   string
}

// folder is a folder that gets its mode and time after its content, because it may be read-only.
type folder struct {
	spot
	name string // in the archive
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
				return errors.New("the archive is empty")
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
			u.skipped(name, fmt.Sprintf("a link that leads out of the copied folder, to %q", h.Linkname))
			return nil
		}
		_ = to.root.Remove(to.at)
		return to.root.Symlink(filepath.FromSlash(h.Linkname), to.at)
	}
	u.skipped(h.Name, "not a regular file, folder or link")
	return nil
}

// place returns the destination of an entry. Its name must be below the top, which is the first entry.
func (u *unpacking) place(h *tar.Header, name string) (spot, error) {
	if !filepath.IsLocal(filepath.FromSlash(name)) || name == "." || strings.ContainsRune(name, 0) {
		return spot{}, fmt.Errorf("the other side sent a file named %q, which is outside of the target", h.Name)
	}
	top, rest, below := strings.Cut(name, "/")
	if u.top == "" && !below {
		u.top = top
	}
	switch {
	case top != u.top || below && u.tree == nil:
		return spot{}, fmt.Errorf("the other side sent a file named %q, which is not part of %q", h.Name, u.top)
	case below:
		return spot{u.tree, filepath.FromSlash(rest)}, nil
	case u.name != "":
		top = u.name
	}
	return spot{u.root, top}, nil
}

// enter makes a folder that stays writable until leave.
func (u *unpacking) enter(to spot, name string, h *tar.Header) error {
	if info, err := to.root.Lstat(to.at); err == nil && !info.IsDir() {
		return fmt.Errorf("%s exists and is not a folder", name)
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

// leave finishes the folders that do not contain the next entry.
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

// file writes a file next to its destination, and renames it when it is complete.
func (u *unpacking) file(to spot, h *tar.Header) (err error) {
	if info, err := to.root.Lstat(to.at); err == nil && info.IsDir() {
		return fmt.Errorf("%s exists and is a folder", to.at)
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
