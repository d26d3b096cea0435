//go:build linux

package layer_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/yi-json/synapse/runtime/image/layer"
)

// TestUnpack checks that every kind of entry is made with its mode, owner and time.
func TestUnpack(t *testing.T) {
	to, changes := mustUnpack(t,
		entry{name: "./", kind: tar.TypeDir, mode: 0o750}, dir("etc/"),
		entry{name: "./etc/passwd", body: "root", mode: 0o640, uid: 7, gid: 8},
		symlink("bin", "usr/bin"), dir("usr"), dir("usr/bin"), file("usr/bin/sh", "shell"),
		hardlink("usr/bin/bash", "usr/bin/sh"), file("empty", ""),
		hardlink("bin/dash", "/bin/sh"), entry{name: "closed", kind: tar.TypeDir, mode: 0o500}, file("closed/f", "1"),
	)
	root := filepath.Join(to, "fs")
	checkTree(t, root, "bin -> usr/bin", "closed/", `closed/f "1"`, `empty ""`, "etc/", `etc/passwd "root"`, "usr/", "usr/bin/", `usr/bin/bash "shell"`, `usr/bin/dash "shell"`, `usr/bin/sh "shell"`)
	stat := statOf(t, filepath.Join(root, "etc/passwd"))
	if os.Geteuid() == 0 &&
		(stat.Mode&0o7777 != 0o640 || stat.Uid != 7 || stat.Gid != 8 || statOf(t, root).Mode&0o7777 != 0o750) {
		t.Errorf("owner and mode: %+v", stat)
	}
	for _, name := range []string{"", "etc", "etc/passwd", "bin", "usr/bin", "closed"} {
		if sec := statOf(t, filepath.Join(root, name)).Mtim.Sec; sec != stamp.Unix() {
			t.Errorf("the time of %q is %d", name, sec)
		}
	}
	if links := statOf(t, filepath.Join(root, "usr/bin/sh")).Nlink; links != 3 {
		t.Errorf("%d names for one file, not 3", links)
	}
	again, err := layer.Read(to)
	if err != nil || again.DiffID != changes.DiffID || changes.Entries != 12 || len(changes.Implied) != 0 {
		t.Errorf("%+v, read again %+v, %v", changes, again, err)
	}
}

// TestPacking checks that plain, gzip and zstd streams are detected by their first bytes and have the same digest.
func TestPacking(t *testing.T) {
	plain := pack(t, file("f", strings.Repeat("text", 1000)))
	var zipped, framed bytes.Buffer
	writer := gzip.NewWriter(&zipped)
	if _, err := writer.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	frames, err := zstd.NewWriter(&framed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := frames.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := frames.Close(); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("sha256:%x", sha256.Sum256(plain))
	for what, archive := range map[string][]byte{"plain": plain, "gzip": zipped.Bytes(), "zstd": framed.Bytes()} {
		to, changes, err := unpackBytes(t, archive)
		if err != nil || changes.DiffID != want {
			t.Errorf("%s: %+v %v", what, changes, err)
			continue
		}
		checkTree(t, filepath.Join(to, "fs"), fmt.Sprintf("f %q", strings.Repeat("text", 1000)))
	}
	// Data after the end counts for the digest. An empty stream is an archive too.
	padded := append(bytes.Clone(plain), make([]byte, 10240)...)
	if _, changes, err := unpackBytes(t, padded); err != nil || changes.DiffID != fmt.Sprintf("sha256:%x",
		sha256.Sum256(padded)) {
		t.Errorf("padded: %+v %v", changes, err)
	}
	if _, changes, err := unpackBytes(t, nil); err != nil || changes.DiffID != fmt.Sprintf("sha256:%x",
		sha256.Sum256(nil)) {
		t.Errorf("empty: %+v %v", changes, err)
	}
}

// TestDuplicates checks that the last entry of a name counts.
func TestDuplicates(t *testing.T) {
	to, changes := mustUnpack(t,
		file("a", "1"), file("a", "2"), dir("d"), file("d/x", "x"), file("d", "now a file"), file("e", "file"), dir("e"),
		file("e/y", "y"), hardlink("later", "below"), file("later", "here"), dir("k"), file("k/z", "z"), dir("k"),
	)
	checkTree(t, filepath.Join(to, "fs"), `a "2"`, `d "now a file"`, "e/", `e/y "y"`, "k/", `k/z "z"`, `later "here"`)
	if len(changes.Links) != 0 {
		t.Errorf("%v", changes.Links)
	}
}

// TestWhiteouts checks that whiteouts remove files of lower layers and none of their own layer.
func TestWhiteouts(t *testing.T) {
	root := assemble(t,
		[]entry{dir("a"), file("a/1", "1"), file("a/2", "2"), dir("b"), file("b/x", "x"), dir("b/sub"), file("b/sub/y", "y"),
			dir("c"), file("c/k", "k"), file("f", "f")},
		[]entry{dir("a"), file("a/.wh.1", ""), file("a/3", "3"), dir("b"), file("b/new", "new"), file("b/.wh..wh..opq", ""),
			file(".wh.c", ""), file(".wh.f", ""), file("f", "again"), file(".wh.never", "")},
	)
	checkTree(t, root, "a/", `a/2 "2"`, `a/3 "3"`, "b/", `b/new "new"`, `f "again"`)
	again := assemble(t, []entry{file("c/k", "k")}, []entry{file(".wh.c", "")}, []entry{dir("c"), file("c/l", "l")})
	checkTree(t, again, "c/", `c/l "l"`)
}

// TestWhiteoutThroughLink checks that a whiteout below a link removes the file that the link leads to, inside the
// image.
func TestWhiteoutThroughLink(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "kept")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	root := assemble(t,
		[]entry{symlink("lib", "/usr/lib"), dir("usr/lib"), file("usr/lib/a", "a"), file("usr/lib/b", "b"),
			symlink("out", filepath.Dir(outside)), symlink("up", "../../../..")},
		[]entry{file("lib/.wh.a", ""), file("out/.wh.kept", ""), file("out/.wh..wh..opq", ""), file("up/.wh.usr2", "")},
	)
	checkTree(t, root, "lib -> /usr/lib", "out -> "+filepath.Dir(outside), "up -> ../../../..", "usr/", "usr/lib/", `usr/lib/b "b"`)
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
}

// TestLayersReplace checks that a file of an upper layer replaces that of a lower layer, for all kinds of files.
func TestLayersReplace(t *testing.T) {
	root := assemble(t,
		[]entry{file("f-f", "1"), dir("d-f"), file("d-f/x", ""), file("f-d", "1"), symlink("l-f", "/etc"),
			symlink("l-d", "/etc"), dir("d-l"), file("d-l/x", ""), dir("d-d"), file("d-d/a", "a")},
		[]entry{file("f-f", "2"), file("d-f", "2"), dir("f-d"), file("l-f", "2"), dir("l-d"), symlink("d-l", "f-f"),
			entry{name: "d-d", kind: tar.TypeDir, mode: 0o711}, file("d-d/b", "b")},
	)
	checkTree(t, root, "d-d/", `d-d/a "a"`, `d-d/b "b"`, `d-f "2"`, "d-l -> f-f", "f-d/", `f-f "2"`, "l-d/", `l-f "2"`)
	if mode := statOf(t, filepath.Join(root, "d-d")).Mode & 0o777; mode != 0o711 {
		t.Errorf("mode %o", mode)
	}
}

// TestImpliedDirectories checks a layer that contains lib/x. Without an entry for lib, it follows the link of the lower
// layer. With an entry, it replaces the link with a directory. A lower directory keeps its mode.
func TestImpliedDirectories(t *testing.T) {
	base := []entry{
		symlink("lib", "usr/lib"), entry{name: "usr", kind: tar.TypeDir, mode: 0o755},
		entry{name: "usr/lib", kind: tar.TypeDir, mode: 0o711, uid: 5}, symlink("far", "/usr/lib"),
		symlink("gone", "nowhere"),
	}
	root := assemble(t, base, []entry{file("lib/x", "x"), file("far/deep/y", "y"), file("gone/z", "z")})
	checkTree(t, root, "far -> /usr/lib", "gone/", `gone/z "z"`, "lib -> usr/lib", "usr/", "usr/lib/", "usr/lib/deep/", `usr/lib/deep/y "y"`, `usr/lib/x "x"`)
	if stat := statOf(t, filepath.Join(root, "usr/lib")); stat.Mode&0o777 != 0o711 || os.Geteuid() == 0 && stat.Uid != 5 {
		t.Errorf("%+v", stat)
	}
	if stat := statOf(t, filepath.Join(root, "usr/lib/deep")); stat.Mode&0o777 != 0o755 || int(stat.Uid) != os.Geteuid() {
		t.Errorf("%+v", stat)
	}
	checkTree(t, assemble(t, base, []entry{dir("lib"), file("lib/x", "x")}),
		"far -> /usr/lib", "gone -> nowhere", "lib/", `lib/x "x"`, "usr/", "usr/lib/")
	// A link of the same layer to a directory of a lower layer.
	checkTree(t, assemble(t, []entry{dir("opt/real"), file("opt/real/a", "a")},
		[]entry{symlink("short", "opt/real"), file("short/b", "b")}),
		"opt/", "opt/real/", `opt/real/a "a"`, `opt/real/b "b"`, "short -> opt/real")
}

// TestLinkBelow checks that a hard link to a file of a lower layer is the same file.
func TestLinkBelow(t *testing.T) {
	root := assemble(t, []entry{dir("bin"), file("bin/a", "a")}, []entry{hardlink("b", "bin/a"), hardlink("c", "b")})
	checkTree(t, root, `b "a"`, "bin/", `bin/a "a"`, `c "a"`)
	if stat := statOf(t, filepath.Join(root, "c")); stat.Ino != statOf(t, filepath.Join(root, "bin/a")).Ino {
		t.Error("it is another file")
	}
	_, err := tryAssemble(t, []entry{hardlink("b", "nowhere")})
	refused(t, err, "no such file")
}

// TestShared checks that a rootfs uses no disk space for files, and that a layer on top does not change a lower one.
func TestShared(t *testing.T) {
	below, _ := mustUnpack(t, dir("d"), file("d/f", "one"), symlink("l", "d"))
	above, _ := mustUnpack(t, dir("d"), file("d/f", "two"), file("d/.wh.g", ""))
	before := tree(t, below)
	first, second := filepath.Join(t.TempDir(), "1"), filepath.Join(t.TempDir(), "2")
	if err := layer.Assemble(t.Context(), []string{below}, first, layer.Limits{}); err != nil {
		t.Fatal(err)
	}
	if err := layer.Assemble(t.Context(), []string{below, above}, second, layer.Limits{}); err != nil {
		t.Fatal(err)
	}
	if statOf(t, filepath.Join(first, "d/f")).Ino != statOf(t, filepath.Join(below, "fs/d/f")).Ino {
		t.Error("the rootfs has a copy")
	}
	checkTree(t, first, "d/", `d/f "one"`, "l -> d")
	checkTree(t, second, "d/", `d/f "two"`, "l -> d")
	if after := tree(t, below); after != before {
		t.Errorf("the layer has changed:\n%s", after)
	}
}

// TestTooManyLinks checks that a file with the maximum number of links is copied.
func TestTooManyLinks(t *testing.T) {
	below, _ := mustUnpack(t, entry{name: "f", body: "body", mode: 0o640, uid: 3}, symlink("l", "f"))
	one := filepath.Join(below, "fs", "f")
	extra := t.TempDir()
	full := false
	for i := range 70_000 {
		if err := os.Link(one, filepath.Join(extra, fmt.Sprint(i))); err != nil {
			full = true
			break
		}
	}
	if !full {
		t.Skip("this file system lets a file have more than 70,000 names")
	}
	root := filepath.Join(t.TempDir(), "rootfs")
	if err := layer.Assemble(t.Context(), []string{below}, root, layer.Limits{}); err != nil {
		t.Fatal(err)
	}
	checkTree(t, root, `f "body"`, "l -> f")
	if copied := statOf(t, filepath.Join(root, "f")); copied.Nlink != 1 || copied.Mode != statOf(t, one).Mode ||
		copied.Uid != statOf(t, one).Uid || copied.Mtim.Sec != stamp.Unix() {
		t.Errorf("the copy: %+v", copied)
	}
}
