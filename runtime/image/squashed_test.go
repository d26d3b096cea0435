//go:build linux

package image_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yi-json/synapse/runtime/image"
	"github.com/yi-json/synapse/test/able"
)

// squashedImage makes a SquashFS image of some files: name, content, name, content …
func squashedImage(t *testing.T, path string, files ...string) {
	t.Helper()
	able.Need(t, able.Program("mksquashfs"))
	root := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		name := filepath.Join(root, files[i])
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(files[i+1]),
			0o755)); err != nil {
			t.Fatal(err)
		}
	}
	text, err := exec.Command("mksquashfs", root, path, "-quiet", "-no-progress", "-all-root", "-noappend", "-comp",
		"zstd").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// TestSquashed checks that a SquashFS image is one layer with the environment of enroot, that its content is stored
// once under any name, that a changed file is another image, and that a damaged one leaves nothing behind.
func TestSquashed(t *testing.T) {
	store, dir := open(t, image.Options{ImageBytes: 1 << 20})
	path, copied := filepath.Join(t.TempDir(), "a.sqsh"), filepath.Join(t.TempDir(), "other.name")
	squashedImage(t, path, "bin/hello", "hi", "etc/environment", "# of enroot\nPATH=/opt/bin\n\nA=b=c\nno line\n")
	text, err := os.ReadFile(path)
	if err = errors.Join(err, os.WriteFile(copied, text, 0o644)); err != nil {
		t.Fatal(err)
	}
	first := prepare(t, store, path)
	if got := read(t, first.Rootfs, "bin", "hello"); got != "hi" || read(t, first.Rootfs, "etc",
		"environment")[0] != '#' {
		t.Errorf("the image has %q", got)
	}
	if !slices.Equal(first.Config.Env, []string{"PATH=/opt/bin", "A=b=c"}) {
		t.Errorf("the environment is %q", first.Config.Env)
	}
	for _, again := range []string{path, copied} {
		if got := prepare(t, store, again); got.Rootfs != first.Rootfs {
			t.Errorf("%s is stored twice", again)
		}
	}
	checkClean(t, dir, 1, 1)
	squashedImage(t, path, "bin/hello", "changed")
	if got := prepare(t, store, path); read(t, got.Rootfs, "bin", "hello") != "changed" {
		t.Error("a changed file is the old image")
	}
	checkClean(t, dir, 2, 2)

	if err := os.WriteFile(copied, text[:200], 0o644); err != nil {
		t.Fatal(err)
	}
	refused(t, store, copied, "SquashFS image is damaged")
	squashedImage(t, copied, "large", strings.Repeat("0123456789abcde\n", 1<<17))
	refused(t, store, copied, "this node's limit")
	refused(t, store, "a.sqsh", "is a relative path")
	checkClean(t, dir, 2, 2)
}
