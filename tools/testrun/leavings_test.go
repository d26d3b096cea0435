package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestLeavings checks that everything that tests may leave is found by name. Existing files, files that disappear in
// time and files of others are ignored.
func TestLeavings(t *testing.T) {
	root := t.TempDir()
	l := &leavings{root: root, temp: filepath.Join(root, "temp"), wait: time.Second}
	put := func(path, text string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mounts := "1 0 8:1 / / rw - ext4 /dev/a rw\n"
	put("proc/self/mountinfo", mounts)
	put("sys/fs/cgroup/pids/cgroup.procs", "1\n")
	put("sys/fs/cgroup/pids/old/cgroup.procs", "")
	put("run/netns/old", "")
	put("sys/fs/cgroup/pids/service/cgroup.procs", "5\n")
	put("var/lib/synapse-node/ledger", "") // of an agent on the host
	l.before = l.look(true)
	if left := l.left(); left != nil {
		t.Errorf("nothing happened, but left is %q", left)
	}
	put("temp/TestX1/file", "")
	put("proc/self/mountinfo", mounts+"2 1 0:4 net:[1] "+l.temp+"/ns rw - nsfs nsfs rw\n"+
		"3 1 8:1 /r /run/netns rw - ext4 /dev/a rw\n4 1 0:5 / /var/lib/engine/x rw - overlay o rw\n")
	put("proc/7/environ", "A=b\x00HOSTFILE="+l.temp+"/x\x00")
	put("proc/7/cmdline", "sleep\x00600\x00")
	put("proc/8/environ", "A="+root+"/other\x00")
	put("proc/8/cmdline", "other\x00")
	put("sys/fs/cgroup/pids/ours/cgroup.procs", "")
	put("sys/fs/cgroup/pids/ours/task/cgroup.procs", "")
	put("sys/fs/cgroup/pids/synapse/cgroup.procs", "") // of an idle agent
	again := filepath.Join(root, "sys/fs/cgroup/pids/again")
	put("sys/fs/cgroup/pids/again/cgroup.procs", "")
	go func() { // another program creates it again and again, so a new one exists at each look
		time.Sleep(l.wait / 2)
		_ = os.Rename(again, filepath.Join(root, "gone"))
		put("sys/fs/cgroup/pids/again/cgroup.procs", "")
	}()
	put("sys/fs/cgroup/pids/engine/cgroup.procs", "")
	put("sys/fs/cgroup/pids/engine/box/cgroup.procs", "9\n")
	put("sys/fs/cgroup/pids/service/cgroup.procs", "")
	put("run/netns/new", "")
	put("var/lib/synapse/past/1", "")
	put("var/lib/engine/x", "")
	want := []string{
		"file " + l.temp + "/TestX1", "file /var/lib/synapse", "group pids/ours", "group pids/ours/task", "mount /run/netns",
		"mount " + l.temp + "/ns", "network new", "process 7: sleep 600 ",
	}
	if left := l.left(); !slices.Equal(left, want) {
		t.Errorf("left is %q", left)
	}
}

// TestTemporaryPlaces checks that every way to request a temporary directory gives the watched one.
func TestTemporaryPlaces(t *testing.T) {
	l := &leavings{root: t.TempDir(), temp: t.TempDir()}
	script := `: >$TMPDIR/one; : >$_LIBCONTAINER_STATEDIR/crun.x`
	if err := l.run(".", []string{"/bin/sh", "-c", script}, func(from io.Reader) error {
		_, err := io.Copy(io.Discard, from)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if left := l.left(); !slices.Equal(left, []string{"file " + l.temp + "/crun.x", "file " + l.temp + "/one"}) {
		t.Errorf("left is %q", left)
	}
}

// TestTempIsTheSame checks that two concurrent runs have different directories, and that the next run has the first
// directory again.
func TestTempIsTheSame(t *testing.T) {
	above := t.TempDir()
	first, err := newTemp(above)
	if err != nil {
		t.Fatal(err)
	}
	second, err := newTemp(above)
	if err != nil || second == first {
		t.Errorf("%q beside %q, %v", second, first, err)
	}
	if err := os.Remove(first); err != nil {
		t.Fatal(err)
	}
	if third, err := newTemp(above); err != nil || third != first {
		t.Errorf("%q after %q, %v", third, first, err)
	}
}
