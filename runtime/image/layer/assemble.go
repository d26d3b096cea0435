//go:build linux

package layer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// This file assembles a rootfs from layers. A rootfs has hard links to the layers' files. It uses disk space only for
// its directories, and images share common files. Overlay could stack the layers instead. But an overlay mount must be
// kept while it is in use, even after the agent's end, and a directory needs no such care.
//
// The walk uses descriptors and single names, and follows no link, because the names come from an untrusted image.

// maxDepth bounds the descriptors that a walk keeps open, two per level.
const maxDepth = 2048

// assembly is one rootfs that is being assembled.
type assembly struct {
	ctx     context.Context
	root    int
	owners  bool
	implied map[string]bool
	meter   *meter
}

// Assemble makes a rootfs from unpacked layers, lowest first. Of the limits, only the free space of the disk applies,
// because a rootfs consists of links.
func Assemble(ctx context.Context, layers []string, rootfs string, limits Limits) error {
	if err := os.Mkdir(rootfs, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(rootfs, 0o755); err != nil { // regardless of the agent's umask
		return err
	}
	root, err := unix.Open(rootfs, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	a := &assembly{ctx: ctx, root: root, owners: os.Geteuid() == 0, meter: &meter{fd: root, least: limits.least()}}
	for _, dir := range layers {
		changes, err := Read(dir)
		if err != nil {
			return err
		}
		if err := a.add(changes, filepath.Join(dir, filesDir)); err != nil {
			return fmt.Errorf("layer %s: %w", filepath.Base(dir), err)
		}
	}
	return nil
}

// add adds one layer on top of the earlier ones. It first applies the layer's removals, and then adds the layer's
// files.
func (a *assembly) add(changes *Changes, files string) error {
	for _, path := range changes.Opaques {
		if err := a.empty(path); err != nil {
			return fmt.Errorf("opaque directory %.200q: %w", path, err)
		}
	}
	for _, path := range changes.Whiteouts {
		if err := a.hide(path); err != nil {
			return fmt.Errorf("whiteout of %.200q: %w", path, err)
		}
	}
	a.implied = map[string]bool{}
	for _, path := range changes.Implied {
		a.implied[path] = true
	}
	source, err := unix.Open(files, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	target, err := unix.Openat(a.root, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		unix.Close(source)
		return err
	}
	if err := a.folder(source, target, "", !a.implied[""], 0); err != nil {
		return err
	}
	for _, link := range changes.Links {
		if err := a.link(link); err != nil {
			return fmt.Errorf("hard link %.200q to %.200q: %w", link.Path, link.Target, err)
		}
	}
	return nil
}

func (a *assembly) empty(path string) error {
	fd, err := openIn(a.root, path, unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, fs.ErrNotExist) || err == unix.ENOTDIR {
		return nil
	}
	if err != nil {
		return err
	}
	return emptyFolder(fd)
}

func (a *assembly) hide(path string) error {
	folder, name := filepath.Split(path)
	fd, err := openIn(a.root, folder, unix.O_PATH|unix.O_DIRECTORY)
	if err == nil {
		defer unix.Close(fd)
		err = removeAt(fd, name)
	}
	if errors.Is(err, fs.ErrNotExist) || err == unix.ENOTDIR {
		return nil // Some builders hide files that do not exist.
	}
	return err
}

// folder merges one directory into another, and closes both. If described is true, the target gets the attributes of
// the source.
func (a *assembly) folder(source, target int, path string, described bool, depth int) error {
	defer unix.Close(target)
	from := os.NewFile(uintptr(source), path)
	defer from.Close()
	if depth > maxDepth {
		return fmt.Errorf("%.200q is more than %d directories deep", path, maxDepth)
	}
	for {
		entries, err := from.ReadDir(1024)
		for _, entry := range entries {
			if err := a.entry(source, target, strings.TrimPrefix(path+"/"+entry.Name(), "/"), entry, depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := a.ctx.Err(); err != nil {
			return err
		}
	}
	if !described {
		return nil
	}
	return a.describe(source, target)
}

func (a *assembly) entry(source, target int, path string, entry fs.DirEntry, depth int) error {
	name := entry.Name()
	err := a.meter.entry()
	if err != nil {
		return err
	}
	if !entry.IsDir() {
		if err = a.place(source, target, name); err != nil {
			return fmt.Errorf("%.200q: %w", path, err)
		}
		return nil
	}
	inner, err := unix.Openat(source, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%.200q: %w", path, err)
	}
	outer, made, err := a.openFolder(target, name, path)
	if err != nil {
		unix.Close(inner)
		return fmt.Errorf("%.200q: %w", path, err)
	}
	return a.folder(inner, outer, path, made || !a.implied[path], depth+1)
}

// openFolder opens the target directory for a directory of the layer. If the layer only implies the directory, a link
// to a directory in lower layers takes its place. The archive contained lib/x and meant the directory that lib leads
// to.
func (a *assembly) openFolder(target int, name, path string) (fd int, made bool, err error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	err = unix.Mkdirat(target, name, 0o755)
	if errors.Is(err, fs.ErrExist) {
		fd, err = unix.Openat(target, name, flags, 0)
		if err == nil || err != unix.ENOTDIR && err != unix.ELOOP {
			return fd, false, err
		}
		if a.implied[path] {
			if fd, err := openIn(a.root, path, unix.O_RDONLY|unix.O_DIRECTORY); err == nil {
				return fd, false, tooDeep(fd)
			}
		}
		if err = removeAt(target, name); err == nil {
			err = unix.Mkdirat(target, name, 0o755)
		}
	}
	if err != nil {
		return -1, false, err
	}
	fd, err = unix.Openat(target, name, flags, 0)
	return fd, true, err
}

// tooDeep refuses a directory reached by links if its path exceeds the kernel's limit. Such a directory could never be
// removed.
func tooDeep(fd int) error {
	where, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err == nil && len(where) > maxNameBytes {
		err = unix.ENAMETOOLONG
	}
	if err != nil {
		unix.Close(fd)
	}
	return err
}

// place links a file of the layer to its name in the rootfs.
func (a *assembly) place(source, target int, name string) error {
	err := unix.Linkat(source, name, target, name, 0)
	if errors.Is(err, fs.ErrExist) {
		if err = removeAt(target, name); err == nil {
			err = unix.Linkat(source, name, target, name, 0)
		}
	}
	switch err {
	case unix.EMLINK, unix.EPERM, unix.ENOTSUP, unix.EXDEV:
		// The file has the maximum number of links, or the file system has no hard links.
		return a.copy(source, target, name)
	}
	return err
}

// link makes a hard link to a file of a lower layer.
func (a *assembly) link(link Link) error {
	fromDir, from := filepath.Split(link.Target)
	source, err := openIn(a.root, fromDir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(source)
	toDir, to := filepath.Split(link.Path)
	target, err := openIn(a.root, toDir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	if same(source, from, target, to) {
		return nil
	}
	err = unix.Linkat(source, from, target, to, 0)
	if errors.Is(err, fs.ErrExist) {
		if err = removeAt(target, to); err == nil {
			err = unix.Linkat(source, from, target, to, 0)
		}
	}
	return err
}

// copy copies a file that cannot be linked.
func (a *assembly) copy(source, target int, name string) error {
	var stat unix.Stat_t
	if err := unix.Fstatat(source, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	changed := time.Unix(stat.Mtim.Unix())
	var err error
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return a.copyFile(source, target, name)
	case unix.S_IFLNK:
		buffer := make([]byte, maxNameBytes+1)
		n, wrong := unix.Readlinkat(source, name, buffer)
		if wrong != nil {
			return wrong
		}
		err = unix.Symlinkat(string(buffer[:n]), target, name)
	default:
		err = unix.Mknodat(target, name, unix.S_IFIFO|stat.Mode&0o777, 0)
	}
	if err == nil && a.owners {
		err = unix.Fchownat(target, name, int(stat.Uid), int(stat.Gid), unix.AT_SYMLINK_NOFOLLOW)
	}
	if err == nil {
		err = setTime(target, name, changed)
	}
	return err
}

func (a *assembly) copyFile(source, target int, name string) error {
	from, err := unix.Openat(source, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	in := os.NewFile(uintptr(from), name)
	defer in.Close()
	to, err := unix.Openat(target, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	out := os.NewFile(uintptr(to), name)
	defer out.Close()
	if _, err := io.Copy(metered{out, a.meter}, in); err != nil {
		return err
	}
	return a.describe(from, to)
}

// metered writes to a file and counts the bytes.
type metered struct {
	to    io.Writer
	meter *meter
}

func (m metered) Write(p []byte) (int, error) {
	n, err := m.to.Write(p)
	if err == nil {
		err = m.meter.wrote(int64(n))
	}
	return n, err
}

// describe copies owner, mode, user attributes and time from one file or directory to another.
func (a *assembly) describe(source, target int) error {
	var stat unix.Stat_t
	if err := unix.Fstat(source, &stat); err != nil {
		return err
	}
	if a.owners {
		if err := unix.Fchown(target, int(stat.Uid), int(stat.Gid)); err != nil {
			return err
		}
	}
	if err := unix.Fchmod(target, stat.Mode&0o7777); err != nil {
		return err
	}
	names := make([]byte, 64<<10)
	n, err := unix.Flistxattr(source, names)
	if err != nil {
		n = 0 // The file system has no attributes.
	}
	for name := range strings.SplitSeq(string(names[:n]), "\x00") {
		if !strings.HasPrefix(name, "user.") {
			continue
		}
		value := make([]byte, 64<<10)
		size, err := unix.Fgetxattr(source, name, value)
		if err == nil {
			err = unix.Fsetxattr(target, name, value[:size], 0)
		}
		if err != nil {
			return fmt.Errorf("attribute %.100q: %w", name, err)
		}
	}
	return setTime(target, "", time.Unix(stat.Mtim.Unix()))
}
