//go:build linux

// Package image gets images ready on a worker: it turns a job's image into one directory that a container can use
// as its root. It fetches from registries, archives and layouts, keeps what it fetched, and removes what nobody
// needs. It starts no container, and never trusts the content of an image.
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

// This file owns the store as its callers see it, and its directory:
//
//	images/ALGORITHM-DIGEST/  image.json and rootfs/, which is never written to again
//	layers/DIFFID/            one layer, as package layer leaves it; rootfs are hard links into these
//	holders/ which image each holder has; see holder.go work/ what is being made or removed; worth nothing after a crash
//
// What lies under its final name is whole and on disk: it was made in work/, synced, and renamed.

// Options holds the settings of a store.
type Options struct {
	Log actors.Log
	// Unpacker is the command that calls layer.Main with the arguments that follow; nil: this binary, whose main
	// must look for layer.SubCommand first.
	Unpacker []string
	// MaxBytes is how much the store may keep before unused images are removed; 0: the default, negative: no bound.
	MaxBytes int64
	// MinUnused is how long an image stays at least after its last use; 0: the default.
	MinUnused time.Duration
	// ImageBytes and LayerEntries bound one image; 0: the defaults.
	ImageBytes   int64
	LayerEntries int64
	// MayPull refuses a registry by its host; nil: none is refused.
	MayPull func(host string) error
	// Keychain has the passwords of registries; nil: the docker configuration of the agent's user.
	Keychain authn.Keychain
	// Inside allows a registry at an address of the node itself, by its host (with the port that its name has);
	// nil: none is. See inside.go.
	Inside func(host string) bool
	// Loopback allows every registry on loopback.
	Loopback bool
	// Resolver looks up the names of registries; nil: the machine's.
	Resolver *net.Resolver
	// Transport speaks to registries; nil: one that keeps to Inside.
	Transport http.RoundTripper
	// Now is the clock for the age of images; nil: that of the machine.
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

// Image is an image that is ready.
type Image struct {
	// Ref is what the job said.
	Ref string `json:"ref"`
	// Named is a rootfs directory of the machine; nil: Rootfs belongs to the store.
	Named *hostpath.Ticket `json:"named,omitempty"`
	// Digest is what Ref meant; empty for a rootfs directory.
	Digest string `json:"digest,omitempty"`
	// Rootfs is a directory that several containers share: each must put a layer on top of it, or not write.
	Rootfs string `json:"rootfs"`
	Config Config `json:"config"`
}

// Store keeps a worker's images. All its methods may be called concurrently.
type Store struct {
	o        Options
	dir      string
	lock     *os.File
	unpacker layer.Unpacker

	base   context.Context
	cancel context.CancelFunc
	jobs   sync.WaitGroup

	fetches flights[string]   // by what jobs call an image; the key of its record
	pulls   flights[struct{}] // by the record's key
	layers  flights[bool]     // by the layer's name; whether it was new

	mu       sync.Mutex
	closed   bool
	sweeping bool
	records  map[string]*record // by their keys
	held     map[string]string  // holder → key of a record; empty for what does not belong to the store
	present  map[string]int64   // layers → bytes
	busy     map[string]int     // layers → pulls that need them
	promised func() tree.Usage  // to tasks, of the disk; nil: nothing is
}

// Open opens the store in a directory, which it makes if need be. Only one process may have it open.
func Open(dir string, o Options) (*Store, error) {
	if !filepath.IsAbs(dir) || strings.ContainsAny(dir, `:,\`) {
		return nil, fmt.Errorf(`images: the directory %q must be an absolute path without : , \, which mounts have a use for; move the data directory`, dir)
	}
	if o.Log == nil {
		return nil, errors.New("images: a log is needed")
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

// load makes the directories, removes what a crash left unfinished, and reads what is there.
func (s *Store) load() error {
	// No other user may pass: a set-id file of an image would work on this machine.
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
		return fmt.Errorf("%s is in use by another agent (%w); stop that one, or give this one a data directory of its own",
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

// loadLayers lists the layers. One that cannot be read is removed.
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

// Close ends what is under way and waits for it. The images and their holders
// stay.
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

// Prepare gets an image ready, however long it takes, and keeps it so for a holder: the path of a directory that
// exists as long as the image is needed. The same holder gets the same image again, even if a tag has moved
// meanwhile. When ctx ends no process is left behind.
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
		// A file is fetched for its user alone: another user may not reach what the path leads to.
		work = fmt.Sprintf("%s for %v %v of %d on %d", text, visitor.As, visitor.As.Groups, ticket.Inode, ticket.Device)
	}
	for { // Between the end of a fetch and the hold, an image may be swept away: only if it was there unused all along.
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

// nameFolder gives a holder a directory of the worker unchanged.
func (s *Store) nameFolder(visitor hostpath.Visitor, ref reference, holder string) (*Image, error) {
	ticket, err := visitor.AskFolder(hostpath.Named(ref.path))
	if err != nil {
		return nil, problem("%w", err)
	}
	image := &Image{Ref: ref.text, Named: &ticket}
	return image, s.hold(image, holder)
}

// Info is one image in the store.
type Info struct {
	Digest   string
	Ref      string // by which it was fetched
	Bytes    int64  // of its layers, which other images may share
	LastUsed time.Time
	Holders  int
}

// List returns the images, the last used first.
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
