package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// cutArgument makes this test binary truncate a file by its name. Ordinary programs open the file for writing first.
const cutArgument = "cut-by-name"

// confined returns a confinement for one version of Landlock, in which the task can write only to its own folder.
func confined(t *testing.T, version int) (own string, change func(*Spec)) {
	t.Helper()
	newest, err := Landlock()
	if err != nil {
		t.Skip(err)
	}
	if version > newest {
		t.Skipf("the kernel has version %d", newest)
	}
	own = t.TempDir()
	return own, func(s *Spec) { s.Confine = &Confinement{Landlock: version, Own: own, Use: []string{"/dev/null"}} }
}

// TestLandlockVersions checks that each older version of Landlock keeps what it can, and that its gaps are those of
// LandlockLacks.
func TestLandlockVersions(t *testing.T) {
	for version := 1; version <= landlockNewest; version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			own, change := confined(t, version)
			outside := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(outside, []byte("text"), 0o600); err != nil {
				t.Fatal(err)
			}
			r := start(t, `cd `+own+`; echo x > file && echo own; echo x > `+outside+` && echo outside; `+os.Args[0]+` `+cutArgument+` `+outside+` && echo cut; kill -s 0 $PPID && echo signal`, change)
			if exit := r.wait(); exit.Kind != Exited {
				t.Fatalf("%+v", exit)
			}
			want := "own\n"
			if version < landlockCut {
				want += "cut\n"
			}
			if version < landlockSignals {
				want += "signal\n"
			}
			if got := r.output(Stdout); got != want {
				t.Errorf("it could %q, want %q\n%s", got, want, r.output(Stderr))
			}
			lacks := strings.Join(LandlockLacks(version), "\n")
			if strings.Contains(lacks, "truncated") != (version < landlockCut) ||
				strings.Contains(lacks, "signalled") != (version < landlockSignals) {
				t.Errorf("lacks %q", lacks)
			}
		})
	}
}

// TestConfinementFails checks that a confinement that the kernel refuses is a failure of the node. The task must not
// run without it.
func TestConfinementFails(t *testing.T) {
	_, change := confined(t, landlockFiles)
	ran := filepath.Join(t.TempDir(), "ran")
	r := start(t, "touch "+ran, func(s *Spec) {
		change(s)
		s.Confine.Own = "/proc/self/ns/mnt" // it is in no file system, so a rule for it fails
	})
	exit := r.wait()
	if _, err := os.Stat(ran); err == nil || exit.Kind != LaunchFailed || exit.Code != codeSetUp ||
		!strings.Contains(exit.Detail, "Landlock") {
		t.Errorf("%+v", exit)
	}
}

// TestHidden checks that no content of a hidden path can be read, at any depth and through any link. A writable path
// that contains a hidden path or is inside one is not writable.
func TestHidden(t *testing.T) {
	own, change := confined(t, landlockFiles)
	top := t.TempDir()
	for _, dir := range []string{"a/b/hidden/deep", "a/c"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(top, dir, "file"), []byte(dir+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{"link": "a/b/hidden", "out": "a/c"} {
		if err := os.Symlink(filepath.Join(top, to), filepath.Join(top, from)); err != nil {
			t.Fatal(err)
		}
	}
	script := fmt.Sprintf("cd %s; cat a/b/hidden/deep/file link/deep/file a/c/file out/file; echo x > a/new; echo x > "+
		"a/b/hidden/deep/new; echo x > link/deep/new; echo x > out/new; ls -d a/b/hidden; find . -name new", top)
	r := start(t, script, func(s *Spec) {
		change(s)
		s.Confine.Hide = []string{filepath.Join(top, "link"), filepath.Join(top, "no/such")}
		s.Confine.Write = []string{filepath.Join(top, "a"), filepath.Join(top, "link/deep"), filepath.Join(top, "out"), own}
	})
	r.wait()
	if got, want := r.output(Stdout), "a/c\na/c\na/b/hidden\n./a/c/new\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestConfinedThreadAlone checks that the supervisor itself is not confined, so it can still stop its task and write
// the exit record.
func TestConfinedThreadAlone(t *testing.T) {
	_, change := confined(t, landlockSignals)
	r := start(t, "trap '' TERM; (setsid sh -c 'trap \"\" TERM; sleep 600' &); echo ready; sleep 600", change)
	r.started()
	eventually(t, "no output", func() bool { return r.output(Stdout) == "ready\n" })
	if err := r.link.Stop(15, 10*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if exit := r.wait(); exit.Code != 137 {
		t.Errorf("%+v", exit)
	}
}

// TestKey checks that a process with access to the socket but without the key gets no information and cannot send
// commands.
func TestKey(t *testing.T) {
	r := start(t, "exec sleep 600", nil)
	r.started()
	var spec Spec
	if _, err := readJSON(filepath.Join(r.dir, specFile), &spec); err != nil {
		t.Fatal(err)
	}
	first, second := spec.Key[0], spec.Key[1]
	for _, words := range [][]string{
		{"stop 9 0"}, {"key 1 2", "stop 9 0"}, {"key", "stop 9 0"}, {"stop 9 0", "stop 9 0"},
		{fmt.Sprintf("key %d %d", first, second+1), "stop 9 0"}, {fmt.Sprintf("key %d %d", first+1, second), "stop 9 0"},
		{fmt.Sprintf("key %d %d", second, first), "stop 9 0"}, {fmt.Sprintf("key %d", first), "stop 9 0"},
		{fmt.Sprintf("key 0 %d", second), "stop 9 0"}, {fmt.Sprintf("stop %d %d", first, second), "stop 9 0"},
	} {
		conn, err := connect(r.dir, controlFile)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range words {
			_ = sendNow(conn, word) // the connection may already be closed
		}
		_ = conn.SetReadDeadline(time.Now().Add(soon))
		if n, err := conn.Read(make([]byte, 256)); n > 0 || os.IsTimeout(err) {
			t.Errorf("%q: %d, %v", words, n, err)
		}
		conn.Close()
	}
	later, err := Attach(r.dir, soon)
	if err != nil {
		t.Fatal(err)
	}
	defer later.Close()
	if e := later.Next(); !e.Started {
		t.Errorf("%+v", e)
	}
	if err := later.Stop(9, 0); err != nil {
		t.Fatal(err)
	}
	if exit := r.wait(); exit.Code != 137 {
		t.Errorf("%+v", exit)
	}
}
