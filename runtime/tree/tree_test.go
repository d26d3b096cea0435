//go:build linux

package tree

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// depth far exceeds the length of paths and the number of descriptors of a process.
const depth = 120_000

// chain makes nested directories, with a file in the last one.
func chain(t *testing.T, top, name string, levels int) {
	t.Helper()
	at, err := unix.Open(top, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	for level := 0; level < levels && err == nil; level++ {
		if err = unix.Mkdirat(at, name, 0o700); err != nil {
			break
		}
		next, wrong := unix.Openat(at, name, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
		unix.Close(at)
		at, err = next, wrong
	}
	if err == nil {
		err = unix.Mknodat(at, "last", unix.S_IFREG|0o600, 0)
		unix.Close(at)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// fewDescriptors limits this process to a few more descriptors than it has open.
func fewDescriptors(t *testing.T) {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	var was unix.Rlimit
	if err == nil {
		err = unix.Getrlimit(unix.RLIMIT_NOFILE, &was)
	}
	if err == nil {
		err = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(len(open)) + maxOpen + 16, Max: was.Max})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &was) })
}

func mustBeGone(t *testing.T, path string) {
	t.Helper()
	if err := Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Fatalf("it is still there: %v", err)
	}
}

func always() bool      { return true }
func anyway(Usage) bool { return true }

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestDeep checks that 120,000 nested directories are counted and removed with a few descriptors.
func TestDeep(t *testing.T) {
	fewDescriptors(t)
	place, err := os.MkdirTemp("/dev/shm", "deep-") // a disk would take minutes for that many
	if err != nil {
		place = t.TempDir()
	}
	t.Cleanup(func() { _ = Remove(place) })
	for name, depth := range map[string]int{"d": depth, strings.Repeat("n", 255): depth / 10} {
		top := filepath.Join(place, "top")
		must(t, os.Mkdir(top, 0o700))
		chain(t, top, name, depth)
		if got, err := Measure(top, anyway); err != nil || got.Files != int64(depth)+2 {
			t.Errorf("%d files were counted: %v", got.Files, err)
		}
		mustBeGone(t, top)
	}
}

// TestManyDeep checks that directories that are moved to the top avoid existing names and each other's names.
func TestManyDeep(t *testing.T) {
	fewDescriptors(t)
	top := filepath.Join(t.TempDir(), "top")
	for i := range 10 {
		at := filepath.Join(top, fmt.Sprint("a", i), strings.Repeat("b/", maxOpen-3), "c")
		must(t, os.MkdirAll(at, 0o700), os.MkdirAll(filepath.Join(top, fmt.Sprint(".deep-", i), "x"), 0o700))
		chain(t, at, "d", 3*maxOpen)
		chain(t, at, "e", 3)
	}
	mustBeGone(t, top)
}

// TestWhatIsNotThere checks that a missing path counts as removed, and that a file or a link is removed like a tree.
func TestWhatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	must(t, Remove(filepath.Join(dir, "none")), Remove(filepath.Join(dir, "none", "none")))
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	must(t, os.WriteFile(file, nil, 0), os.Symlink(dir, link))
	mustBeGone(t, link)
	mustBeGone(t, file)
}

// TestLinksAreNotFollowed checks that the target of a link is not removed.
func TestLinksAreNotFollowed(t *testing.T) {
	dir := t.TempDir()
	top, outside := filepath.Join(dir, "top"), filepath.Join(dir, "outside")
	must(t, os.MkdirAll(filepath.Join(top, "a"), 0o700), os.Mkdir(outside, 0o700),
		os.WriteFile(filepath.Join(outside, "kept"), []byte("kept"), 0o600),
		os.Symlink(outside, filepath.Join(top, "a", "to")), os.Symlink("../..", filepath.Join(top, "a", "up")),
		os.Link(filepath.Join(outside, "kept"), filepath.Join(top, "a", "hard")))
	mustBeGone(t, top)
	if text, err := os.ReadFile(filepath.Join(outside, "kept")); string(text) != "kept" {
		t.Error(err)
	}
}

// TestClosed checks that modes of 0, other owners and protecting flags do not prevent a removal.
func TestClosed(t *testing.T) {
	top := filepath.Join(t.TempDir(), "top")
	closed, flagged := filepath.Join(top, "closed", "in"), filepath.Join(top, "flagged")
	must(t, os.MkdirAll(closed, 0o700), os.MkdirAll(flagged, 0o700), os.WriteFile(filepath.Join(closed, "file"), nil, 0))
	if os.Geteuid() == 0 {
		must(t, os.Chown(closed, 2_000_001, 2_000_001), os.Chown(filepath.Dir(closed), 2_000_002, 2_000_002))
	}
	must(t, os.Chmod(closed, 0), os.Chmod(filepath.Dir(closed), 0))
	for name, flag := range map[string]int{"immutable": unix.STATX_ATTR_IMMUTABLE, "append": unix.STATX_ATTR_APPEND} {
		must(t, os.WriteFile(filepath.Join(flagged, name), nil, 0o600))
		setFlag(t, filepath.Join(flagged, name), flag)
	}
	must(t, os.Mkdir(filepath.Join(flagged, "empty"), 0o700))
	setFlag(t, filepath.Join(flagged, "empty"), unix.STATX_ATTR_IMMUTABLE)
	setFlag(t, flagged, unix.STATX_ATTR_IMMUTABLE)
	mustBeGone(t, top)
}

// setFlag sets a flag of the file system, if it has flags and this process may set them.
func setFlag(t *testing.T, path string, flag int) {
	t.Helper()
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	if err := unix.IoctlSetPointerInt(int(file.Fd()), unix.FS_IOC_SETFLAGS, flag); err != nil {
		t.Logf("this file system or user sets no flags: %v", err)
	}
}

// TestGrowing checks that a removal ends even if the tree grows as fast as it is removed.
func TestGrowing(t *testing.T) {
	top := filepath.Join(t.TempDir(), "top")
	must(t, os.Mkdir(top, 0o700))
	var ended atomic.Bool
	grown := make(chan struct{})
	go func() {
		defer close(grown)
		for i := 0; !ended.Load(); i++ {
			_ = os.MkdirAll(filepath.Join(top, "d", fmt.Sprint(i)), 0o700)
			_ = os.WriteFile(filepath.Join(top, "d", fmt.Sprint(i), "f"), nil, 0o600)
		}
	}()
	if err := removeWithin(top, 20_000, always); err != nil && !errors.Is(err, errGrows) {
		t.Error(err)
	}
	ended.Store(true)
	<-grown
	if err := RemoveWhile(top, func() bool { return false }); err != nil && !errors.Is(err, ErrStopped) {
		t.Error(err)
	}
	for range 20 { // each removal continues where the previous one ended
		if err := removeWithin(top, 100_000, always); err == nil {
			return
		}
	}
	t.Error("it is never removed")
}

// TestMeasure checks that a file with several names counts once, that links and empty files count as files, and that a
// missing path counts as nothing.
func TestMeasure(t *testing.T) {
	top := filepath.Join(t.TempDir(), "top")
	if got, err := Measure(top, nil); err != nil || got != (Usage{}) {
		t.Error(got, err)
	}
	must(t, os.MkdirAll(filepath.Join(top, "a", "b"), 0o700))
	before, err := Measure(top, anyway)
	must(t, err)
	data := make([]byte, 1<<20)
	for i := range 300 {
		at := filepath.Join(top, fmt.Sprint("d", i))
		must(t, os.Mkdir(at, 0o700), os.WriteFile(filepath.Join(at, "f"), []byte("x"), 0o600))
	}
	must(t, os.WriteFile(filepath.Join(top, "large"), data, 0o600))
	for i := range 9 {
		must(t, os.Link(filepath.Join(top, "large"), filepath.Join(top, "a", "b", fmt.Sprint(i))))
	}
	got, err := Measure(top, anyway)
	must(t, err)
	if got.Files != before.Files+300+300+10 {
		t.Errorf("%d files", got.Files)
	}
	if bytes := got.Bytes - before.Bytes; bytes < 1<<20 || bytes > 1<<20+300*16<<10 {
		t.Errorf("%d bytes", bytes)
	}
	sofar, err := Measure(top, func(u Usage) bool { return u.Files < 300 })
	if !errors.Is(err, ErrStopped) || sofar.Files < 300 || sofar.Files >= got.Files {
		t.Errorf("stopped after %d files: %v", sofar.Files, err)
	}
}

// TestMeasureTooDeep checks that a tree too deep to be measured is reported.
func TestMeasureTooDeep(t *testing.T) {
	top := filepath.Join(t.TempDir(), "top")
	must(t, os.Mkdir(top, 0o700))
	chain(t, top, "d", 100)
	if got, err := measureWithin(top, 100, anyway); !errors.Is(err, ErrDeep) || got.Files != 101 {
		t.Errorf("%d files: %v", got.Files, err)
	}
	if got, err := measureWithin(top, 101, anyway); err != nil || got.Files != 102 {
		t.Errorf("%d files: %v", got.Files, err)
	}
	mustBeGone(t, top)
}

// TestMeasureWhileItChanges checks that concurrent removals, moves and new files, above and below the current
// directory, cause no error and leave no open descriptor.
func TestMeasureWhileItChanges(t *testing.T) {
	dir := t.TempDir()
	top, outside := filepath.Join(dir, "top"), filepath.Join(dir, "outside")
	must(t, os.Mkdir(top, 0o700), os.Mkdir(outside, 0o700))
	var ended atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; !ended.Load(); i++ {
			one, other := filepath.Join(top, fmt.Sprint(i%3)), filepath.Join(top, fmt.Sprint((i+1)%3))
			deep := filepath.Join(one, strings.Repeat("d/", 3*maxHeld))
			_ = os.MkdirAll(filepath.Join(deep, "e"), 0o700)
			_ = os.WriteFile(filepath.Join(deep, "f"), []byte("x"), 0o600)
			if i%7 == 0 {
				_ = os.Rename(filepath.Join(one, "d", "d", "d"), filepath.Join(other, fmt.Sprint("m", i%5)))
			}
			_ = os.Symlink(outside, filepath.Join(one, "link"))
			for j := range 64 {
				_ = os.WriteFile(filepath.Join(deep, "e", fmt.Sprint(j)), nil, 0o600)
			}
			_ = os.Rename(filepath.Join(one, strings.Repeat("d/", 2*maxHeld)), filepath.Join(outside, "moved"))
			_ = os.RemoveAll(filepath.Join(outside, "moved"))
		}
	}()
	open := func() int { entries, _ := os.ReadDir("/proc/self/fd"); return len(entries) }
	before := open()
	for began := time.Now(); time.Since(began) < 2*time.Second; {
		if got, err := Measure(top, anyway); err != nil {
			t.Errorf("%v: %v", got, err)
			break
		}
	}
	ended.Store(true)
	<-done
	if after := open(); after > before {
		t.Errorf("%d descriptors are open, before %d", after, before)
	}
	must(t, Remove(top))
}

// TestMeasureMovedAway checks that a part of the tree that is moved out during its measurement does not lead the
// measurement out. The offset at which reading continues depends on the hash of a name, so several names are tried.
func TestMeasureMovedAway(t *testing.T) {
	for _, name := range []string{"d", "e", "f", "g"} {
		dir := t.TempDir()
		top, outside := filepath.Join(dir, "top"), filepath.Join(dir, "outside")
		deep := filepath.Join(top, strings.Repeat(name+"/", 3*maxHeld))
		must(t, os.MkdirAll(deep, 0o700), os.Mkdir(outside, 0o700))
		for at := deep; at != dir; at = filepath.Dir(at) {
			for i := range 8 {
				must(t, os.WriteFile(filepath.Join(at, fmt.Sprint(i)), nil, 0o600))
			}
		}
		for i := range 100 {
			must(t, os.WriteFile(filepath.Join(outside, fmt.Sprint(i)), make([]byte, 1<<16), 0o600))
		}
		for i := range 3 * pace {
			must(t, os.WriteFile(filepath.Join(deep, fmt.Sprint("more", i)), nil, 0o600))
		}
		moved := false
		got, err := Measure(top, func(sofar Usage) bool {
			if sofar.Files > 10*3*maxHeld && !moved { // it is at the deepest level
				part := filepath.Join(top, strings.Repeat(name+"/", 2*maxHeld))
				must(t, os.Rename(part, filepath.Join(outside, "moved")))
				moved = true
			}
			return true
		})
		if err != nil || !moved || got.Bytes > 1<<20 {
			t.Errorf("%s: %v, moved: %v: %v", name, got, moved, err)
		}
	}
}
