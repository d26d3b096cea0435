//go:build linux

package layer_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/runtime/image/layer"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file provides archives and a listing of results for the tests.

// TestMain runs this test binary as the child that unpacks, if its arguments say so.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == layer.SubCommand {
		syscall.Exit(layer.Main(os.Args[2:])) // os.Exit waits a second in a build with the race detector
	}
	os.Exit(m.Run())
}

// entry is one entry of an archive. The zero type is a file.
type entry struct {
	name, body, link string
	kind             byte
	mode             int64
	uid, gid         int
	records          map[string]string
}

func dir(name string) entry        { return entry{name: name, kind: tar.TypeDir, mode: 0o755} }
func file(name, body string) entry { return entry{name: name, body: body} }
func symlink(name, target string) entry {
	return entry{name: name, kind: tar.TypeSymlink, link: target}
}
func hardlink(name, target string) entry { return entry{name: name, kind: tar.TypeLink, link: target} }

var stamp = time.Unix(1_700_000_000, 0)

func pack(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	for _, e := range entries {
		header := &tar.Header{
			Name: e.name, Linkname: e.link, Typeflag: e.kind, Mode: e.mode, Uid: e.uid, Gid: e.gid, ModTime: stamp,
			PAXRecords: e.records,
		}
		if e.kind == 0 {
			header.Typeflag, header.Size = tar.TypeReg, int64(len(e.body))
		}
		if header.Mode == 0 {
			header.Mode = 0o644
		}
		if err := archive.WriteHeader(header); err != nil {
			t.Fatalf("entry %q: %v", e.name, err)
		}
		if _, err := archive.Write([]byte(e.body)); err != nil {
			t.Fatalf("entry %q: %v", e.name, err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func unpacker() layer.Unpacker {
	return layer.Unpacker{
		Command: []string{"/proc/self/exe", layer.SubCommand}, Limits: layer.Limits{Bytes: 64 << 20, Entries: 100_000},
	}
}

// unpack unpacks entries into a new directory and returns the directory.
func unpack(t testing.TB, entries ...entry) (string, *layer.Changes, error) {
	t.Helper()
	return unpackBytes(t, pack(t, entries...))
}

func unpackBytes(t testing.TB, archive []byte) (string, *layer.Changes, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pace.Of(time.Minute))
	defer cancel()
	to := filepath.Join(t.TempDir(), "layer")
	changes, err := unpacker().Unpack(ctx, bytes.NewReader(archive), to)
	return to, changes, err
}

func mustUnpack(t testing.TB, entries ...entry) (string, *layer.Changes) {
	t.Helper()
	to, changes, err := unpack(t, entries...)
	if err != nil {
		t.Fatal(err)
	}
	return to, changes
}

// assemble assembles layers and returns the rootfs.
func assemble(t testing.TB, layers ...[]entry) string {
	t.Helper()
	rootfs, err := tryAssemble(t, layers...)
	if err != nil {
		t.Fatal(err)
	}
	return rootfs
}

func tryAssemble(t testing.TB, layers ...[]entry) (string, error) {
	t.Helper()
	var dirs []string
	for _, entries := range layers {
		to, _ := mustUnpack(t, entries...)
		dirs = append(dirs, to)
	}
	rootfs := filepath.Join(t.TempDir(), "rootfs")
	return rootfs, layer.Assemble(t.Context(), dirs, rootfs, layer.Limits{})
}

// tree lists the content of a directory, one line per entry, sorted.
func tree(t testing.TB, root string) string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name, _ := filepath.Rel(root, path)
		switch {
		case entry.IsDir():
			name += "/"
		case entry.Type() == fs.ModeSymlink:
			target, _ := os.Readlink(path)
			name += " -> " + target
		case entry.Type().IsRegular():
			body, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name += fmt.Sprintf(" %q", body)
		default:
			name += " " + entry.Type().String()
		}
		lines = append(lines, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

func checkTree(t *testing.T, root string, want ...string) {
	t.Helper()
	if got := tree(t, root); got != strings.Join(want, "\n") {
		t.Errorf("in the directory is\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func statOf(t *testing.T, path string) *syscall.Stat_t {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t)
}
