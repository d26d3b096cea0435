package transfer

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// carry packs and unpacks, and returns the skipped names.
func carry(t *testing.T, from, to, as string) []string {
	t.Helper()
	var out []string
	note := func(name, _ string) { out = append(out, name) }
	comes, goes := io.Pipe()
	go func() { goes.CloseWithError(Pack(goes, from, note)) }()
	if err := Unpack(comes, to, as, note); err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

func write(t *testing.T, path string, text []byte, mode fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// TestTree checks that files, folders, links, modes and times of a tree are copied. Links out of the tree and special
// files are reported by name and skipped. A read-only folder is filled before it becomes read-only.
func TestTree(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "from")
	big := make([]byte, 3<<20+17)
	_, _ = rand.Read(big)
	write(t, filepath.Join(from, "a/big"), big, 0o640)
	write(t, filepath.Join(from, "a/run.sh"), []byte("#!/bin/sh\n"), 0o755|fs.ModeSetuid)
	write(t, filepath.Join(from, "closed/in"), nil, 0o400)
	for to, at := range map[string]string{
		"big": "a/link", "../a/big": "closed/up", "/etc/passwd": "abs", "../../x": "a/out",
	} {
		if err := os.Symlink(to, filepath.Join(from, at)); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Unix(1_000_000_000, 0)
	if err := os.Chtimes(filepath.Join(from, "a/big"), old, old); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(from, "closed"), 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, name := range []string{"from", "to/from", "new"} {
			_ = os.Chmod(filepath.Join(dir, name, "closed"), 0o700)
		}
	})
	if err := os.Mkdir(filepath.Join(dir, "to"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"to", "new"} {
		out := carry(t, from, filepath.Join(dir, to), "")
		if !slices.Equal(out, []string{"from/a/out", "from/abs"}) {
			t.Errorf("left out: %q", out)
		}
	}
	for _, at := range []string{"to/from", "new"} {
		at = filepath.Join(dir, at)
		got, err := os.ReadFile(filepath.Join(at, "closed/up"))
		if err != nil || !bytes.Equal(got, big) {
			t.Errorf("%d bytes of %d: %v", len(got), len(big), err)
		}
		for name, mode := range map[string]fs.FileMode{
			"a/big": 0o640, "a/run.sh": 0o755, "closed": 0o500 | fs.ModeDir, "closed/in": 0o400,
		} {
			info, err := os.Lstat(filepath.Join(at, name))
			if err != nil || info.Mode() != mode {
				t.Errorf("%s: %v, %v", name, info, err)
			}
			if name == "a/big" && !info.ModTime().Equal(old) {
				t.Errorf("%s is of %v", name, info.ModTime())
			}
		}
	}
}

// TestFile checks that a single file gets the caller's name or keeps its own, and replaces an existing file without
// writing through a link.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f"), []byte("new"), 0o644)
	write(t, filepath.Join(dir, "other"), []byte("old"), 0o644)
	if err := os.Symlink("other", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	carry(t, filepath.Join(dir, "f"), filepath.Join(dir, "link"), "")
	carry(t, filepath.Join(dir, "f"), filepath.Join(dir, "in"), "named")
	for name, want := range map[string]string{"link": "new", "other": "old", "in/named": "new"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestNothingOutside checks that no data from the other side can create or change a file outside of the target, and
// that the attempt is reported.
func TestNothingOutside(t *testing.T) {
	long := tar.Header{Name: "d", Typeflag: tar.TypeDir, Mode: 0o755}
	file := func(name string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: 1}
	}
	link := func(name, to string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to, Mode: 0o777}
	}
	for what, sent := range map[string][]tar.Header{
		"up":              {file("../f")},
		"absolute":        {file("/tmp/synapse-parcel-f")},
		"beside":          {long, file("e/f")},
		"below a link":    {long, link("d/l", "../.."), file("d/l/f")},
		"below a link in": {long, link("d/l", "."), link("d/m", "l/../.."), file("d/m/f")},
		"round about":     {long, link("d/l", "."), link("d/m", "l/.."), file("d/m/f")},
		"a link first":    {link("d", ".."), file("d/f")},
		"up inside":       {long, file("d/../../f")},
		"before its top":  {file("d/f")},
		"hard":            {long, {Name: "d/h", Typeflag: tar.TypeLink, Linkname: "../../kept"}},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "kept"), []byte("kept"), 0o644)
			place := filepath.Join(dir, "place")
			if err := os.Mkdir(place, 0o755); err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			w := tar.NewWriter(&text)
			for _, h := range sent {
				if err := w.WriteHeader(&h); err != nil {
					t.Fatal(err)
				}
				if h.Size > 0 {
					_, _ = w.Write([]byte("x"))
				}
			}
			_ = w.Close()
			told := 0
			if err := Unpack(&text, place, "", func(string, string) { told++ }); err == nil && told == 0 {
				t.Error("it was not refused")
			}
			if names, err := os.ReadDir(place); err != nil || len(names) > 1 {
				t.Errorf("next to its top are %v, %v", names, err)
			}
			names, err := os.ReadDir(dir)
			kept, wrong := os.ReadFile(filepath.Join(dir, "kept"))
			if err != nil || wrong != nil || len(names) != 2 || string(kept) != "kept" {
				t.Errorf("%v: %q; %v, %v", names, kept, err, wrong)
			}
			if _, err := os.Lstat("/tmp/synapse-parcel-f"); err == nil {
				t.Error("a file was made by its absolute name")
			}
		})
	}
}

// TestLinkHere checks that a local link out of the target is not written through.
func TestLinkHere(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "from/sub/f"), []byte("new"), 0o644)
	write(t, filepath.Join(dir, "outside/f"), []byte("old"), 0o644)
	if err := os.MkdirAll(filepath.Join(dir, "place/from"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../outside", filepath.Join(dir, "place/from/sub")); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := Pack(&text, filepath.Join(dir, "from"), nil); err != nil {
		t.Fatal(err)
	}
	err := Unpack(&text, filepath.Join(dir, "place"), "", nil)
	if got, _ := os.ReadFile(filepath.Join(dir, "outside/f")); err == nil || string(got) != "old" {
		t.Errorf("%v; %q", err, got)
	}
}

// TestBroken checks that a truncated archive or a shrinking file is an error, and leaves no partial file.
func TestBroken(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f"), []byte(strings.Repeat("x", 5000)), 0o644)
	var text bytes.Buffer
	if err := Pack(&text, filepath.Join(dir, "f"), nil); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 100, 2000} {
		if err := Unpack(bytes.NewReader(text.Bytes()[:n]), filepath.Join(dir, "g"), "", nil); err == nil {
			t.Errorf("an archive of %d bytes was taken", n)
		}
	}
	if names, _ := os.ReadDir(dir); len(names) != 1 {
		t.Errorf("%v", names)
	}
}
