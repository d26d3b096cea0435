//go:build linux

package image_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/runtime/image"
	"github.com/yi-json/synapse/runtime/reserve"
	"github.com/yi-json/synapse/runtime/tree"
	"github.com/yi-json/synapse/test/able"
)

// This file tests images on a disk that is small enough to fill.

// smallDisk mounts a separate file system.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	able.Need(t, able.Mounts)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// bomb returns a layer whose archive is a thousandth of its unpacked size.
func bomb(t testing.TB, bytes int64) v1.Layer {
	t.Helper()
	return packed(t, func(archive *tar.Writer) error {
		if err := archive.WriteHeader(&tar.Header{Name: "big", Mode: 0o644, Typeflag: tar.TypeReg, Size: bytes}); err != nil {
			return err
		}
		block := []byte(strings.Repeat("x", 1<<20))
		for left := bytes; left > 0; left -= int64(len(block)) {
			if _, err := archive.Write(block[:min(left, int64(len(block)))]); err != nil {
				return err
			}
		}
		return nil
	})
}

// packed returns a gzip layer with the archive that write writes.
func packed(t testing.TB, write func(*tar.Writer) error) v1.Layer {
	t.Helper()
	var out bytes.Buffer
	small, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	archive := tar.NewWriter(small)
	if err := errors.Join(write(archive), archive.Close(), small.Close()); err != nil {
		t.Fatal(err)
	}
	made, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil },
		tarball.WithMediaType(types.DockerLayer))
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// archiveOf writes an image in docker's format and returns the path.
func archiveOf(t testing.TB, made v1.Image) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := tarball.WriteToFile(path, name.MustParseReference("a:1"), made); err != nil {
		t.Fatal(err)
	}
	return path
}

// free returns the free space of a disk.
func free(t testing.TB, dir string) reserve.Disk {
	t.Helper()
	disk, err := reserve.Of(dir)
	if err != nil {
		t.Fatal(err)
	}
	return disk
}

// lowest returns the minimum free space of a disk while do runs.
func lowest(t testing.TB, dir string, do func()) tree.Usage {
	t.Helper()
	least := free(t, dir).Free
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for {
			select {
			case <-done:
				return
			default:
			}
			if now, err := reserve.Of(dir); err == nil {
				least = tree.Usage{Bytes: min(least.Bytes, now.Free.Bytes), Files: min(least.Files, now.Free.Files)}
			}
		}
	}()
	do()
	close(done)
	<-over
	return least
}

// TestBomb checks a small archive that unpacks to more than the disk has. It is given up at the reserve. The refusal
// names the image, its size so far and the reserve, and does not blame the node. Nothing of it stays. An image that
// fits is prepared afterwards.
func TestBomb(t *testing.T) {
	disk := smallDisk(t, "size=64m")
	store := openAt(t, filepath.Join(disk, "images"), image.Options{})
	path := archiveOf(t, imageOf(t, v1.Config{}, pieceOf(t, "small"), bomb(t, 256<<20)))
	if info, err := os.Stat(path); err != nil || info.Size() > 2<<20 {
		t.Fatalf("the archive is no bomb: %v, %v", info, err)
	}
	before := free(t, disk)
	var err error
	least := lowest(t, disk, func() { _, err = store.Prepare(t.Context(), path, t.TempDir(), own) })
	if err == nil || fault.Of(err) != fault.Unknown || errors.Is(err, unix.ENOSPC) {
		t.Fatalf("it is reported as %v of %q", err, fault.Of(err))
	}
	for _, words := range []string{"image: " + path, "does not fit", " 60.", "keeps 4.0 MiB free"} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("the refusal has not %q: %v", words, err)
		}
	}
	if tight := before.Share(reserve.Tasks); least.Bytes < tight.Bytes {
		t.Errorf("%d bytes were free meanwhile, and tasks end below %d", least.Bytes, tight.Bytes)
	}
	checkClean(t, filepath.Join(disk, "images"), 0, 0)
	if now := free(t, disk); now.Free.Bytes < before.Free.Bytes-1<<20 {
		t.Errorf("of %d bytes %d are free afterwards", before.Free.Bytes, now.Free.Bytes)
	}
	prepare(t, store, archiveOf(t, imageOf(t, v1.Config{}, pieceOf(t, "small"))))
}

// TestBombOfFiles checks the same with empty files.
func TestBombOfFiles(t *testing.T) {
	disk := smallDisk(t, "size=64m,nr_inodes=3000")
	store := openAt(t, filepath.Join(disk, "images"), image.Options{})
	many := packed(t, func(archive *tar.Writer) error {
		for i := range 10_000 {
			name := string(rune('a'+i/1000)) + "/" + strings.Repeat("f", i%1000%200+1) + string(rune('a'+i%1000/200))
			if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Typeflag: tar.TypeReg}); err != nil {
				return err
			}
		}
		return nil
	})
	path := archiveOf(t, imageOf(t, v1.Config{}, many))
	least := lowest(t, disk, func() { refused(t, store, path, "does not fit") })
	if tight := free(t, disk).Share(reserve.Tasks); least.Files < tight.Files {
		t.Errorf("%d files were free meanwhile, and tasks end below %d", least.Files, tight.Files)
	}
	checkClean(t, filepath.Join(disk, "images"), 0, 0)
}

// TestEvictBeforeFull checks that unused images are removed for a new image, even if they were used recently, and that
// images in use stay.
func TestEvictBeforeFull(t *testing.T) {
	disk := smallDisk(t, "size=64m")
	dir := filepath.Join(disk, "images")
	store := openAt(t, dir, image.Options{})
	used := prepare(t, store, archiveOf(t, imageOf(t, v1.Config{}, bomb(t, 10<<20))))
	idle := t.TempDir()
	other := archiveOf(t, imageOf(t, v1.Config{}, bomb(t, 30<<20)))
	if _, err := store.Prepare(t.Context(), other, idle, own); err != nil {
		t.Fatal(err)
	}
	large := archiveOf(t, imageOf(t, v1.Config{}, bomb(t, 40<<20)))
	refused(t, store, large, "does not fit") // both are in use
	checkClean(t, dir, 2, 2)
	if err := store.Release(idle); err != nil {
		t.Fatal(err)
	}
	prepare(t, store, large)
	checkClean(t, dir, 2, 2)
	if info, err := os.Stat(filepath.Join(used.Rootfs, "big")); err != nil || info.Size() != 10<<20 {
		t.Errorf("the image in use lost its file: %v", err)
	}
}

// TestPromisedStaysFree checks that an image cannot use space that is reserved for tasks.
func TestPromisedStaysFree(t *testing.T) {
	store := openAt(t, filepath.Join(smallDisk(t, "size=64m"), "images"), image.Options{})
	store.KeepFree(func() tree.Usage { return tree.Usage{Bytes: 40 << 20} })
	prepare(t, store, archiveOf(t, imageOf(t, v1.Config{}, bomb(t, 5<<20))))
	refused(t, store, archiveOf(t, imageOf(t, v1.Config{}, bomb(t, 100<<20))), "does not fit", "keeps 44.0 MiB free")
}

// TestPromisedMeanwhile checks that an image is given up during unpacking if space is reserved that the disk no longer
// has.
func TestPromisedMeanwhile(t *testing.T) {
	hub, dir := newHub(t), filepath.Join(smallDisk(t, "size=64m"), "images")
	store := openAt(t, dir, image.Options{})
	var promised atomic.Int64
	store.KeepFree(func() tree.Usage { return tree.Usage{Bytes: promised.Load()} })
	made := bomb(t, 30<<20)
	content := contentOf(t, made)
	tag := hub.push("a:1", imageOf(t, v1.Config{}, made))
	hub.disturbed("GET", "/blobs/"+digestOf(t, made), func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(content[:len(content)/2])
		_ = http.NewResponseController(w).Flush()
		promised.Store(62 << 20)
		select {
		case <-r.Context().Done():
		case <-time.After(20 * time.Second):
			t.Error("the image is still being unpacked 20 s after the promise")
		}
	})
	refused(t, store, tag, "does not fit", "keeps 66.0 MiB free")
	checkClean(t, dir, 0, 0)
}
