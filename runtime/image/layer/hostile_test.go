//go:build linux

package layer_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/image/layer"
	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests malicious archives. Each is unpacked next to a host directory that it must not change.

// attack unpacks an archive in a directory with a neighbour, and returns the result of Unpack. In any case, nothing
// next to the layer may have changed.
func attack(t *testing.T, make func(neighbour string) []entry) (string, *layer.Changes, error) {
	t.Helper()
	room := t.TempDir()
	neighbour := filepath.Join(room, "neighbour")
	if err := os.Mkdir(neighbour, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(neighbour, "secret"), []byte("untouched"), 0o600); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(room, "layer")
	ctx, cancel := context.WithTimeout(t.Context(), pace.Of(time.Minute))
	defer cancel()
	changes, err := unpacker().Unpack(ctx, bytes.NewReader(pack(t, make(neighbour)...)), to)
	checkTree(t, neighbour, `secret "untouched"`)
	if links := statOf(t, filepath.Join(neighbour, "secret")).Nlink; links != 1 {
		t.Errorf("the neighbour's file has %d names", links)
	}
	names, wrong := os.ReadDir(room)
	if wrong != nil || len(names) != 2 {
		t.Errorf("there is more than the layer and its neighbour: %v %v", names, wrong)
	}
	return filepath.Join(to, "fs"), changes, err
}

func refused(t *testing.T, err error, why string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("got %v, want a refusal with %q", err, why)
	}
}

// TestNameGoesUp checks that names with .. are refused, also in the targets of links and in whiteouts.
func TestNameGoesUp(t *testing.T) {
	for _, bad := range []entry{
		file("../neighbour/secret", "x"), file("a/../../neighbour/secret", "x"), file("/../neighbour/new", "x"), dir(".."),
		hardlink("stolen", "../neighbour/secret"), file("../.wh.neighbour", ""), file("a/../../.wh.neighbour", ""),
		symlink("../escaped", "/"),
	} {
		_, _, err := attack(t, func(string) []entry { return []entry{bad} })
		if err == nil {
			t.Errorf("entry %q was not refused", bad.name)
		}
	}
}

// TestAbsoluteName checks that an absolute name is relative to the image's root.
func TestAbsoluteName(t *testing.T) {
	root, _, err := attack(t, func(neighbour string) []entry { return []entry{file(neighbour+"/secret", "inside")} })
	if err != nil {
		t.Fatal(err)
	}
	if found, _ := filepath.Glob(root + "/*/*"); len(found) == 0 {
		t.Error("the file is not in the image")
	}
}

// TestThroughAbsoluteLink writes through a link to a host directory. The result must be inside the image.
func TestThroughAbsoluteLink(t *testing.T) {
	root, _, err := attack(t, func(neighbour string) []entry {
		return []entry{symlink("out", neighbour), file("out/secret", "inside"), file("out/new", "inside")}
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(tree(t, root), `/neighbour/secret "inside"`) {
		t.Errorf("the link does not lead below the image's root:\n%s", tree(t, root))
	}
}

// TestThroughRelativeLink leaves the directory by a link instead of a name.
func TestThroughRelativeLink(t *testing.T) {
	for _, target := range []string{"../../neighbour", "../../../../../../../../../..", "x/../../../neighbour"} {
		_, _, err := attack(t, func(string) []entry {
			return []entry{dir("x"), symlink("out", target), file("out/secret", "inside"), hardlink("stolen", "out/secret")}
		})
		if err != nil {
			t.Errorf("%s: %v", target, err)
		}
	}
}

// TestLinkReplacesParent replaces a directory with a link between two of its entries.
func TestLinkReplacesParent(t *testing.T) {
	root, _, err := attack(t, func(neighbour string) []entry {
		return []entry{dir("d"), file("d/a", "1"), symlink("d", neighbour), file("d/secret", "inside"), file("d/b", "2")}
	})
	if err != nil {
		t.Fatal(err)
	}
	if text := tree(t, root); !strings.Contains(text, "d -> ") || !strings.Contains(text, `/neighbour/b "2"`) {
		t.Errorf("the entries did not go where the link leads within the image:\n%s", text)
	}
}

// TestFileReplacesLink checks that a file with the name of a link replaces the link and does not follow it.
func TestFileReplacesLink(t *testing.T) {
	root, _, err := attack(t, func(neighbour string) []entry {
		return []entry{
			symlink("f", neighbour+"/secret"), file("f", "mine"), symlink("g", "f"), hardlink("g", "f"),
			symlink("h", neighbour), dir("h"),
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	checkTree(t, root, `f "mine"`, `g "mine"`, "h/")
}

// TestHardLinkOut checks that the target of a hard link is inside the image, or that there is no link.
func TestHardLinkOut(t *testing.T) {
	root, changes, err := attack(t, func(neighbour string) []entry {
		return []entry{symlink("out", neighbour), hardlink("stolen", "out/secret"), hardlink("too", neighbour+"/secret")}
	})
	if err != nil {
		t.Fatal(err)
	}
	if text := tree(t, root); strings.Contains(text, "stolen") || strings.Contains(text, "untouched") ||
		len(changes.Links) != 2 {
		t.Errorf("the links were made, or not noted: %+v\n%s", changes, text)
	}
	err = layer.Assemble(t.Context(), []string{filepath.Dir(root)}, filepath.Join(t.TempDir(), "rootfs"), layer.Limits{})
	refused(t, err, "no such file")
}

// TestHardLinkToLink checks that a hard link to a link does not follow it, and that directories cannot be linked.
func TestHardLinkToLink(t *testing.T) {
	root, _, err := attack(t, func(neighbour string) []entry {
		return []entry{symlink("l", neighbour+"/secret"), hardlink("m", "l")}
	})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(filepath.Join(root, "m")); err != nil || info.Mode().Type() != os.ModeSymlink {
		t.Errorf("%v %v", info, err)
	}
	_, _, err = attack(t, func(string) []entry { return []entry{dir("d"), hardlink("e", "d")} })
	refused(t, err, "not permitted")
}

// TestDevices checks that device nodes of any name are omitted. Overlay would treat one of number 0:0 as a whiteout.
func TestDevices(t *testing.T) {
	root, changes, err := attack(t, func(string) []entry {
		return []entry{
			{name: "dev/sda", kind: tar.TypeBlock}, {name: "null", kind: tar.TypeChar}, file("f", "x"),
			{name: "f", kind: tar.TypeChar}, {name: "pipe", kind: tar.TypeFifo, mode: 0o640},
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	checkTree(t, root, `f "x"`, "pipe p---------")
	if changes.Devices != 3 {
		t.Errorf("%d devices were counted, not 3", changes.Devices)
	}
	if mode := statOf(t, filepath.Join(root, "pipe")).Mode & 0o7777; os.Geteuid() == 0 && mode != 0o640 {
		t.Errorf("the pipe's mode is %o", mode)
	}
}

// TestSetID checks that files lose set-id bits, capabilities and overlay attributes, which would give rights on the
// host.
func TestSetID(t *testing.T) {
	capability := "\x01\x00\x00\x02\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	root, _, err := attack(t, func(string) []entry {
		return []entry{
			{name: "su", mode: 0o6755, records: map[string]string{
				"SCHILY.xattr.security.capability": capability, "SCHILY.xattr.trusted.overlay.redirect": "/etc",
				"SCHILY.xattr.user.kept": "yes", "SCHILY.xattr.user.overlay.opaque": "y",
			}},
			{name: "shared", kind: tar.TypeDir, mode: 0o3775},
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if mode := statOf(t, filepath.Join(root, "su")).Mode & 0o7777; mode != 0o755 {
		t.Errorf("the file's mode is %o", mode)
	}
	if mode := statOf(t, filepath.Join(root, "shared")).Mode & 0o7777; mode != 0o3775 {
		t.Errorf("the directory's mode is %o", mode)
	}
	names := make([]byte, 4096)
	n, err := unix.Listxattr(filepath.Join(root, "su"), names)
	if got := string(names[:max(n, 0)]); err == nil && got != "user.kept\x00" && got != "" {
		t.Errorf("attributes: %q", got)
	}
}

// TestSparse checks that a file with a huge size in its header is refused before any byte is written, and that a file
// of zeros uses no disk space.
func TestSparse(t *testing.T) {
	sparse := map[string]string{
		"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "huge",
		"GNU.sparse.realsize": "1125899906842624",
	}
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	header := &tar.Header{Name: "huge", Mode: 0o644, Size: 512, Typeflag: tar.TypeReg}
	if err := archive.WriteHeader(header); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.Write(append([]byte("1\n1125899906842624\n0\n"), make([]byte, 512-21)...)); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	// The library writes no sparse records, so the test adds them before the archive.
	var records bytes.Buffer
	for key, value := range sparse {
		line := fmt.Sprintf(" %s=%s\n", key, value)
		size := len(line) + 2
		for len(fmt.Sprint(size))+len(line) != size {
			size++
		}
		fmt.Fprintf(&records, "%d%s", size, line)
	}
	_, _, err := unpackBytes(t, append(rawEntry('x', "pax", records.Bytes()), out.Bytes()...))
	refused(t, err, "limit")

	to, _ := mustUnpack(t, file("zeros", strings.Repeat("\x00", 8<<20)), file("tail", strings.Repeat("\x00", 1<<20)+"end"))
	if stat := statOf(t, filepath.Join(to, "fs", "zeros")); stat.Size != 8<<20 || stat.Blocks > 64 {
		t.Errorf("%d bytes in %d blocks", stat.Size, stat.Blocks)
	}
	if body, err := os.ReadFile(filepath.Join(to, "fs", "tail")); err != nil || len(body) != 1<<20+3 ||
		!bytes.HasSuffix(body, []byte("\x00end")) {
		t.Errorf("%d bytes, %v", len(body), err)
	}
}

// rawEntry returns an entry of any type with a minimal valid header.
func rawEntry(kind byte, name string, body []byte) []byte {
	header := make([]byte, 512)
	copy(header, name)
	copy(header[100:], "0000644\x000000000\x000000000\x00")
	copy(header[124:], fmt.Sprintf("%011o\x0000000000000\x00", len(body)))
	header[156] = kind
	copy(header[257:], "ustar\x0000")
	copy(header[148:], "        ")
	sum := 0
	for _, b := range header {
		sum += int(b)
	}
	copy(header[148:], fmt.Sprintf("%06o\x00 ", sum))
	return append(append(header, body...), make([]byte, (512-len(body)%512)%512)...)
}

// TestManyEntries checks that a stream of too many entries ends early, and that its memory use is bounded.
func TestManyEntries(t *testing.T) {
	one := pack(t, dir("d"))[:512]
	limited := unpacker()
	limited.Limits.Entries = 50_000
	endless := &repeating{piece: bytes.Repeat(one, 128), times: 8192} // 1,048,576 entries
	_, err := limited.Unpack(t.Context(), endless, filepath.Join(t.TempDir(), "layer"))
	refused(t, err, "more than 50000 entries")
	if endless.times < 4096 {
		t.Errorf("%d pieces are left; it read on after the refusal", endless.times)
	}
}

// repeating is a reader that repeats one piece.
type repeating struct {
	piece []byte
	times int
	left  []byte
}

func (r *repeating) Read(p []byte) (int, error) {
	if len(r.left) == 0 {
		if r.times == 0 {
			return 0, io.EOF
		}
		r.times--
		r.left = r.piece
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// TestBombs checks that a small stream with a large unpacked size is refused at the limit.
func TestBombs(t *testing.T) {
	const size = 3 << 20
	var packed, frames bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	framed, err := zstd.NewWriter(&frames)
	if err != nil {
		t.Fatal(err)
	}
	head := rawEntry('0', "bomb", nil)
	copy(head[124:], fmt.Sprintf("%011o\x00", int64(size))) // just below the limit, three times
	head = sum(head)
	for range 3 {
		for _, to := range []io.Writer{zipped, framed} {
			if _, err := to.Write(append(bytes.Clone(head), make([]byte, size)...)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(zipped.Close(), framed.Close()); err != nil {
		t.Fatal(err)
	}
	for _, archive := range [][]byte{packed.Bytes(), frames.Bytes()} {
		limited := unpacker()
		limited.Limits.Bytes = size + size/4
		_, err := limited.Unpack(t.Context(), bytes.NewReader(archive), filepath.Join(t.TempDir(), "layer"))
		refused(t, err, "limit")
	}
}

// sum corrects the checksum of a header.
func sum(header []byte) []byte {
	copy(header[148:], "        ")
	total := 0
	for _, b := range header[:512] {
		total += int(b)
	}
	copy(header[148:], fmt.Sprintf("%06o\x00 ", total))
	return header
}

// TestDeepDirectories checks that links cannot create directories deeper than a path can name. Such directories could
// not be removed.
func TestDeepDirectories(t *testing.T) {
	step := strings.Repeat("d/", 400)
	var entries []entry
	at := "."
	for i := range 40 {
		link := fmt.Sprintf("l%d", i)
		entries = append(entries, file(at+"/"+step+"f", ""), symlink(link, at+"/"+step))
		at = link
	}
	to, _, err := unpack(t, entries...)
	if err == nil {
		t.Error("16,000 levels were made")
	}
	if err := os.RemoveAll(to); err != nil {
		t.Error(err)
	}
	_, _, err = unpack(t, file(strings.Repeat("d/", 600)+"f", ""))
	refused(t, err, "levels")
	_, _, err = unpack(t, file(strings.Repeat("n", 256), ""))
	refused(t, err, "255 bytes")
}

// TestBadWhiteouts checks whiteouts that name nothing or are used as directories.
func TestBadWhiteouts(t *testing.T) {
	for _, name := range []string{".wh.", ".wh..", ".wh...", "a/.wh.", ".wh.d/f"} {
		_, _, err := attack(t, func(string) []entry { return []entry{file(name, "")} })
		refused(t, err, "whiteout")
	}
	_, changes := mustUnpack(t, file(".wh..wh.plnk", ""), file(".wh..wh.aufs", ""))
	if len(changes.Whiteouts) != 0 {
		t.Errorf("%v", changes.Whiteouts)
	}
}

// TestBadArchives checks that a damaged archive is refused with the reason.
func TestBadArchives(t *testing.T) {
	whole := pack(t, file("f", strings.Repeat("x", 4096)))
	var zipped bytes.Buffer
	writer := gzip.NewWriter(&zipped)
	if _, err := writer.Write(whole); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(zipped.Bytes())
	flipped[len(flipped)-6] ^= 1 // its checksum
	for what, one := range map[string]struct {
		archive []byte
		why     string
	}{
		"cut":          {whole[:2000], "ends after 1488 of the file's 4096 bytes"},
		"cut file":     {whole[:700], "ends after 188 of the file's 4096 bytes"},
		"cut gzip":     {zipped.Bytes()[:zipped.Len()/2], "unexpected EOF"},
		"flipped gzip": {flipped, "checksum"},
		"trailing":     {append(bytes.Clone(zipped.Bytes()), "rubbish"...), "cannot be read"},
		"no archive":   {bytes.Repeat([]byte("text "), 200), "not a tar archive"},
		"short":        {[]byte("no"), "not a tar archive"},
		"unknown type": {rawEntry('Z', "f", nil), "unknown"},
		"bad owner":    {pack(t, entry{name: "f", uid: 1<<33 + 1}), "owner"},
		"file as root": {pack(t, file(".", "")), "the root must be a directory"},
		"file as dir":  {pack(t, file("f", ""), file("f/g", "")), "not a directory"},
		"link to self": {pack(t, hardlink("a", "a")), "itself"},
		"link loop":    {pack(t, symlink("a", "b"), symlink("b", "a"), file("a/f", "")), "symbolic links"},
	} {
		if _, _, err := unpackBytes(t, one.archive); err == nil || !strings.Contains(err.Error(), one.why) {
			t.Errorf("%s: got %v, want %q", what, err, one.why)
		}
	}
}

// TestStoppedInTheMiddle checks that Unpack returns without a child process when the context ends.
func TestStoppedInTheMiddle(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	defer writer.Close()
	go func() {
		_, _ = writer.Write(pack(t, file("f", "body"))[:1024]) // one file, and no end
		cancel()
		reader.Close()
	}()
	if _, err := unpacker().Unpack(ctx, reader, filepath.Join(t.TempDir(), "layer")); err == nil {
		t.Error("half an archive was taken for a layer")
	}
}

// TestChildHasNoRights checks a running child: it is nobody, in the layer's directory, with four capabilities.
func TestChildHasNoRights(t *testing.T) {
	able.Need(t, able.Root, able.Strangers)
	to := filepath.Join(t.TempDir(), "layer")
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := unpacker().Unpack(t.Context(), reader, to)
		ended <- err
	}()
	archive := pack(t, file("f", strings.Repeat("body", 1024)))
	if _, err := writer.Write(archive[:600]); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(pace.Of(time.Minute))
	for found := false; !found; {
		select {
		case err := <-ended:
			t.Fatalf("the child has ended, and the archive has not: %v", err)
		case <-deadline:
			t.Fatal("no child went into the layer's directory")
		default:
		}
		found = seeChild(t, filepath.Join(to, "fs"))
		time.Sleep(time.Millisecond) // polls, because the child is another process
	}
	if _, err := writer.Write(archive[600:]); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// seeChild finds and checks the process whose root is the directory.
func seeChild(t *testing.T, root string) bool {
	roots, _ := filepath.Glob("/proc/[0-9]*/root")
	for _, link := range roots {
		if at, err := os.Readlink(link); err != nil || at != root {
			continue
		}
		// The first thread does the work, because it is locked before any input is read.
		status, err := os.ReadFile(filepath.Join(filepath.Dir(link), "status"))
		if err != nil || !strings.Contains(string(status), "CapEff:\t000000000000001b\n") {
			return false // the child is still dropping its rights
		}
		for _, want := range []string{
			"Uid:\t65534\t65534\t65534\t65534\n", "Gid:\t65534\t65534\t65534\t65534\n", "NoNewPrivs:\t1\n",
			"CapPrm:\t000000000000001b\n",
		} {
			if !strings.Contains(string(status), want) {
				t.Errorf("the child's status has not %q:\n%s", want, status)
			}
		}
		return true
	}
	return false
}
