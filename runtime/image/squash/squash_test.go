//go:build linux

package squash_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yi-json/synapse/runtime/image/squash"
	"github.com/yi-json/synapse/test/able"
)

// This file compares archives of images that mksquashfs has made with the files in them.

// planted makes a folder with files of all kinds and sizes, and returns it.
func planted(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "root")
	random := rand.New(rand.NewPCG(1, 2))
	noise := func(n int) []byte {
		out := make([]byte, n)
		for i := range out {
			out[i] = byte(random.UintN(256))
		}
		return out
	}
	text := []byte(strings.Repeat("the same line again, and again\n", 20_000)) // several blocks
	files := map[string][]byte{"empty": nil, "bin/small": []byte("#!/bin/sh\n"), "text": text,
		"noise": noise(300_000),
		"exact": noise(131_072), "mixed": slices.Concat(text[:200_000], noise(90_000), text[:77]),
		"holes":                make([]byte, 500_000),
		"deep/er/and/deeper/x": text[:5_000], "etc/environment": []byte("PATH=/opt/bin:/bin\nLANG=C.UTF-8\n")}
	for i := range 700 { // several blocks of metadata
		files[fmt.Sprintf("many/%04d-%s", i, strings.Repeat("n", i%90))] = text[:i*13]
	}
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(os.Chmod(filepath.Join(dir, "bin/small"), 0o755), os.Symlink("../text",
		filepath.Join(dir, "bin/link")),
		os.Link(filepath.Join(dir, "text"), filepath.Join(dir, "bin/same")), os.Mkdir(filepath.Join(dir,
			"nothing"), 0o700))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// squashed makes an image of a folder.
func squashed(t testing.TB, dir string, options ...string) string {
	t.Helper()
	able.Need(t, able.Program("mksquashfs"))
	out := filepath.Join(t.TempDir(), "image.sqsh")
	if text, err := exec.Command("mksquashfs", append([]string{dir, out, "-quiet", "-no-progress",
		"-processors", "1"},
		options...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// archived returns the archive of an image.
func archived(file io.ReaderAt, size int64, most int) ([]byte, error) {
	x, err := squash.Open(file, size)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = x.Tar(&limited{&out, most}, 10_000, nil)
	return out.Bytes(), err
}

// limited is a writer that takes only some bytes.
type limited struct {
	to   io.Writer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, errors.New("too large")
	}
	return l.to.Write(p)
}

// TestTar checks that the archive has the names, kinds, modes and contents of all files, with each compressor.
func TestTar(t *testing.T) {
	dir := planted(t)
	var first []byte
	for _, how := range [][]string{{"-comp", "gzip"}, {"-comp", "zstd"}, {"-comp", "lz4"}, {"-comp", "lz4",
		"-Xhc"}, {"-comp", "lzo"},
		{"-comp", "lzo", "-Xalgorithm", "lzo1x_1_11"}, {"-noI", "-noD", "-noF", "-noX"}, {"-comp", "lzo",
			"-noD"}, {"-no-fragments"},
		{"-always-use-fragments"}, {"-b", "4096"}, {"-b", "1M", "-no-exports", "-no-xattrs"}} {
		image, err := os.Open(squashed(t, dir, how...))
		if err != nil {
			t.Fatal(err)
		}
		stat, err := image.Stat()
		if err != nil || !squash.Is(image) {
			t.Fatal(err, how)
		}
		text, err := archived(image, stat.Size(), 64<<20)
		if err != nil {
			t.Errorf("%v: %v", how, err)
			continue
		}
		if first == nil {
			first = text
			compared(t, dir, text)
		}
		if !bytes.Equal(text, first) {
			t.Errorf("%v gives another archive", how)
		}
	}
}

// compared compares an archive with a folder.
func compared(t *testing.T, dir string, text []byte) {
	t.Helper()
	n := 0
	for reader := tar.NewReader(bytes.NewReader(text)); ; n++ {
		header, err := reader.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, header.Name)
		content, err := io.ReadAll(reader)
		stat, failed := os.Lstat(path)
		if err != nil || failed != nil {
			t.Fatal(header.Name, err, failed)
		}
		if stat.Mode().Perm() != header.FileInfo().Mode().Perm() || stat.ModTime().Unix() != header.ModTime.Unix() {
			t.Errorf("%s: %v %v", header.Name, header.FileInfo().Mode(), header.ModTime)
		}
		switch header.Typeflag {
		case tar.TypeReg:
			if want, err := os.ReadFile(path); err != nil || sha256.Sum256(want) != sha256.Sum256(content) {
				t.Errorf("%s has %d bytes, and not %d (%v)", header.Name, len(content), len(want), err)
			}
		case tar.TypeSymlink:
			if want, err := os.Readlink(path); err != nil || want != header.Linkname {
				t.Errorf("%s leads to %s, and not %s", header.Name, header.Linkname, want)
			}
		case tar.TypeLink:
			if header.Name != "text" || header.Linkname != "bin/same" {
				t.Errorf("%s is %s", header.Name, header.Linkname)
			}
		case tar.TypeDir:
			if !stat.IsDir() {
				t.Errorf("%s is no folder", header.Name)
			}
		default:
			t.Errorf("%s has the type %c", header.Name, header.Typeflag)
		}
	}
	want := 0
	if err := filepath.WalkDir(dir, func(string, os.DirEntry, error) error { want++; return nil }); err != nil ||
		n != want {
		t.Errorf("the archive has %d entries, and not %d (%v)", n, want, err)
	}
}

// TestDamaged checks that no damage of an image leads to a panic or to an endless archive: each byte of the tables is
// changed once, and the image is cut.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a": "one", "b/c": strings.Repeat("two", 3_000), "b/d": ""} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755),
			os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, how := range [][]string{{"-comp", "lzo"}, {"-comp", "lz4"}, {"-noI", "-noD", "-noF", "-noX", "-b",
		"4096"}} {
		good, err := os.ReadFile(squashed(t, dir, how...))
		if err != nil {
			t.Fatal(err)
		}
		good = good[:min(len(good), 1<<10)]
		failed := 0
		for at := range good {
			for _, flip := range []byte{1, 0x80} {
				bad := slices.Clone(good)
				bad[at] ^= flip
				if _, err := archived(bytes.NewReader(bad), int64(len(bad)), 1<<18); err != nil {
					failed++
				}
			}
			if _, err := archived(bytes.NewReader(good[:at]), int64(at), 1<<18); err == nil && at < 96 {
				t.Errorf("%v: cut at %d", how, at)
			}
		}
		if failed < 100 {
			t.Errorf("%v: only %d damages were found", how, failed)
		}
	}
	xz := squashed(t, dir, "-comp", "xz")
	file, err := os.Open(xz)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := squash.Open(file, 1<<20); err == nil || !strings.Contains(err.Error(), "-comp zstd") {
		t.Errorf("xz: %v", err)
	}
}

// FuzzTar reads drawn images.
func FuzzTar(f *testing.F) {
	f.Add([]byte("hsqs"))
	f.Fuzz(func(_ *testing.T, image []byte) { _, _ = archived(bytes.NewReader(image), int64(len(image)), 1<<18) })
}
