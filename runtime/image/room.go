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

// This file owns what of the node's disk images may take. Before an image is fetched and while it is unpacked, a
// reserve stays free: a part of the disk, and what is promised to tasks. Images that nobody uses go first; if that is
// not enough, the image that asked for room is given up, and the job that named it is told so. Nobody else pays for it.

// lookEvery is the least time between two looks at what was promised to tasks meanwhile.
const lookEvery = 100 * time.Millisecond

// KeepFree tells the store what of the disk is promised to tasks.
func (s *Store) KeepFree(promised func() tree.Usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.promised = promised
}

// space is the disk, and what of it must stay free of images.
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

// fullError is why an image was given up.
type fullError struct {
	unpacked int64 // bytes of the image by then
	free     int64
	least    int64
}

func (e *fullError) Error() string {
	return fmt.Sprintf("it does not fit on this node's disk: after %s of it %s were free, and the node keeps %s free "+
		"for tasks; name a smaller image, or have room made on the node", mib(e.unpacked), mib(e.free), mib(e.least))
}

func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// makeRoom removes images that nobody uses until a new one may take more. It returns what must stay free.
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
		case disk.Lacks(disk.Share(reserve.Tasks)): // whoever filled it: the launcher makes room, or says who did
			return least, fmt.Errorf("this node's disk is nearly full: %w", unix.ENOSPC)
		default:
			return least, &layer.FullError{Free: disk.Free.Bytes, Least: least.Bytes}
		}
	}
}

// within are the limits of an image where so much must stay free.
func (s *Store) within(least tree.Usage) layer.Limits {
	limits := s.unpacker.Limits
	limits.FreeBytes, limits.FreeFiles = least.Bytes, least.Files
	return limits
}

// Evict removes images that nobody uses, the one unused for longest first, until enough reports that there is room.
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

// evict removes one image that nobody uses, or layers that belong to none, and reports whether there was any.
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

// full adds up an image that was given up. Other errors stay as they are.
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

// watched ends what it returns a context for when room is promised to a task meanwhile that the disk no longer has: the
// process that unpacks knows only what was promised when it began.
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
