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
	"maps"
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
	meter  *meter
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
func unpack(root int, stream io.Reader, limits Limits, owners bool, meter *meter) (*Changes, error) {
	u := &unpacker{
		places: places{root: root, cached: -1}, limits: limits, owners: owners, meter: meter,
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
	counted := &countingReader{from: plain, hash: sha256.New(), left: limits.Bytes + limits.Entries*1024}
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
		if err := meter.entry(); err != nil {
			return nil, err
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

// countingReader reads a stream, and knows how much it was and its digest.
type countingReader struct {
	from io.Reader
	hash hash.Hash
	left int64
}

func (c *countingReader) Read(p []byte) (int, error) {
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

// whiteout notes what the layer takes away from those below. Nothing is removed here: what the same archive brings
// stays.
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
