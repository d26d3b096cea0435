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

// This file turns an archive into files. A malicious archive may try to reach files outside of the directory, so no
// name is ever joined to a host path. The kernel opens each parent directory within the root (place.go). The file is
// made relative to that descriptor, without following links.

const (
	whiteout      = ".wh."
	whiteoutOwn   = ".wh..wh." // reserved by aufs
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
	owners bool // the process may change owners
	found  Changes

	implied map[string]bool
	links   map[string]string
	folders []folder // their times are set at the end, because new files change them
	buffer  []byte
}

type folder struct {
	path string
	time time.Time
}

// unpack unpacks the stream into the root.
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
			return nil, fmt.Errorf("the layer has more than %d entries, the limit", limits.Entries)
		}
		if err := meter.entry(); err != nil {
			return nil, err
		}
		if err := u.entry(header, archive); err != nil {
			return nil, fmt.Errorf("entry %.200q: %w", header.Name, err)
		}
	}
	// Data after the archive's end counts for the digest too.
	if _, err := io.Copy(io.Discard, counted); err != nil {
		return nil, fmt.Errorf("the archive cannot be read: %w", err)
	}
	if _, err := io.Copy(io.Discard, stream); err != nil {
		return nil, err
	}
	u.found.DiffID = "sha256:" + hex.EncodeToString(counted.hash.Sum(nil))
	return u.finish()
}

// countingReader reads a stream, limits its size and computes its digest.
type countingReader struct {
	from io.Reader
	hash hash.Hash
	left int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.hash.Write(p[:n])
	if c.left -= int64(n); c.left < 0 {
		return n, errors.New("the stream is larger than the limit")
	}
	return n, err
}

func (u *unpacker) finish() (*Changes, error) {
	for _, f := range slices.Backward(u.folders) {
		fd, err := openIn(u.root, f.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if err != nil {
			continue // A later entry replaced it.
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

// clean splits a name into the parts of a path below the root. It refuses names with .., because only malicious
// archives have them.
func clean(name string) ([]string, error) {
	if len(name) > maxNameBytes || strings.ContainsRune(name, 0) {
		return nil, fmt.Errorf("the name has a NUL or more than %d bytes", maxNameBytes)
	}
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == ".":
		case part == "..":
			return nil, errors.New("the name leads out of the image")
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
		return fmt.Errorf("the owner %d:%d is invalid", header.Uid, header.Gid)
	}
	if len(parts) == 0 {
		if header.Typeflag != tar.TypeDir {
			return errors.New("the root must be a directory")
		}
		delete(u.implied, "")
		return u.describeFolder(u.root, ".", "", header)
	}
	parents, name := parts[:len(parts)-1], parts[len(parts)-1]
	for _, part := range parents {
		if strings.HasPrefix(part, whiteout) {
			return errors.New("a whiteout cannot be a directory")
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
			return fmt.Errorf("its %d bytes put the layer above the limit of %d bytes", header.Size, u.limits.Bytes)
		}
	}
	parent, err := u.parent(parents)
	if err != nil {
		return err
	}
	return u.make(parent, name, header, content)
}

// whiteout records a path that the layer removes from lower layers. It removes nothing here, because files of the same
// archive stay.
func (u *unpacker) whiteout(parent, name string) error {
	hidden := strings.TrimPrefix(name, whiteout)
	switch {
	case name == opaque:
		u.found.Opaques = append(u.found.Opaques, parent)
	case strings.HasPrefix(name, whiteoutOwn):
	case hidden == "" || hidden == "." || hidden == "..":
		return errors.New("the whiteout has no name")
	default:
		u.found.Whiteouts = append(u.found.Whiteouts, strings.TrimPrefix(parent+"/"+hidden, "/"))
	}
	return nil
}
