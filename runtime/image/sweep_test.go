//go:build linux

package image_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/yi-json/synapse/runtime/image"
)

// This file tests which images are removed and which stay.

// clock is a clock that a test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) forward(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(by)
}

const piece = 100_000 // approximate size of a layer in these tests

func pieceOf(t testing.TB, text string) v1.Layer {
	return layerOf(t, text, strings.Repeat(text[:1], piece))
}

func sweep(t *testing.T, store *image.Store) []string {
	t.Helper()
	swept, err := store.GC(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return swept.Images
}

// TestSweep checks that the images unused for longest are removed first, and no more than necessary. Images with a
// holder and recently used images stay.
func TestSweep(t *testing.T) {
	hub, at := newHub(t), &clock{now: time.Now()}
	shared := pieceOf(t, "shared")
	const room = 3*piece + piece/2
	store, dir := open(t, image.Options{MaxBytes: 1 << 40, MinUnused: time.Hour, Now: at.read})
	digests, holders := map[string]string{}, map[string]string{}
	use := func(name string) {
		holder := t.TempDir()
		got, err := store.Prepare(t.Context(), hub.ref(name+":1"), holder, own)
		if err != nil {
			t.Fatal(err)
		}
		digests[name], holders[name] = got.Digest, holder
		at.forward(time.Minute)
	}
	release := func(name string) {
		if err := store.Release(holders[name]); err != nil {
			t.Fatal(err)
		}
		at.forward(time.Minute)
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		hub.push(name+":1", imageOf(t, v1.Config{}, shared, pieceOf(t, name)))
		use(name)
	}
	for _, name := range []string{"b", "a", "c"} {
		release(name) // d is held all the time
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	store = openAt(t, dir, image.Options{MaxBytes: room, MinUnused: time.Hour, Now: at.read})
	if got := sweep(t, store); len(got) != 0 {
		t.Errorf("used of late, and gone: %v", got)
	}
	at.forward(time.Hour)
	if got := sweep(t, store); !slices.Equal(got, []string{digests["b"], digests["a"]}) {
		t.Errorf("%v went, want b and a of %v", got, digests)
	}
	checkClean(t, dir, 2, 3)
	if got := sweep(t, store); len(got) != 0 {
		t.Errorf("more went than must: %v", got)
	}
	held := mustHold(t, store, holders["d"])
	if text := read(t, held.Rootfs, "shared"); len(text) != piece {
		t.Error("the image that is held lost a file")
	}
	hub.requests("GET", "")
	use("a")
	if n := hub.requests("GET", "/blobs/"+digestOf(t, shared)); n != 0 {
		t.Error("a layer that another image has was removed")
	}
}

// TestDeadHolder checks that a holder whose directory is gone holds nothing.
func TestDeadHolder(t *testing.T) {
	hub, at := newHub(t), &clock{now: time.Now()}
	tag := hub.push("a:1", imageOf(t, v1.Config{}, pieceOf(t, "a")))
	store, dir := open(t, image.Options{MaxBytes: 1, MinUnused: time.Minute, Now: at.read})
	holder := t.TempDir()
	if _, err := store.Prepare(t.Context(), tag, holder, own); err != nil {
		t.Fatal(err)
	}
	at.forward(time.Hour)
	if got := sweep(t, store); len(got) != 0 {
		t.Fatalf("a held image went: %v", got)
	}
	if err := os.Remove(holder); err != nil {
		t.Fatal(err)
	}
	if got := sweep(t, store); len(got) != 0 { // it was needed until now
		t.Fatalf("%v", got)
	}
	at.forward(time.Hour)
	if got := sweep(t, store); len(got) != 1 {
		t.Errorf("%v", got)
	}
	checkClean(t, dir, 0, 0)
}

// TestSweepBySelf checks that a fetch beyond the size limit starts a sweep by itself, and that layers without an image
// are removed first.
func TestSweepBySelf(t *testing.T) {
	hub, at := newHub(t), &clock{now: time.Now()}
	store, dir := open(t, image.Options{MaxBytes: piece + piece/2, MinUnused: time.Minute, Now: at.read})
	good, bad := pieceOf(t, "good"), layerOf(t, "../bad", "")
	half := hub.push("half:1", imageOf(t, v1.Config{}, good, bad))
	content := contentOf(t, bad)
	hub.disturbed("GET", "/blobs/"+digestOf(t, bad), func(w http.ResponseWriter, _ *http.Request) {
		within(t, "the good layer is there", func() bool {
			layers, _ := os.ReadDir(dir + "/layers")
			return len(layers) == 1
		})
		_, _ = w.Write(content)
	})
	refused(t, store, half, "leads out of the image")
	checkClean(t, dir, 0, 1)
	tag := hub.push("a:1", imageOf(t, v1.Config{}, pieceOf(t, "a")))
	prepare(t, store, tag)
	within(t, "the orphan is gone, and the image is not", func() bool {
		layers, err := os.ReadDir(dir + "/layers")
		images, wrong := os.ReadDir(dir + "/images")
		work, bad := os.ReadDir(dir + "/work")
		return err == nil && wrong == nil && bad == nil && len(layers) == 1 && len(images) == 1 && len(work) == 0
	})
}

// TestSweepBeside checks that continuous sweeps during fetches never remove an image in use.
func TestSweepBeside(t *testing.T) {
	hub := newHub(t)
	shared := pieceOf(t, "shared")
	for i := range 4 {
		hub.push(fmt.Sprintf("i%d:1", i), imageOf(t, v1.Config{}, shared, pieceOf(t, fmt.Sprintf("%d", i))))
	}
	store, dir := open(t, image.Options{MaxBytes: 1, MinUnused: time.Nanosecond})
	ctx, stop := context.WithCancel(t.Context())
	var sweepers, users sync.WaitGroup
	sweepers.Go(func() {
		for ctx.Err() == nil {
			if _, err := store.GC(t.Context()); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for user := range 4 {
		users.Go(func() {
			for turn := range 5 {
				holder := t.TempDir()
				which := (user + turn) % 4
				got, err := store.Prepare(t.Context(), hub.ref(fmt.Sprintf("i%d:1", which)), holder, own)
				if err != nil {
					t.Error(err)
					return
				}
				for _, name := range []string{"shared", fmt.Sprint(which)} {
					if text, err := os.ReadFile(got.Rootfs + "/" + name); err != nil || len(text) != piece {
						t.Errorf("%s: %d bytes, %v", name, len(text), err)
					}
				}
				if err := store.Release(holder); err != nil {
					t.Error(err)
				}
			}
		})
	}
	users.Wait()
	stop()
	sweepers.Wait()
	sweep(t, store)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	openAt(t, dir, image.Options{}) // a sweep of the store itself may have been interrupted
	checkClean(t, dir, 0, 0)
}
