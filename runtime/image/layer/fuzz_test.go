//go:build linux

package layer

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// This file fuzzes the code that reads untrusted streams. The code runs in this process, not in a child, so no separate
// root confines it. The path lookups alone must do so.

func FuzzUnpack(f *testing.F) {
	var seed bytes.Buffer
	archive := tar.NewWriter(&seed)
	for _, header := range []*tar.Header{
		{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o755}, {Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/../.."},
		{Name: "l/f", Typeflag: tar.TypeReg},
		{Name: "h", Typeflag: tar.TypeLink, Linkname: "l/f"}, {Name: "d/.wh.x", Typeflag: tar.TypeReg},
		{Name: "d", Typeflag: tar.TypeSymlink, Linkname: "l"},
		{Name: "x/y", Typeflag: tar.TypeLink, Linkname: "below", PAXRecords: map[string]string{"SCHILY.xattr.user.a": "b"}},
	} {
		if err := archive.WriteHeader(header); err != nil {
			f.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(seed.Bytes())
	f.Add(bytes.ReplaceAll(seed.Bytes(), []byte("l/f"), []byte("../")))
	f.Fuzz(func(t *testing.T, stream []byte) {
		room := t.TempDir()
		t.Chdir(room) // the lookup of a directory's path changes the working directory
		files := filepath.Join(room, filesDir)
		if err := os.Mkdir(files, 0o755); err != nil {
			t.Fatal(err)
		}
		root, err := os.Open(files)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		_, _ = unpack(int(root.Fd()), bytes.NewReader(stream), Limits{Bytes: 1 << 20, Entries: 1000}, false, &meter{})
		entries, err := os.ReadDir(room)
		if err != nil || len(entries) != 1 {
			t.Fatalf("next to the layer: %v %v", entries, err)
		}
		for _, entry := range entries {
			if info, err := entry.Info(); err != nil || !info.IsDir() {
				t.Fatalf("%v %v", info, err)
			}
		}
	})
}
