//go:build linux

package layer

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// This file makes each kind of entry in an open directory, by a single name. It keeps only permitted parts of the
// owner, mode and attributes.

// make makes one entry. The last entry of a name counts, as in every archive.
func (u *unpacker) make(parent int, name string, header *tar.Header, content io.Reader) error {
	path := u.join(name)
	delete(u.links, path)
	var err error
	switch header.Typeflag {
	case tar.TypeDir:
		if err = u.folder(parent, name); err == nil {
			delete(u.implied, path)
			return u.describeFolder(parent, name, path, header)
		}
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeCont:
		return u.file(parent, name, header, content)
	case tar.TypeLink:
		return u.link(parent, name, path, header.Linkname)
	case tar.TypeSymlink:
		if header.Linkname == "" || len(header.Linkname) > maxNameBytes || strings.ContainsRune(header.Linkname, 0) {
			return errors.New("the link has no target")
		}
		err = u.replace(parent, name, func() error { return unix.Symlinkat(header.Linkname, parent, name) })
	case tar.TypeFifo:
		err = u.replace(parent, name, func() error { return unix.Mknodat(parent, name, unix.S_IFIFO|0o600, 0) })
	default:
		return fmt.Errorf("the type %q is unknown", header.Typeflag)
	}
	if err != nil {
		return err
	}
	if err := u.chown(parent, name, header); err != nil {
		return err
	}
	if header.Typeflag == tar.TypeFifo {
		if err := unix.Fchmodat(parent, name, u.mode(header), 0); err != nil {
			return err
		}
	}
	return setTime(parent, name, header.ModTime)
}

// replace makes a file. If the name exists, it removes the existing file first.
func (u *unpacker) replace(parent int, name string, make func() error) error {
	err := make()
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := u.remove(parent, name); err != nil {
		return err
	}
	return make()
}

// remove removes the result of an earlier entry. The cached parent directory may be inside it.
func (u *unpacker) remove(parent int, name string) error {
	err := unix.Unlinkat(parent, name, 0)
	if err == nil || err == unix.ENOENT {
		return err
	}
	if err := removeAt(parent, name); err != nil {
		return err
	}
	gone := u.join(name)
	for path := range u.implied {
		if path == gone || strings.HasPrefix(path, gone+"/") {
			delete(u.implied, path)
		}
	}
	u.stale = true
	return nil
}

func (u *unpacker) folder(parent int, name string) error {
	err := unix.Mkdirat(parent, name, 0o755)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	var stat unix.Stat_t
	if err := unix.Fstatat(parent, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil ||
		stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		return err
	}
	return u.replace(parent, name, func() error { return unix.Mkdirat(parent, name, 0o755) })
}

func (u *unpacker) describeFolder(parent int, name, path string, header *tar.Header) error {
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := u.describe(fd, header); err != nil {
		return err
	}
	u.folders = append(u.folders, folder{path, header.ModTime})
	return nil
}

// describe sets owner, mode and attributes, in this order, because a change of owner clears bits of the mode.
func (u *unpacker) describe(fd int, header *tar.Header) error {
	if u.owners {
		if err := unix.Fchown(fd, header.Uid, header.Gid); err != nil {
			return fmt.Errorf("set the owner %d:%d: %w", header.Uid, header.Gid, err)
		}
	}
	if err := unix.Fchmod(fd, u.mode(header)); err != nil {
		return err
	}
	for record, value := range header.PAXRecords {
		name, isAttribute := strings.CutPrefix(record, xattrRecord)
		// Attributes of other namespaces control the kernel: overlay's redirections, capabilities and labels.
		if !isAttribute || !strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "user.overlay.") {
			continue
		}
		if err := unix.Fsetxattr(fd, name, []byte(value), 0); err != nil && err != unix.ENOTSUP && err != unix.EPERM {
			return fmt.Errorf("set the attribute %.100q: %w", name, err)
		}
	}
	return nil
}

// mode returns the mode of an entry. Files never get set-id bits. In a container these give no rights, and on the host
// they would be dangerous. Without root, the owner can always read and remove files.
func (u *unpacker) mode(header *tar.Header) uint32 {
	mode := uint32(header.Mode) & 0o7777
	if header.Typeflag != tar.TypeDir {
		mode &= 0o777
	}
	if !u.owners {
		mode |= 0o600
		if header.Typeflag == tar.TypeDir {
			mode |= 0o700
		}
	}
	return mode
}

func (u *unpacker) chown(parent int, name string, header *tar.Header) error {
	if !u.owners {
		return nil
	}
	if err := unix.Fchownat(parent, name, header.Uid, header.Gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("set the owner %d:%d: %w", header.Uid, header.Gid, err)
	}
	return nil
}

func (u *unpacker) file(parent int, name string, header *tar.Header, content io.Reader) error {
	fd := -1
	err := u.replace(parent, name, func() (err error) {
		fd, err = unix.Openat(parent, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	if err := u.fill(file, content, header.Size); err != nil {
		return err
	}
	if err := u.describe(fd, header); err != nil {
		return err
	}
	return setTime(fd, "", header.ModTime)
}

var zeros [copyBuffer]byte

// fill writes a file's content. It leaves holes for blocks of zeros, so a sparse file stays sparse.
func (u *unpacker) fill(file *os.File, content io.Reader, size int64) error {
	hole := false
	for {
		n, err := io.ReadFull(content, u.buffer)
		if hole = string(u.buffer[:n]) == string(zeros[:n]); hole {
			if _, err := file.Seek(int64(n), io.SeekCurrent); err != nil {
				return err
			}
		} else if _, err := file.Write(u.buffer[:n]); err != nil {
			return err
		} else if err := u.meter.wrote(int64(n)); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && n > 0 && n < len(u.buffer) {
			break
		}
		if err != nil {
			return err
		}
	}
	at, err := file.Seek(0, io.SeekCurrent)
	if err == nil && at != size {
		err = fmt.Errorf("the archive ends after %d of the file's %d bytes", at, size)
	}
	if err == nil && size > 0 {
		err = file.Truncate(size)
	}
	return err
}

// link makes a hard link. If its target is in a lower layer, which is not visible here, link only records it.
func (u *unpacker) link(parent int, name, path, target string) error {
	parts, err := clean(target)
	if err != nil || len(parts) == 0 {
		return fmt.Errorf("the hard link's target %.200q is not in the image", target)
	}
	clear := func() error {
		if err := u.remove(parent, name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	last := parts[len(parts)-1]
	folder, err := openIn(u.root, strings.Join(parts[:len(parts)-1], "/"), unix.O_PATH|unix.O_DIRECTORY)
	if err == nil {
		defer unix.Close(folder)
		if same(folder, last, parent, name) {
			return nil
		}
		var stat unix.Stat_t
		if err = unix.Fstatat(folder, last, &stat, unix.AT_SYMLINK_NOFOLLOW); err == nil {
			return u.replace(parent, name, func() error { return unix.Linkat(folder, last, parent, name, 0) })
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	whole := strings.Join(parts, "/")
	if further, noted := u.links[whole]; noted {
		whole = further
	}
	if whole == path {
		return errors.New("the hard link's target is itself")
	}
	u.links[path] = whole
	return clear()
}
