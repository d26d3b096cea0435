//go:build linux

package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/hostpath"
	"github.com/yi-json/synapse/runtime/image/squash"
)

// This file reads SquashFS images, such as those of enroot. An image becomes a layer: its files are written as a tar
// archive, which is unpacked like any other layer. The archive is written twice. The first time, only its digest is
// computed, because the layer is stored by this digest, and a user may change the file meanwhile.

const (
	// environmentFile has the environment of an image that enroot has converted.
	environmentFile = "etc/environment"
	maxEnvironment  = 64 << 10
	// maxRemembered limits the files whose digest is remembered.
	maxRemembered = 1024
)

// fileState identifies the content of a file. A change of the file changes its ctime, which a user cannot set.
type fileState struct {
	device, inode uint64
	size          int64
	changed       unix.Timespec
}

// squashed returns the file of a reference if it is a SquashFS image, or nil. The caller closes the file.
func squashed(ref reference, visitor hostpath.Visitor) (*os.File, error) {
	file, err := visitor.File(hostpath.Named(ref.path))
	if err != nil || squash.Is(file) {
		return file, err
	}
	return nil, file.Close()
}

// fetchSquashed ensures that the image of a file is in the store, and returns the key of its record.
func (s *Store) fetchSquashed(ctx context.Context, ref reference, file *os.File) (string, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return "", err
	}
	state := fileState{stat.Dev, stat.Ino, stat.Size, stat.Ctim}
	s.mu.Lock()
	key := s.squashed[state]
	known := s.records[key] != nil
	s.mu.Unlock()
	if known {
		return key, nil
	}
	image, err := s.squash(ctx, file, stat.Size)
	if err != nil {
		return "", fmt.Errorf("%s: %w", ref.path, err)
	}
	if key, err = s.pull(ctx, ref, image); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.squashed) >= maxRemembered {
		clear(s.squashed)
	}
	s.squashed[state] = key
	return key, nil
}

// squash describes a SquashFS image as an image with one layer.
func (s *Store) squash(ctx context.Context, file *os.File, size int64) (*found, error) {
	digest := sha256.New()
	counted := &counter{ctx: ctx, to: digest, left: s.o.ImageBytes}
	image := &found{}
	err := s.archive(file, size, counted, func(name string, content io.Reader) io.Reader {
		if name != environmentFile {
			return content
		}
		text, err := io.ReadAll(io.LimitReader(content, maxEnvironment))
		if err == nil {
			image.config.Env = environmentOf(string(text))
		}
		return io.MultiReader(bytes.NewReader(text), content)
	})
	if err != nil {
		return nil, err
	}
	diffID := hex.EncodeToString(digest.Sum(nil))
	key := sha256.Sum256([]byte("squashfs " + diffID))
	image.key = v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(key[:])}
	image.layers = []blob{{
		descriptor: v1.Descriptor{Size: counted.done}, diffID: v1.Hash{Algorithm: "sha256", Hex: diffID},
		open: func(ctx context.Context) (io.ReadCloser, error) {
			from, to := io.Pipe()
			go func() {
				to.CloseWithError(s.archive(file, size, &counter{ctx: ctx, to: to, left: counted.done}, nil))
			}()
			return from, nil
		},
	}}
	return image, nil
}

// archive writes the files of a SquashFS image as a tar archive. A user supplies the image, so a panic is an error of
// the image, and the agent continues.
func (s *Store) archive(file *os.File, size int64, to io.Writer, seen func(string, io.Reader) io.Reader) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			s.o.Log.Info("Reading a SquashFS image failed: %v", reason)
			err = fmt.Errorf("the SquashFS image cannot be read")
		}
	}()
	image, err := squash.Open(file, size)
	if err != nil {
		return err
	}
	return image.Tar(to, s.unpacker.Limits.Entries, seen)
}

// counter counts the bytes of an archive, and stops at a limit or at the end of a context.
type counter struct {
	ctx        context.Context
	to         io.Writer
	done, left int64
}

func (c *counter) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	if c.left -= int64(len(p)); c.left < 0 {
		return 0, fmt.Errorf("the unpacked image has more than %d bytes, this node's limit", c.done)
	}
	n, err := c.to.Write(p)
	c.done += int64(n)
	return n, err
}

// environmentOf returns the lines NAME=value of a file.
func environmentOf(text string) (env []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		name, _, is := strings.Cut(line, "=")
		if is && name != "" && !strings.ContainsAny(name, "# \t\"'") && !strings.ContainsRune(line, 0) {
			env = append(env, line)
		}
	}
	return env
}
