package rollout

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// here replaces ssh. It runs the command on this host, with a fake sudo if the user is not root.
const here = `#!/bin/sh
[ "$1" = -q ] && [ "$2" = there ] || { echo "asked to: $*" >&2; exit 255; }
PATH=${0%/*}:$PATH exec sh -c "$3"
`

func reachHere(t *testing.T) (*Reach, Host) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"reach": here, "sudo": "#!/bin/sh\nshift\nexec \"$@\"\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r, err := NewReach(filepath.Join(dir, "reach") + " -q")
	if err != nil {
		t.Fatal(err)
	}
	return r, Host{Name: "n1", Ssh: "there", settings: merged(nil, nil)}
}

// left returns the number of temporary folders that rollouts have left.
func left(t *testing.T) int {
	t.Helper()
	found, err := filepath.Glob("/var/tmp/synapse-deploy-*")
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

// TestLook checks that the state of this host is found, and that no files remain.
func TestLook(t *testing.T) {
	r, h := reachHere(t)
	h.settings = merged(nil, nil)
	before := left(t)
	f, err := r.Look(context.Background(), h)
	if err != nil {
		t.Fatal(err)
	}
	_, err = os.Stat("/run/systemd/system")
	if f.Arch == "" || f.Systemd != (err == nil) {
		t.Errorf("%+v", f)
	}
	if n := left(t); n != before {
		t.Errorf("%d folders are left there, of %d before", n, before)
	}
}

// TestDo checks that files arrive unchanged, that the output of a script is returned, and that an error contains
// the script's own text.
func TestDo(t *testing.T) {
	r, h := reachHere(t)
	big := strings.Repeat("0123456789abcdef", 1<<16)
	before := left(t)
	said, err := r.do(context.Background(), h, []byte("cd \"$1\"; wc -c <big; cat small; echo \"$2\""), quoted(`/a "b'$c`),
		file{"big", []byte(big)}, file{"small", []byte("with 'quotes'\n")})
	if want := "1048576\nwith 'quotes'\n/a bc\n"; err != nil || strings.TrimLeft(said, " ") != want {
		t.Errorf("%q, %v", said, err)
	}
	_, err = r.do(context.Background(), h, []byte("echo no space left >&2; exit 3"), "", file{"big", []byte(big)})
	if err == nil || err.Error() != "reach: no space left" {
		t.Error(err)
	}
	h.Ssh = "nowhere"
	if _, err = r.do(context.Background(), h, []byte("exit 0"), "", file{"big", []byte(big)}); err == nil ||
		!strings.Contains(err.Error(), "asked to: -q nowhere") {
		t.Error(err)
	}
	if n := left(t); n != before {
		t.Errorf("%d folders are left there, of %d before", n, before)
	}
}

// TestNewReach checks that ssh may not prompt, and that the user's options come first.
func TestNewReach(t *testing.T) {
	r, err := NewReach("/usr/bin/ssh -l admin")
	if err != nil || !strings.HasPrefix(strings.Join(r.Ssh, " "), "/usr/bin/ssh -l admin -T -o BatchMode=yes") {
		t.Errorf("%v, %v", r, err)
	}
	if _, err = NewReach(" "); err == nil {
		t.Error("nothing is a program")
	}
}

// TestFound checks that a node's output is parsed, and that incomplete output is an error.
func TestFound(t *testing.T) {
	whole := "arch aarch64\npackages deb\nversion 1.4.0\nsystemd\nactive\nkeyed\nsettings\nid: n1\nactive\n"
	f, err := parseFound(whole)
	if err != nil || f.Arch != "aarch64" || f.Kind != "deb" || f.Version != "1.4.0" || !f.Systemd || !f.Active ||
		f.Enabled || !f.Keyed || string(f.Settings) != "id: n1\nactive\n" {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err = parseFound("arch aarch64\npackages deb"); err == nil {
		t.Error("half an answer is taken")
	}
}
