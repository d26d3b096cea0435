//go:build linux

// Package image prepares images on a node. It turns a job's image into one directory that a container can use as its
// root. It fetches from registries, archives and layouts, keeps fetched images, and removes unused ones. It starts no
// container, and never trusts the content of an image.
package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/runtime/hostpath"
	"github.com/yi-json/synapse/runtime/image/layer"
	"github.com/yi-json/synapse/runtime/tree"
)

// This file owns the store's interface and its directory:
//
//	images/ALGORITHM-DIGEST/  image.json and rootfs/, which never changes
//	layers/DIFFID/            one layer, as unpacked by package layer; a rootfs has hard links to its files
//	holders/                  the image of each holder; see holder.go
//	work/                     unfinished work and removed files; useless after a crash
//
// Content with a final name is complete on disk, because it was made in work/, synced and renamed.

// Options holds the settings of a store.
type Options struct {
	Log actors.Log
	// Unpacker is the command that calls layer.Main with further arguments; nil: this binary, whose main must first
	// check for layer.SubCommand.
	Unpacker []string
	// MaxBytes is the size of the store from which unused images are removed; 0: the default, negative: no limit.
	MaxBytes int64
	// MinUnused is the minimum time that an image stays after its last use; 0: the default.
	MinUnused time.Duration
	// ImageBytes and LayerEntries limit one image; 0: the defaults.
	ImageBytes   int64
	LayerEntries int64
	// MayPull returns an error for a registry host that is not permitted; nil: all are permitted.
	MayPull func(host string) error
	// Keychain returns the passwords of registries; nil: the docker configuration of the agent's user.
	Keychain authn.Keychain
	// Inside permits a registry at an address of the node itself, by its host (with the port, if its name has one);
	// nil: none. See inside.go.
	Inside func(host string) bool
	// Loopback permits every registry on loopback.
	Loopback bool
	// Resolver looks up the names of registries; nil: the host's.
	Resolver *net.Resolver
	// Transport makes requests to registries; nil: a transport that respects Inside.
	Transport http.RoundTripper
	// Now returns the time for the age of images; nil: the host's time.
	Now func() time.Time
}

const (
	defaultMaxBytes     = 100 << 30
	defaultMinUnused    = time.Hour
	defaultImageBytes   = 256 << 30
	defaultLayerEntries = 8 << 20

	imagesDir  = "images"
	layersDir  = "layers"
	holdersDir = "holders"
	workDir    = "work"
	lockFile   = "lock"
	rootfsDir  = "rootfs"
)

// Image is an image that is ready to be used.
type Image struct {
	// Ref is the image's name in the job.
	Ref string `json:"ref"`
	// Named is a rootfs directory of the node; nil: Rootfs belongs to the store.
	Named *hostpath.Ticket `json:"named,omitempty"`
	// Digest is the digest of the image; empty for a rootfs directory.
	Digest string `json:"digest,omitempty"`
	// Rootfs is a directory that several containers share. Each container must add a layer or must not write.
	Rootfs string `json:"rootfs"`
	Config Config `json:"config"`
}

// Store keeps the images of a node. All its methods may be called concurrently.
type Store struct {
	o        Options
	dir      string
	lock     *os.File
	unpacker layer.Unpacker

	base   context.Context
	cancel context.CancelFunc
	jobs   sync.WaitGroup

	fetches flights[string]   // by the image's name in jobs; the result is the key of its record
	pulls   flights[struct{}] // by the record's key
	layers  flights[bool]     // by the layer's name; the result is whether it was new

	mu       sync.Mutex
	closed   bool
	sweeping bool
	records  map[string]*record // by key
	held     map[string]string  // holder → key of a record; empty for an image outside of the store
	present  map[string]int64   // layers → bytes
	busy     map[string]int     // layers → number of pulls that need them
	squashed map[fileState]string
	promised func() tree.Usage // the disk space reserved for tasks; nil: none
}

// Open opens the store in a directory, and makes the directory if needed. Only one process may have it open.
func Open(dir string, o Options) (*Store, error) {
	if !filepath.IsAbs(dir) || strings.ContainsAny(dir, `:,\`) {
		return nil, fmt.Errorf(`images: the directory %q must be an absolute path without : , \, which have a meaning in mount options; move the data directory`, dir)
	}
	if o.Log == nil {
		return nil, errors.New("images: Log is missing")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Transport == nil {
		o.Transport = newOutward(o)
	}
	if o.Keychain == nil {
		o.Keychain = keychain
	}
	if o.Unpacker == nil {
		o.Unpacker = []string{"/proc/self/exe", layer.SubCommand}
	}
	o.MaxBytes, o.MinUnused = cmp.Or(o.MaxBytes, defaultMaxBytes), cmp.Or(o.MinUnused, defaultMinUnused)
	o.ImageBytes, o.LayerEntries = cmp.Or(o.ImageBytes, defaultImageBytes), cmp.Or(o.LayerEntries, defaultLayerEntries)
	s := &Store{
		o: o, dir: filepath.Clean(dir), records: map[string]*record{}, held: map[string]string{}, present: map[string]int64{},
		squashed: map[fileState]string{},
		busy:     map[string]int{},
		unpacker: layer.Unpacker{Command: o.Unpacker, Limits: layer.Limits{Bytes: o.ImageBytes, Entries: o.LayerEntries}},
	}
	s.base, s.cancel = context.WithCancel(context.Background())
	s.fetches.base, s.pulls.base, s.layers.base = s.base, s.base, s.base
	if err := s.load(); err != nil {
		s.cancel()
		if s.lock != nil {
			s.lock.Close()
		}
		return nil, fmt.Errorf("images: %w", err)
	}
	return s, nil
}

func (s *Store) path(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}

// load makes the directories, removes unfinished work of a crash, and reads the records.
func (s *Store) load() error {
	// No other user may pass, because a set-id file of an image would work on the host.
	for _, dir := range []string{"", imagesDir, layersDir, holdersDir, workDir} {
		if err := os.MkdirAll(s.path(dir), 0o700); err != nil {
			return err
		}
	}
	if err := os.Chmod(s.dir, 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(s.path(lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	s.lock = lock
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("%s is in use by another agent (%w); stop that agent, or use another data directory for this one",
			s.dir, err)
	}
	if err := emptyDir(s.path(workDir)); err != nil {
		return err
	}
	if err := s.loadLayers(); err != nil {
		return err
	}
	if err := s.loadRecords(); err != nil {
		return err
	}
	return s.loadHolders()
}

// loadLayers lists the layers. It removes unreadable ones.
func (s *Store) loadLayers() error {
	entries, err := os.ReadDir(s.path(layersDir))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		changes, err := layer.Read(s.path(layersDir, entry.Name()))
		if err != nil {
			s.o.Log.Info("Layer %s cannot be read and is removed: %v", entry.Name(), err)
			if err := tree.Remove(s.path(layersDir, entry.Name())); err != nil {
				return err
			}
			continue
		}
		s.present[entry.Name()] = changes.Bytes
	}
	return nil
}

func emptyDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := tree.Remove(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// Close ends all work in progress and waits for it. The images and their holders stay.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.jobs.Wait()
	return s.lock.Close()
}

// begin counts a caller, so that Close waits for it.
func (s *Store) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("images: the store is closed")
	}
	s.jobs.Add(1)
	return nil
}

// Prepare prepares an image, may take any time, and keeps the image for a holder. The holder is the path of a directory
// that exists as long as the image is needed. The same holder gets the same image again, even if a tag has moved. When
// ctx ends, no process is left behind.
func (s *Store) Prepare(ctx context.Context, text, holder string, visitor hostpath.Visitor) (*Image, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.jobs.Done()
	ref, err := parse(text)
	if err != nil {
		return nil, fault.OfJob(err)
	}
	if info, err := os.Stat(holder); err != nil || !filepath.IsAbs(holder) || !info.IsDir() {
		return nil, fault.OfMachine(fmt.Errorf("images: the holder %q is not the path of a directory", holder))
	}
	if before, err := s.Held(holder); err == nil && before.Ref == text {
		return before, nil
	}
	work := text
	if ref.kind == kindRegistry && s.o.MayPull != nil {
		if err := s.o.MayPull(ref.registry.Context().RegistryStr()); err != nil {
			return nil, err
		}
	}
	if ref.kind != kindRegistry {
		ticket, err := visitor.Ask(hostpath.Named(ref.path))
		if err != nil {
			return nil, problem("%w", err)
		}
		ticket.Close()
		if ref.kind == kindPath && ticket.Directory {
			return s.nameFolder(visitor, ref, holder)
		}
		// A file is fetched for its user only, because another user may not reach it.
		work = fmt.Sprintf("%s for %v %v of %d on %d", text, visitor.As, visitor.As.Groups, ticket.Inode, ticket.Device)
	}
	for { // An image that was unused all along may be removed between fetch and hold.
		key, err := s.fetches.do(ctx, work, func(ctx context.Context) (string, error) { return s.fetch(ctx, ref, visitor) })
		if err != nil {
			return nil, explain(ctx, ref, err)
		}
		image, err := s.take(ref, key, holder)
		if !errors.Is(err, errSwept) {
			return image, err
		}
	}
}

// nameFolder gives a holder a directory of the node, unchanged.
func (s *Store) nameFolder(visitor hostpath.Visitor, ref reference, holder string) (*Image, error) {
	ticket, err := visitor.AskFolder(hostpath.Named(ref.path))
	if err != nil {
		return nil, problem("%w", err)
	}
	image := &Image{Ref: ref.text, Named: &ticket}
	return image, s.hold(image, holder)
}

// Info describes one image in the store.
type Info struct {
	Digest   string
	Ref      string // the name by which it was fetched
	Bytes    int64  // of its layers, which other images may share
	LastUsed time.Time
	Holders  int
}

// List returns the images, the most recently used first.
func (s *Store) List() ([]Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("images: the store is closed")
	}
	holders := s.holders()
	list := make([]Info, 0, len(s.records))
	for key, record := range s.records {
		list = append(list, Info{record.Digest, record.Ref, record.bytes(s.present), record.used, holders[key]})
	}
	slices.SortFunc(list,
		func(a, b Info) int { return cmp.Or(b.LastUsed.Compare(a.LastUsed), cmp.Compare(a.Digest, b.Digest)) })
	return list, nil
}
