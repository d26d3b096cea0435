//go:build linux

package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/yi-json/synapse/runtime/tree"
)

// This file removes images if the store is too large. An image with a holder stays, and so does one that was used
// recently. Of the others, the one unused for longest is removed first. A layer is removed if no image has it and no
// pull needs it. Content loses its name at once, under the lock, and its files later. A concurrent pull therefore never
// sees partial content.

// Swept lists the images that GC removed.
type Swept struct {
	Images []string // digests
	Layers int
	Bytes  int64 // of the layers; a rootfs consists of links to them
}

// GC removes images until the store is within its limit.
func (s *Store) GC(ctx context.Context) (Swept, error) {
	if err := s.begin(); err != nil {
		return Swept{}, err
	}
	defer s.jobs.Done()
	if s.o.MaxBytes < 0 {
		return s.remove(ctx, never, func(Swept) bool { return true })
	}
	return s.remove(ctx, s.o.MinUnused, func(Swept) bool { return s.total() <= s.o.MaxBytes })
}

// never is longer than the unused time of any image.
const never = time.Duration(math.MaxInt64)

// remove removes layers without an image, and images that were unused for this time, until enough returns true.
func (s *Store) remove(ctx context.Context, unused time.Duration, enough func(Swept) bool) (Swept, error) {
	swept, trash, err := s.choose(unused, enough)
	for _, path := range trash {
		if ctx.Err() != nil {
			return swept, ctx.Err() // The next agent removes the rest.
		}
		if wrong := tree.Remove(path); err == nil && wrong != nil {
			err = fmt.Errorf("images: %w", wrong)
		}
	}
	return swept, err
}

// sweep runs a GC in the background, one at a time.
func (s *Store) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.sweeping || s.total() <= s.o.MaxBytes || s.o.MaxBytes < 0 {
		return
	}
	s.sweeping = true
	s.jobs.Go(func() {
		swept, err := s.GC(s.base)
		if err != nil && s.base.Err() == nil {
			s.o.Log.Info("Some unused images could not be removed: %v", err)
		}
		s.tell(swept)
		s.mu.Lock()
		s.sweeping = false
		s.mu.Unlock()
	})
}

func (s *Store) tell(swept Swept) {
	if len(swept.Images)+swept.Layers > 0 {
		s.o.Log.Info("Removed %d unused images, %.1f MiB", len(swept.Images), float64(swept.Bytes)/(1<<20))
	}
}

// total returns the size of all layers.
func (s *Store) total() int64 {
	total := int64(0)
	for _, bytes := range s.present {
		total += bytes
	}
	return total
}

// choose removes the names of the content to remove, and returns the paths of its files.
func (s *Store) choose(unused time.Duration, enough func(Swept) bool) (swept Swept, trash []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.dropDead(); err != nil {
		return swept, nil, err
	}
	discard := func(path string) error {
		dir, err := os.MkdirTemp(s.path(workDir), "gone-")
		if err == nil {
			trash = append(trash, dir)
			err = os.Rename(path, filepath.Join(dir, filepath.Base(path)))
		}
		return err
	}
	for _, key := range append([]string{""}, s.idle(unused)...) { // first only layers without an image
		if enough(swept) {
			break
		}
		if key != "" {
			if err := discard(s.path(imagesDir, key)); err != nil {
				return swept, trash, fmt.Errorf("images: %w", err)
			}
			swept.Images = append(swept.Images, s.records[key].Digest)
			delete(s.records, key)
		}
		for _, name := range s.orphans() {
			if err := discard(s.path(layersDir, name)); err != nil {
				return swept, trash, fmt.Errorf("images: %w", err)
			}
			swept.Layers++
			swept.Bytes += s.present[name]
			delete(s.present, name)
		}
	}
	return swept, trash, nil
}

// dropDead forgets holders whose directory is gone.
func (s *Store) dropDead() error {
	for holder := range s.held {
		if _, err := os.Lstat(holder); errors.Is(err, fs.ErrNotExist) {
			if err := s.release(holder); err != nil {
				return err
			}
		}
	}
	return nil
}

// idle returns the images that have no holder and were unused for this time, in the order of their removal.
func (s *Store) idle(unused time.Duration) []string {
	holders := s.holders()
	var keys []string
	for key, record := range s.records {
		if holders[key] == 0 && s.o.Now().Sub(record.used) >= unused {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys,
		func(a, b string) int { return cmp.Or(s.records[a].used.Compare(s.records[b].used), cmp.Compare(a, b)) })
	return keys
}

// orphans returns the layers that no image has and no pull needs.
func (s *Store) orphans() []string {
	needed := map[string]bool{}
	for _, record := range s.records {
		for _, name := range record.Layers {
			needed[name] = true
		}
	}
	var names []string
	for name := range s.present {
		if !needed[name] && s.busy[name] == 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
