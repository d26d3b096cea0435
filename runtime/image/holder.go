//go:build linux

package image

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/yi-json/synapse/runtime/file"
	"github.com/yi-json/synapse/runtime/tree"
)

// This file owns the records and the holders of images. A task outlives the agent that prepared it, so a hold is a file
// that names its holder. The holder is a directory. When the directory is gone, no task needs the image, so a release
// that was lost in a crash does no harm. Holds need not survive a crash of the host, because tasks do not.

// record is the content of image.json.
type record struct {
	Digest  string   `json:"digest"`
	Aliases []string `json:"aliases,omitempty"`
	Ref     string   `json:"ref"`
	Config  Config   `json:"config"`
	Layers  []string `json:"layers"`

	used time.Time // the modification time of the file
}

const recordFile = "image.json"

// bytes returns the total size of the image's layers.
func (r *record) bytes(layers map[string]int64) int64 {
	seen := map[string]bool{}
	total := int64(0)
	for _, name := range r.Layers {
		if !seen[name] {
			seen[name] = true
			total += layers[name]
		}
	}
	return total
}

// loadRecords lists the images. It removes unreadable ones.
func (s *Store) loadRecords() error {
	entries, err := os.ReadDir(s.path(imagesDir))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		one := &record{}
		if err := readJSON(s.path(imagesDir, entry.Name(), recordFile), one); err != nil {
			s.o.Log.Info("Image %s cannot be read and is removed: %v", entry.Name(), err)
			if err := tree.Remove(s.path(imagesDir, entry.Name())); err != nil {
				return err
			}
			continue
		}
		info, err := os.Stat(s.path(imagesDir, entry.Name(), recordFile))
		if err != nil {
			return err
		}
		one.used = info.ModTime()
		s.records[entry.Name()] = one
	}
	return nil
}

// hold is the content of a holder's file.
type hold struct {
	Holder string `json:"holder"`
	Key    string `json:"key"`
	Image  Image  `json:"image"`
}

func (s *Store) holdFile(holder string) string {
	sum := sha256.Sum256([]byte(filepath.Clean(holder)))
	return s.path(holdersDir, hex.EncodeToString(sum[:16])+".json")
}

func (s *Store) loadHolders() error {
	entries, err := os.ReadDir(s.path(holdersDir))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		var one hold
		name := s.path(holdersDir, entry.Name())
		err := readJSON(name, &one)
		if _, known := s.records[one.Key]; err != nil || one.Key != "" && !known || s.holdFile(one.Holder) != name {
			if err := os.Remove(name); err != nil {
				return err
			}
			continue
		}
		s.held[one.Holder] = one.Key
	}
	return nil
}

var errSwept = errors.New("the image was removed during its preparation")

// take gives a holder an image of the store.
func (s *Store) take(ref reference, key, holder string) (*Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	record := s.records[key]
	if record == nil {
		return nil, errSwept
	}
	image := &Image{Ref: ref.text, Digest: record.Digest, Rootfs: s.path(imagesDir, key, rootfsDir), Config: record.Config}
	if err := s.write(hold{filepath.Clean(holder), key, *image}); err != nil {
		return nil, err
	}
	s.use(key, record)
	return image, nil
}

// hold records for a holder an image that does not belong to the store.
func (s *Store) hold(image *Image, holder string) error {
	if image == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(hold{filepath.Clean(holder), "", *image})
}

func (s *Store) write(one hold) error {
	text, err := json.Marshal(one)
	if err != nil {
		return err
	}
	if err := file.Replace(s.holdFile(one.Holder), text); err != nil {
		return fmt.Errorf("images: %w", err)
	}
	s.held[one.Holder] = one.Key
	return nil
}

// use records that an image is needed now. A failed write does not matter.
func (s *Store) use(key string, record *record) {
	record.used = s.o.Now()
	_ = os.Chtimes(s.path(imagesDir, key, recordFile), record.used, record.used)
}

// Held returns the image that Prepare gave a holder, also under an earlier agent.
func (s *Store) Held(holder string) (*Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	holder = filepath.Clean(holder)
	if _, known := s.held[holder]; !known {
		return nil, fmt.Errorf("images: %s holds no image", holder)
	}
	var one hold
	if err := readJSON(s.holdFile(holder), &one); err != nil {
		return nil, fmt.Errorf("images: read the image of %s: %w", holder, err)
	}
	return &one.Image, nil
}

// Release releases the image of a holder. It may be called again.
func (s *Store) Release(holder string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.release(filepath.Clean(holder))
}

func (s *Store) release(holder string) error {
	if err := os.Remove(s.holdFile(holder)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("images: %w", err)
	}
	key := s.held[holder]
	delete(s.held, holder)
	if record := s.records[key]; record != nil {
		s.use(key, record) // it was needed until now
	}
	return nil
}

// holders returns the number of holders per record.
func (s *Store) holders() map[string]int {
	counts := map[string]int{}
	for _, key := range s.held {
		counts[key]++
	}
	return counts
}

func readJSON(name string, value any) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, value)
}
