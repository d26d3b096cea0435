//go:build linux

package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/hostpath"
	"github.com/yi-json/synapse/runtime/image/layer"
	"github.com/yi-json/synapse/runtime/tree"
)

// This file turns a reference into a complete rootfs. A layer is streamed from its source into the process that unpacks
// it, and is hashed meanwhile. Nothing is written twice, and content with a wrong digest is discarded before it is
// used.

const (
	maxPulls = 8 // layers of one image at the same time
	attempts = 3 // for one layer, if its source breaks off
)

// fetch ensures that an image is in the store, and returns the key of its record.
func (s *Store) fetch(ctx context.Context, ref reference, visitor hostpath.Visitor) (string, error) {
	// An image from a repository is available to every job that names this repository, because all jobs use the
	// node's login there. A job that names another repository must find the image there. An image from a file is
	// available only to users who can read the file.
	if key := s.known(ref.digest()); key != "" && s.pulledFrom(key, ref) {
		return key, nil
	}
	switch ref.kind {
	case kindLayout:
		image, err := resolveLayout(ctx, ref, visitor)
		if err != nil {
			return "", err
		}
		return s.pull(ctx, ref, image)
	case kindPath:
		if file, err := squashed(ref, visitor); file != nil || err != nil {
			if err != nil {
				return "", err
			}
			defer file.Close()
			return s.fetchSquashed(ctx, ref, file)
		}
		archive, err := openArchive(ref.path, visitor)
		if err != nil {
			return "", err
		}
		defer archive.Close()
		image, err := archive.resolve(ctx)
		if err != nil {
			return "", err
		}
		return s.pull(ctx, ref, image)
	}
	registry, err := s.openRegistry(ref)
	if err != nil {
		return "", err
	}
	// The registry has not yet confirmed the digest of the reference.
	if digest, err := registry.digest(ctx, ref); err == nil && digest != ref.digest() {
		if key := s.known(digest); key != "" && s.pulledFrom(key, ref) { // a digest proves nothing elsewhere
			return key, nil
		}
	}
	image, err := registry.resolve(ctx, ref)
	if err != nil {
		return "", err
	}
	return s.pull(ctx, ref, image)
}

// known returns the key of the record for a digest.
func (s *Store) known(digest string) string {
	if digest == "" {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, record := range s.records {
		if record.Digest == digest || slices.Contains(record.Aliases, digest) {
			return key
		}
	}
	return ""
}

// pulledFrom reports whether a record's image came from the repository of a reference.
func (s *Store) pulledFrom(key string, ref reference) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	record := s.records[key]
	if record == nil || ref.kind != kindRegistry {
		return false
	}
	from, err := parse(record.Ref)
	return err == nil && from.kind == kindRegistry && from.registry.Context() == ref.registry.Context()
}

// pull makes an image whose parts are known, once for all callers and names.
func (s *Store) pull(ctx context.Context, ref reference, image *found) (string, error) {
	key := image.key.Algorithm + "-" + image.key.Hex
	if s.known(image.key.String()) != "" {
		return key, nil
	}
	_, err := s.pulls.do(ctx, key, func(ctx context.Context) (struct{}, error) {
		if s.known(image.key.String()) != "" { // another caller made it meanwhile
			return struct{}{}, nil
		}
		return struct{}{}, s.make(ctx, ref, key, image)
	})
	return key, err
}

// make fetches the layers and assembles the rootfs.
func (s *Store) make(ctx context.Context, ref reference, key string, image *found) error {
	began := time.Now()
	one := &record{Digest: image.key.String(), Ref: ref.text, Config: image.config, Layers: []string{}}
	for _, alias := range image.aliases {
		one.Aliases = append(one.Aliases, alias.String())
	}
	for _, blob := range image.layers {
		one.Layers = append(one.Layers, blob.diffID.Hex)
	}
	fetched, fresh, err := s.assemble(ctx, key, one, image)
	if err != nil {
		if full := new(fullError); errors.As(err, &full) {
			s.dropUnneeded(ctx)
		}
		return err
	}
	s.o.Log.Info("Image %s is %s: %d layers, %d of them new, %.1f MiB fetched, ready in %v",
		ref.text, one.Digest, len(image.layers), fresh, float64(fetched)/(1<<20), time.Since(began).Round(time.Millisecond))
	s.sweep()
	return nil
}

// assemble makes an image from its layers and moves it to its final name.
func (s *Store) assemble(ctx context.Context, key string, one *record, image *found) (fetched int64, fresh int,
	err error) {
	s.keep(one.Layers, 1)
	defer s.keep(one.Layers, -1)
	if fetched, fresh, err = s.getLayers(ctx, image.layers); err != nil {
		return 0, 0, s.full(err, image.layers)
	}
	if err := s.join(ctx, key, one); err != nil {
		return 0, 0, s.full(err, image.layers)
	}
	s.mu.Lock()
	s.records[key] = one
	s.use(key, one)
	s.mu.Unlock()
	return fetched, fresh, nil
}

// join assembles a rootfs from layers in the store.
func (s *Store) join(ctx context.Context, key string, one *record) error {
	least, err := s.makeRoom(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(s.path(workDir), "image-")
	if err != nil {
		return err
	}
	defer tree.Remove(dir)
	var layers []string
	for _, name := range one.Layers {
		layers = append(layers, s.path(layersDir, name))
	}
	if err := layer.Assemble(ctx, layers, filepath.Join(dir, rootfsDir), s.within(least)); err != nil {
		return err
	}
	text, err := json.Marshal(one)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, recordFile), text, 0o600); err != nil {
		return err
	}
	return s.publish(dir, s.path(imagesDir, key))
}

// keep counts the pulls that need some layers.
func (s *Store) keep(layers []string, more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range layers {
		if s.busy[name] += more; s.busy[name] == 0 {
			delete(s.busy, name)
		}
	}
}

// getLayers fetches all layers of an image, several at a time.
func (s *Store) getLayers(ctx context.Context, blobs []blob) (fetched int64, fresh int, err error) {
	promised := int64(0)
	for _, blob := range blobs {
		if promised += max(0, blob.descriptor.Size); promised > s.o.ImageBytes {
			return 0, 0, fmt.Errorf("the image has more than %d bytes, this node's limit", s.o.ImageBytes)
		}
	}
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(min(runtime.GOMAXPROCS(0)+1, maxPulls))
	var bytes, made atomic.Int64
	for _, blob := range blobs {
		group.Go(func() error {
			isNew, err := s.layers.do(within, blob.diffID.Hex,
				func(ctx context.Context) (bool, error) { return s.getLayer(ctx, blob) })
			if err != nil {
				return fmt.Errorf("layer %s: %w", blob, err)
			}
			if isNew {
				bytes.Add(blob.descriptor.Size)
				made.Add(1)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, 0, err
	}
	return bytes.Load(), int(made.Load()), s.checkSize(blobs)
}

// checkSize refuses an image that is too large after unpacking.
func (s *Store) checkSize(blobs []blob) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := int64(0)
	for _, blob := range blobs {
		if total += s.present[blob.diffID.Hex]; total > s.o.ImageBytes {
			return fmt.Errorf("the unpacked image has more than %d bytes, this node's limit", s.o.ImageBytes)
		}
	}
	return nil
}

// getLayer fetches one layer if it is missing, and reports whether it was missing.
func (s *Store) getLayer(ctx context.Context, blob blob) (bool, error) {
	s.mu.Lock()
	_, present := s.present[blob.diffID.Hex]
	s.mu.Unlock()
	if present {
		return false, nil
	}
	for attempt := 1; ; attempt++ {
		err := s.tryLayer(ctx, blob)
		if err != nil && layer.IsFull(err) && ctx.Err() == nil {
			if gone, _ := s.evict(ctx); gone { // the number of idle images is limited
				attempt--
				continue
			}
		}
		if err == nil || attempt == attempts || ctx.Err() != nil || !errors.Is(err, errBroken) {
			return true, err
		}
	}
}

// errBroken reports a source that broke off. Another try may succeed.
var errBroken = errors.New("the transfer broke off")

func (s *Store) tryLayer(ctx context.Context, blob blob) error {
	least, err := s.makeRoom(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(s.path(workDir), "layer-")
	if err != nil {
		return err
	}
	defer tree.Remove(dir)
	within, end := s.watched(ctx, least)
	defer end()
	stream, err := blob.open(within)
	if err != nil {
		return err
	}
	defer stream.Close()
	checked, err := check(stream, blob.descriptor)
	if err != nil {
		return err
	}
	unpacker := s.unpacker
	unpacker.Limits = s.within(least)
	changes, err := unpacker.Unpack(within, checked, dir)
	switch full := context.Cause(within); {
	case ctx.Err() != nil:
		return ctx.Err()
	case full != nil:
		return full
	case err != nil && layer.IsFull(err): // the rest of the stream is not read, because it may be long or never arrive
		end()
		return err
	}
	// The digest is checked first, because tampered content probably fails to unpack too.
	if wrong := checked.verdict(); wrong != nil {
		return wrong
	}
	if err != nil {
		return err
	}
	if changes.DiffID != blob.diffID.String() {
		return fmt.Errorf("the unpacked layer has the digest %s, not %s as in the image's config: %w",
			changes.DiffID, blob.diffID, errTampered)
	}
	if changes.Devices > 0 {
		s.o.Log.Debug("Layer %s: %d device nodes are omitted", blob, changes.Devices)
	}
	if err := s.publish(dir, s.path(layersDir, blob.diffID.Hex)); err != nil {
		return err
	}
	s.mu.Lock()
	s.present[blob.diffID.Hex] = changes.Bytes
	s.mu.Unlock()
	return nil
}

// publish moves a result to its final name. Content with a final name must be complete on disk, so publish syncs first.
// One sync of the file system is far cheaper than one per file.
func (s *Store) publish(from, to string) error {
	if err := unix.Syncfs(int(s.lock.Fd())); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	err := os.Rename(from, to)
	if errors.Is(err, fs.ErrExist) {
		return nil // An earlier attempt that all callers gave up has succeeded; its result is the same.
	}
	return err
}

// checked reads a blob and checks its size and digest.
type checked struct {
	from   io.Reader
	wanted v1.Descriptor
	hasher hash.Hash // nil: no digest is expected
	read   int64
	broke  error
}

func check(from io.Reader, wanted v1.Descriptor) (*checked, error) {
	c := &checked{from: from, wanted: wanted}
	if wanted.Digest.Hex == "" {
		return c, nil
	}
	var err error
	c.hasher, err = v1.Hasher(wanted.Digest.Algorithm)
	return c, err
}

func (c *checked) Read(p []byte) (int, error) {
	// Reading one byte more than expected detects a longer blob.
	n, err := c.from.Read(p[:min(int64(len(p)), max(0, c.wanted.Size+1-c.read))])
	c.read += int64(n)
	if c.hasher != nil {
		c.hasher.Write(p[:n])
	}
	if c.read > c.wanted.Size {
		return n, io.EOF
	}
	if err != nil && !errors.Is(err, io.EOF) {
		c.broke = err
	}
	return n, err
}

// verdict reads the rest, and returns an error if the content is wrong.
func (c *checked) verdict() error {
	_, err := io.Copy(io.Discard, c)
	switch {
	case c.read > c.wanted.Size:
		return fmt.Errorf("the content is longer than its %d bytes: %w", c.wanted.Size, errTampered)
	case c.read < c.wanted.Size && c.broke == nil:
		return fmt.Errorf("%w after %d of its %d bytes", errBroken, c.read, c.wanted.Size)
	case c.read < c.wanted.Size:
		return fmt.Errorf("%w after %d of its %d bytes: %w", errBroken, c.read, c.wanted.Size, c.broke)
	case c.hasher != nil && fmt.Sprintf("%x", c.hasher.Sum(nil)) != c.wanted.Digest.Hex:
		return errTampered
	case c.hasher == nil && err != nil:
		return err
	}
	return nil
}
