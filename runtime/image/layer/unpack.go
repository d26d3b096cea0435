//go:build linux

package layer

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// This file owns the way from an archive to files. Whoever made the archive may want to reach what is outside of the
// directory, so no name is ever joined to a path of the machine: a parent is opened by the kernel within the root
// (place.go), and its child is made through that descriptor, never by following what is there.

const (
	whiteout      = ".wh."
	whiteoutOwn   = ".wh..wh." // what aufs kept for itself
	opaque        = ".wh..wh..opq"
	xattrRecord   = "SCHILY.xattr."
	maxID         = 1<<32 - 2
	copyBuffer    = 128 << 10
	maxNameBytes  = 4095
	maxNameLevels = 512
)

// unpacker unpacks one layer.
type unpacker struct {
	places
	limits Limits
	owners bool // we may give files away
	found  Changes

	implied map[string]bool
	links   map[string]string
	folders []folder // whose times are set at the end, since filling them changes those
	buffer  []byte
}

type folder struct {
	path string
	time time.Time
}

// unpack fills the root with what the stream holds.
func unpack(root int, stream io.Reader, limits Limits, owners bool) (*Changes, error) {
	u := &unpacker{
		places: places{root: root, cached: -1}, limits: limits, owners: owners,
		implied: map[string]bool{"": true}, links: map[string]string{}, buffer: make([]byte, copyBuffer),
	}
	defer u.forget()
	base, err := u.whereFrom(root)
	if err != nil {
		return nil, err
	}
	u.base = base
	plain, err := decompress(stream)
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	counted := &counted{from: plain, hash: sha256.New(), left: limits.Bytes + limits.Entries*1024}
	archive := tar.NewReader(counted)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("the archive cannot be read: %w", err)
		}
		if u.found.Entries++; u.found.Entries > limits.Entries {
			return nil, fmt.Errorf("there are more than %d entries, which is the limit", limits.Entries)
		}
		if err := u.entry(header, archive); err != nil {
			return nil, fmt.Errorf("entry %.200q: %w", header.Name, err)
		}
	}
	// What follows the archive's end belongs to the digest as well.
	if _, err := io.Copy(io.Discard, counted); err != nil {
		return nil, fmt.Errorf("the archive cannot be read: %w", err)
	}
	if _, err := io.Copy(io.Discard, stream); err != nil {
		return nil, err
	}
	u.found.DiffID = "sha256:" + hex.EncodeToString(counted.hash.Sum(nil))
	return u.finish()
}

// counted reads a stream, and knows how much it was and its digest.
type counted struct {
	from io.Reader
	hash hash.Hash
	left int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.hash.Write(p[:n])
	if c.left -= int64(n); c.left < 0 {
		return n, errors.New("it is larger than the limit")
	}
	return n, err
}

func (u *unpacker) finish() (*Changes, error) {
	for _, f := range slices.Backward(u.folders) {
		fd, err := openIn(u.root, f.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if err != nil {
			continue // Something else took its place later in the archive.
		}
		err = setTime(fd, ".", f.time)
		unix.Close(fd)
		if err != nil {
			return nil, fmt.Errorf("directory %.200q: %w", f.path, err)
		}
	}
	u.found.Implied = slices.Sorted(maps.Keys(u.implied))
	for _, path := range slices.Sorted(maps.Keys(u.links)) {
		u.found.Links = append(u.found.Links, Link{path, u.links[path]})
	}
	return &u.found, nil
}

// clean answers a name as the parts of a path below the root. Going up is refused, not tamed: only an archive that was
// made to do harm has such names.
func clean(name string) ([]string, error) {
	if len(name) > maxNameBytes || strings.ContainsRune(name, 0) {
		return nil, fmt.Errorf("a name has at most %d bytes and no NUL", maxNameBytes)
	}
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == ".":
		case part == "..":
			return nil, errors.New("the name goes up, out of the image")
		case len(part) > unix.NAME_MAX:
			return nil, fmt.Errorf("a part of the name has more than %d bytes", unix.NAME_MAX)
		default:
			parts = append(parts, part)
		}
	}
	if len(parts) > maxNameLevels {
		return nil, fmt.Errorf("the name has more than %d levels", maxNameLevels)
	}
	return parts, nil
}

func (u *unpacker) entry(header *tar.Header, content io.Reader) error {
	if header.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	parts, err := clean(header.Name)
	if err != nil {
		return err
	}
	if header.Uid < 0 || header.Gid < 0 || header.Uid > maxID || header.Gid > maxID {
		return fmt.Errorf("owner %d:%d is none", header.Uid, header.Gid)
	}
	if len(parts) == 0 {
		if header.Typeflag != tar.TypeDir {
			return errors.New("the root is a directory, and nothing else")
		}
		delete(u.implied, "")
		return u.describeFolder(u.root, ".", "", header)
	}
	parents, name := parts[:len(parts)-1], parts[len(parts)-1]
	for _, part := range parents {
		if strings.HasPrefix(part, whiteout) {
			return errors.New("a whiteout is no directory")
		}
	}
	if strings.HasPrefix(name, whiteout) {
		return u.whiteout(strings.Join(parents, "/"), name)
	}
	if header.Typeflag == tar.TypeChar || header.Typeflag == tar.TypeBlock {
		u.found.Devices++
		return nil
	}
	if header.Size > 0 {
		if u.found.Bytes += (header.Size + 4095) &^ 4095; header.Size > u.limits.Bytes || u.found.Bytes > u.limits.Bytes {
			return fmt.Errorf("with its %d bytes the layer is larger than %d, which is the limit", header.Size, u.limits.Bytes)
		}
	}
	parent, err := u.parent(parents)
	if err != nil {
		return err
	}
	return u.make(parent, name, header, content)
}

// whiteout notes what the layer takes away from those below. Nothing is removed here: what the same archive brings stays.
func (u *unpacker) whiteout(parent, name string) error {
	hidden := strings.TrimPrefix(name, whiteout)
	switch {
	case name == opaque:
		u.found.Opaques = append(u.found.Opaques, parent)
	case strings.HasPrefix(name, whiteoutOwn):
	case hidden == "" || hidden == "." || hidden == "..":
		return errors.New("a whiteout names what it hides")
	default:
		u.found.Whiteouts = append(u.found.Whiteouts, strings.TrimPrefix(parent+"/"+hidden, "/"))
	}
	return nil
}

// make makes one entry. The last one of a name counts, as in every archive.
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
			return errors.New("the link points nowhere")
		}
		err = u.anew(parent, name, func() error { return unix.Symlinkat(header.Linkname, parent, name) })
	case tar.TypeFifo:
		err = u.anew(parent, name, func() error { return unix.Mknodat(parent, name, unix.S_IFIFO|0o600, 0) })
	default:
		return fmt.Errorf("type %q is unknown", header.Typeflag)
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

// anew makes something where nothing is, or puts it in the place of what is there.
func (u *unpacker) anew(parent int, name string, make func() error) error {
	err := make()
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := u.remove(parent, name); err != nil {
		return err
	}
	return make()
}

// remove takes away what an earlier entry made. A parent that was kept open may be within it.
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
	if err := unix.Fstatat(parent, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil || stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		return err
	}
	return u.anew(parent, name, func() error { return unix.Mkdirat(parent, name, 0o755) })
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

// describe sets owner, mode and attributes, in this order: a change of owner clears bits of the mode.
func (u *unpacker) describe(fd int, header *tar.Header) error {
	if u.owners {
		if err := unix.Fchown(fd, header.Uid, header.Gid); err != nil {
			return fmt.Errorf("owner %d:%d: %w", header.Uid, header.Gid, err)
		}
	}
	if err := unix.Fchmod(fd, u.mode(header)); err != nil {
		return err
	}
	for record, value := range header.PAXRecords {
		name, isAttribute := strings.CutPrefix(record, xattrRecord)
		// Attributes of other name spaces command the kernel: overlay's redirections, capabilities, labels.
		if !isAttribute || !strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "user.overlay.") {
			continue
		}
		if err := unix.Fsetxattr(fd, name, []byte(value), 0); err != nil && err != unix.ENOTSUP && err != unix.EPERM {
			return fmt.Errorf("attribute %.100q: %w", name, err)
		}
	}
	return nil
}

// mode is an entry's mode. A file never gets the set-id bits: a container has no use for them, since nothing gains rights
// there, while on the machine itself they would be a door. Without root, files stay ours to read and remove.
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
		return fmt.Errorf("owner %d:%d: %w", header.Uid, header.Gid, err)
	}
	return nil
}

func (u *unpacker) file(parent int, name string, header *tar.Header, content io.Reader) error {
	fd := -1
	err := u.anew(parent, name, func() (err error) {
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

// fill writes a file's content. Where there is nothing but zeros it leaves a hole, so that a sparse file takes no more
// room than it did where it came from.
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
		err = fmt.Errorf("the archive ends after %d of its %d bytes", at, size)
	}
	if err == nil && size > 0 {
		err = file.Truncate(size)
	}
	return err
}

// link makes a hard link. Its target may be in a layer below, where this one cannot see it: then it is noted.
func (u *unpacker) link(parent int, name, path, target string) error {
	parts, err := clean(target)
	if err != nil || len(parts) == 0 {
		return fmt.Errorf("the hard link's target %.200q is none in the image", target)
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
			return u.anew(parent, name, func() error { return unix.Linkat(folder, last, parent, name, 0) })
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
