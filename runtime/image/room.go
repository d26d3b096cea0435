//go:build linux

package image

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/image/layer"
	"github.com/yi-json/synapse/runtime/reserve"
	"github.com/yi-json/synapse/runtime/tree"
)

// This file limits the disk space of images on the node. While an image is fetched and unpacked, a reserve stays free:
// a share of the disk, and the space reserved for tasks. Unused images are removed first. If that is not enough, the
// new image is given up, and its job gets an error. No other job is affected.

// lookEvery is the minimum interval between two checks of newly reserved space.
const lookEvery = 100 * time.Millisecond

// KeepFree sets the function that returns the disk space reserved for tasks.
func (s *Store) KeepFree(promised func() tree.Usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.promised = promised
}

// space returns the disk, and the part that must stay free of images.
func (s *Store) space() (disk reserve.Disk, least tree.Usage, err error) {
	if disk, err = reserve.Of(s.dir); err != nil {
		return disk, least, err
	}
	least = disk.Share(reserve.Pulls)
	s.mu.Lock()
	promised := s.promised
	s.mu.Unlock()
	if promised != nil {
		least = least.Plus(promised())
	}
	return disk, least, nil
}

// fullError reports an image that was given up.
type fullError struct {
	unpacked int64 // bytes of the image at that time
	free     int64
	least    int64
}

func (e *fullError) Error() string {
	return fmt.Sprintf("the image does not fit on this node's disk: after %s of it, %s were free, and the node keeps "+
		"%s free for tasks; use a smaller image, or ask an operator to free disk space",
		mib(e.unpacked), mib(e.free), mib(e.least))
}

func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// makeRoom removes unused images until a new one may use more space. It returns the space that must stay free.
func (s *Store) makeRoom(ctx context.Context) (least tree.Usage, err error) {
	for {
		disk, least, err := s.space()
		if err != nil || !disk.Lacks(least) {
			return least, err
		}
		gone, err := s.evict(ctx)
		switch {
		case err != nil:
			return least, err
		case gone:
		case disk.Lacks(disk.Share(reserve.Tasks)): // the launcher frees space, or reports who filled the disk
			return least, fmt.Errorf("this node's disk is nearly full: %w", unix.ENOSPC)
		default:
			return least, &layer.FullError{Free: disk.Free.Bytes, Least: least.Bytes}
		}
	}
}

// within returns the limits of an image that leaves this much free.
func (s *Store) within(least tree.Usage) layer.Limits {
	limits := s.unpacker.Limits
	limits.FreeBytes, limits.FreeFiles = least.Bytes, least.Files
	return limits
}

// Evict removes unused images until enough returns true. The image unused for longest is removed first.
func (s *Store) Evict(enough func() bool) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.jobs.Done()
	for !enough() {
		if gone, err := s.evict(s.base); err != nil || !gone {
			return err
		}
	}
	return nil
}

// evict removes one unused image, or layers without an image, and reports whether there was any.
func (s *Store) evict(ctx context.Context) (bool, error) {
	swept, err := s.remove(ctx, 0, func(so Swept) bool { return so.Layers+len(so.Images) > 0 })
	s.tell(swept)
	return swept.Layers+len(swept.Images) > 0, err
}

// dropUnneeded removes the layers of an image that was given up.
func (s *Store) dropUnneeded(ctx context.Context) {
	swept, err := s.remove(ctx, never, func(Swept) bool { return false })
	if err != nil && ctx.Err() == nil {
		s.o.Log.Info("Some layers of an image that did not fit cannot be removed: %v", err)
	}
	s.tell(swept)
}

// full completes the error of an image that was given up. Other errors are returned unchanged.
func (s *Store) full(err error, blobs []blob) error {
	stopped := new(layer.FullError)
	if !errors.As(err, &stopped) {
		return err
	}
	given := &fullError{unpacked: stopped.Written, free: stopped.Free, least: stopped.Least}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, blob := range blobs {
		given.unpacked += s.present[blob.diffID.Hex]
	}
	return given
}

// watched returns a context that ends if space is reserved for a task that the disk no longer has. The process that
// unpacks knows only the reservations at its start.
func (s *Store) watched(ctx context.Context, since tree.Usage) (context.Context, context.CancelFunc) {
	within, stop := context.WithCancelCause(ctx)
	go func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-within.Done():
				return
			case <-tick.C:
			}
			if disk, least, err := s.space(); err == nil && least != since && disk.Lacks(least) {
				stop(&layer.FullError{Free: disk.Free.Bytes, Least: least.Bytes})
			}
		}
	}()
	return within, func() { stop(nil) }
}
