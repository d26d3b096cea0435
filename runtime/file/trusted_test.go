package file

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// made makes top/dir/file with these modes, and returns the path of the file.
func made(t *testing.T, dirMode, fileMode fs.FileMode) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "dir")
	path := filepath.Join(dir, "file")
	for _, err := range []error{
		os.Mkdir(dir, 0o700), os.WriteFile(path, nil, 0o600), os.Chmod(path, fileMode), os.Chmod(dir, dirMode),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// TestTrustedModes tries each mode bit. Write bits for group or others refuse the file, and no other bit does. Only a
// directory may have the sticky bit instead.
func TestTrustedModes(t *testing.T) {
	for bit := range 9 {
		mode := fs.FileMode(1) << bit
		wrong := mode&0o022 != 0
		for what, path := range map[string]string{
			"a file": made(t, 0o700, 0o600|mode), "a directory": made(t, 0o700|mode, 0o600),
			"a sticky file": made(t, 0o700, 0o600|mode|fs.ModeSticky),
		} {
			if _, err := Trusted(path, "change it"); (err != nil) != wrong {
				t.Errorf("%s that has %v too: %v", what, mode, err)
			}
		}
		if _, err := Trusted(made(t, 0o700|mode|fs.ModeSticky, 0o600), "change it"); err != nil {
			t.Errorf("in a sticky directory that has %v too: %v", mode, err)
		}
	}
}

// TestTrustedLinks checks the target of a link and each directory on the path to it.
func TestTrustedLinks(t *testing.T) {
	good, open, top := made(t, 0o755, 0o644), made(t, 0o777, 0o644), t.TempDir()
	link := func(name, to string) string {
		path := filepath.Join(top, name)
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	within := filepath.Join(filepath.Dir(open), "link") // a user who can write there can change the link
	if err := os.Symlink(good, within); err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(top, good)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		good: "", link("whole", good): "", link("relative", relative): "", link("folder", filepath.Dir(good)) + "/file": "",
		link("chain", link("next", good)): "", link("nowhere", "/no/such"): "no such file",
		link("open", open): "can write", link("through", within): "can write", link("self", "self"): "40 links",
		"file": "an absolute path", filepath.Join(top, "none"): "no such file",
	} {
		got, err := Trusted(path, "change it")
		if want == "" && (err != nil || got != good) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s is %s: %v, want %q", path, got, err, want)
		}
	}
}

// TestTrustedOwners checks that the file, its directory and a link to it must all belong to root or to this process's
// user.
func TestTrustedOwners(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: nothing can be given to another user")
	}
	for _, uid := range []int{0, 1, 12345} {
		path := made(t, 0o755, 0o644)
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(path, link); err != nil {
			t.Fatal(err)
		}
		for _, of := range []string{path, filepath.Dir(path), link} {
			if err := os.Lchown(of, uid, 0); err != nil {
				t.Fatal(err)
			}
			_, err := Trusted(link, "change it")
			want := fmt.Sprintf("%s belongs to user %d, who could change it", of, uid)
			if (err == nil) != (uid == 0) || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s of user %d: %v", of, uid, err)
			}
			if err := os.Lchown(of, 0, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
}
