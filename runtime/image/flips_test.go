//go:build linux

package image_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/hostpath"
	"github.com/yi-json/synapse/runtime/image"
)

// TestFlips changes a link ten thousand times between an archive (and a layout) of the user and one that is closed to
// the user. Images are fetched through the link meanwhile. The user must never get the closed one, although the store
// already has it.
func TestFlips(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("requires root to act as another user")
	}
	room := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(room), 0o711), os.Chmod(room, 0o755)); err != nil {
		t.Fatal(err)
	}
	store, _ := open(t, image.Options{})
	closed := laidOut(t, filepath.Join(room, "closed"), sample(t), 0o700)
	laidOut(t, filepath.Join(room, "open"),
		imageOf(t, v1.Config{Cmd: []string{"open"}}, layerOf(t, "file", "open")), 0o755)
	prepare(t, store, filepath.Join(room, "closed.tar"))
	prepare(t, store, "oci:"+filepath.Join(room, "closed"))
	stranger := hostpath.Visitor{As: hostpath.Guest{UID: 65534, GID: 65534}}
	for _, kind := range []struct{ scheme, suffix string }{{"", ".tar"}, {"oci:", ""}} {
		link := filepath.Join(room, "link"+kind.suffix)
		for from, to := range map[string]string{link: "open", link + ".other": "closed"} {
			if err := os.Symlink(filepath.Join(room, to+kind.suffix), from); err != nil {
				t.Fatal(err)
			}
		}
		var flips atomic.Int64
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				default:
				}
				if unix.Renameat2(unix.AT_FDCWD, link, unix.AT_FDCWD, link+".other", unix.RENAME_EXCHANGE) == nil {
					flips.Add(1)
				}
			}
		}()
		had, holder := 0, t.TempDir()
		for tries := 0; flips.Load() < 10_000 || tries < 100; tries++ {
			got, err := store.Prepare(t.Context(), kind.scheme+link, holder, stranger)
			if err != nil {
				continue
			}
			if had++; got.Digest == closed {
				t.Errorf("%s: the closed image was given after %d turns", kind.scheme+link, flips.Load())
				break
			}
			if err := store.Release(holder); err != nil {
				t.Fatal(err)
			}
		}
		close(stop)
		<-stopped
		t.Logf("%s: %d turns, %d times the open one", kind.scheme+link, flips.Load(), had)
	}
}

// laidOut makes a layout and an archive of an image, in a folder that all users may pass through.
func laidOut(t *testing.T, dir string, made v1.Image, mode os.FileMode) (digest string) {
	t.Helper()
	at, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = at.AppendImage(made)
	}
	if err != nil {
		t.Fatal(err)
	}
	packDir(t, dir, dir+".tar")
	if err := errors.Join(os.Chmod(dir, mode), os.Chmod(dir+".tar", mode&^0o111)); err != nil {
		t.Fatal(err)
	}
	return digestOf(t, made)
}
