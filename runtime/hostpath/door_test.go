//go:build linux

package hostpath

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/fault"
)

const nobody = 65534

var visitor = Visitor{As: Guest{UID: nobody, GID: nobody, Groups: []uint32{nobody}}}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("requires root to act as another user")
	}
}

// hold holds a ticket. It skips the test if mounts are impossible, because the tasks of such an agent have none. It
// cannot use package able, which imports this package.
func hold(t *testing.T, ticket *Ticket) *os.File {
	t.Helper()
	mount, err := ticket.Hold(nil)
	if err != nil {
		t.Fatal(err)
	}
	if mount == nil {
		t.Skip("this host cannot mount a file system: operation not permitted")
	}
	return mount
}

// room returns a directory that all users may pass through.
func room(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

func folder(t *testing.T, path string, mode os.FileMode) string {
	t.Helper()
	if err := errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
	return path
}

func file(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestAsk checks that exactly the files that the user can reach are found. The error for a closed directory is the same
// as for a missing one.
func TestAsk(t *testing.T) {
	needRoot(t)
	dir := room(t)
	open, closed, group := folder(t, dir+"/open", 0o755), folder(t, dir+"/closed", 0o700), folder(t, dir+"/group", 0o750)
	hidden := folder(t, dir+"/hidden", 0o755)
	inside, text := folder(t, closed+"/inside", 0o755), file(t, open+"/text", "x", 0o644)
	if err := errors.Join(os.Chown(group, 0, 1234), os.Symlink(inside, open+"/link"),
		os.Symlink("/proc/self/root/usr", open+"/magic"),
		unix.Mkfifo(open+"/pipe", 0o666), os.Chown(folder(t, group+"/of", 0o755), 0, 0)); err != nil {
		t.Fatal(err)
	}
	v := visitor
	v.Rules.Hide = []string{hidden}
	member := v
	member.As.Groups = []uint32{1234}
	absent := "does not exist for the task's user"
	for _, c := range []struct {
		who  Visitor
		path string
		says string
	}{
		{v, open, ""}, {v, open + "/", ""}, {v, text, ""}, {v, closed, ""}, // it is visible but cannot be listed
		{v, inside, absent}, {v, closed + "/nothing", absent}, {v, open + "/link", absent}, {v, open + "/magic", absent},
		{v, text + "/", absent},
		{v, group + "/of", absent}, {member, group + "/of", ""}, {v, "relative", "absolute"}, {v, "", "absolute"},
		{v, "/a\x00b", "absolute"},
		{v, open + "/pipe", "not a directory or regular file"}, {v, hidden, "is hidden"}, {v, dir, "is hidden"},
		{v, "/", "is hidden"},
		{v, "/proc", "is hidden"}, {v, "/proc/self", "is hidden"}, {v, "/sys/fs/cgroup", "is hidden"},
		{v, "/dev", "is hidden"}, {v, "/dev/null", "not a directory"},
	} {
		ticket, err := c.who.Ask(Named(c.path))
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v", c.path, err)
		}
		if err == nil && ticket.Inode == 0 {
			t.Errorf("%q: %+v", c.path, ticket)
		}
		if (c.says == "absolute") != (fault.Of(err) == fault.Job) || (c.says == absent) != errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q is refused by %q's fault: %v", c.path, fault.Of(err), err)
		}
	}
	if _, err := v.AskFolder(Named(closed)); err == nil || !strings.Contains(err.Error(), absent) {
		t.Errorf("a directory that he cannot list: %v", err)
	}
	if _, err := v.File(Named(file(t, open+"/shut", "x", 0o600))); err == nil || !strings.Contains(err.Error(), absent) {
		t.Errorf("a file that he cannot read: %v", err)
	}
	if unix.Geteuid() != 0 || unix.Access("/etc/shadow", unix.R_OK) != nil {
		t.Error("this thread is not itself again")
	}
}

// TestPolicyOfPlaces checks that jobs can name only the directories of the policy, and that the nearest directory
// decides.
func TestPolicyOfPlaces(t *testing.T) {
	needRoot(t)
	dir := room(t)
	data, work, other := folder(t, dir+"/data", 0o755), folder(t, dir+"/data/work", 0o755), folder(t, dir+"/other", 0o755)
	v := visitor
	v.Rules.Mounts = []Place{{Path: data, ReadOnly: true}, {Path: work}, {Path: other, Types: []string{"nfs4"}}}
	for range 2 { // in either order
		slices.Reverse(v.Rules.Mounts)
		for path, readOnly := range map[string]bool{data: true, work: false} {
			if ticket, err := v.Ask(Named(path)); err != nil || ticket.ReadOnly != readOnly {
				t.Errorf("%s by %v: %+v %v", path, v.Rules.Mounts, ticket, err)
			}
		}
	}
	if _, err := v.Ask(Named(dir)); fault.Of(err) != fault.Job {
		t.Errorf("outside of the listed directories: %v", err)
	}
	if _, err := v.Ask(Named(other)); err == nil || !strings.Contains(err.Error(), "file system") {
		t.Errorf("of another type: %v", err)
	}
}

// TestHiddenUnderAnyName checks that a hidden directory is refused by every name that leads to it.
func TestHiddenUnderAnyName(t *testing.T) {
	needRoot(t)
	dir := room(t)
	open := folder(t, dir+"/open", 0o755)
	secret, other := file(t, dir+"/secret", "x", 0o644), file(t, dir+"/other", "x", 0o644)
	v := visitor
	v.Rules.Hide = []string{secret}
	for _, err := range []error{
		os.Link(secret, open+"/same"), os.Symlink(secret, open+"/link"), os.Link(other, open+"/other"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, hidden := range map[string]bool{"/same": true, "/link": true, "/other": false} {
		if _, err := v.Ask(Named(open + name)); (err != nil) != hidden || hidden && !strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAskDevice checks that a permitted device is given to a user who may read and write it, as its owner, in one of
// its groups, or as any user.
func TestAskDevice(t *testing.T) {
	needRoot(t)
	dir := room(t)
	node := dir + "/node"
	if err := unix.Mknod(node, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); err != nil {
		t.Skip("this host cannot make a device node: ", err)
	}
	v := visitor
	v.As = Guest{UID: 1234, GID: 1235, Groups: []uint32{1236}}
	v.Rules.Devices = []string{node}
	for _, c := range []struct{ uid, gid, shift int }{{1234, 0, 6}, {0, 1235, 3}, {0, 1236, 3}, {0, 0, 0}} {
		for _, bits := range []os.FileMode{0, 1, 2, 4, 5, 6, 7} {
			mode := bits << c.shift
			if err := errors.Join(os.Chown(node, c.uid, c.gid), os.Chmod(node, mode)); err != nil {
				t.Fatal(err)
			}
			ticket, err := v.Ask(Named(node))
			if may := bits&6 == 6; (err == nil) != may || may && (ticket.Node != node || ticket.Inode == 0) {
				t.Errorf("a device of %d:%d with %v: %+v, %v", c.uid, c.gid, mode, ticket, err)
			}
		}
	}
	v.Rules.Devices = []string{"/dev/null"}
	if _, err := v.Ask(Named(node)); err == nil {
		t.Error("a device that the policy does not name is given")
	}
}

// TestTicket checks that a ticket is valid only for its original file, also when a later agent reads it.
func TestTicket(t *testing.T) {
	needRoot(t)
	dir := room(t)
	path := folder(t, dir+"/data", 0o755)
	ticket, err := visitor.Ask(Named(path))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(ticket)
	var again Ticket
	if err != nil || json.Unmarshal(text, &again) != nil || again.Path != ticket.Path || again.Inode != ticket.Inode ||
		again.As.UID != nobody {
		t.Fatalf("%s: %+v %v", text, again, err)
	}
	fd, err := again.Open()
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	if err := os.Rename(path, path+".gone"); err != nil {
		t.Fatal(err)
	}
	folder(t, path, 0o755)
	if _, err := again.Open(); !errors.Is(err, errElsewhere) {
		t.Errorf("another directory at the same path: %v", err)
	}
	if _, err := again.Clone(false); !errors.Is(err, errElsewhere) {
		t.Errorf("another directory at the same path: %v", err)
	}
	mount := hold(t, &ticket) // in the process that called Ask, the file is still the same
	defer mount.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(int(mount.Fd()), &stat); err != nil || stat.Ino != ticket.Inode {
		t.Errorf("%+v %v", stat, err)
	}
	if _, err := ticket.Open(); !errors.Is(err, errElsewhere) {
		t.Errorf("a ticket that was given away: %v", err)
	}
}

// TestHeld checks that a process with the mount keeps it when the path changes.
func TestHeld(t *testing.T) {
	needRoot(t)
	dir := room(t)
	file(t, folder(t, dir+"/data", 0o755)+"/text", "found", 0o644)
	ticket, err := visitor.Ask(Named(dir + "/data"))
	if err != nil {
		t.Fatal(err)
	}
	mount := hold(t, &ticket)
	if err := os.RemoveAll(dir + "/data"); err != nil {
		t.Fatal(err)
	}
	folder(t, dir+"/data", 0o755)
	ticket.Held, err = unix.Dup(int(mount.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	fd, err := ticket.Clone(true)
	if err != nil || fd != ticket.Held {
		t.Fatalf("%d %v", fd, err)
	}
	defer unix.Close(fd)
	if unix.Faccessat(fd, "text", unix.F_OK, 0) == nil {
		t.Error("what was removed is there")
	}
	var at unix.Statfs_t
	if err := unix.Fstatfs(fd, &at); err != nil || at.Flags&unix.ST_RDONLY == 0 || at.Flags&unix.ST_NOSUID == 0 {
		t.Errorf("%+v %v", at, err)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil || stat.Ino != ticket.Inode {
		t.Errorf("%+v %v", stat, err)
	}
}

// TestFlips replaces a link ten thousand times at each step of a path's use, and checks that forbidden files are never
// visible.
func TestFlips(t *testing.T) {
	needRoot(t)
	dir := room(t)
	open, closed := folder(t, dir+"/open", 0o755), folder(t, folder(t, dir+"/closed", 0o700)+"/inside", 0o755)
	file(t, open+"/text", "open", 0o644)
	file(t, closed+"/text", "closed", 0o644)
	var secret unix.Stat_t
	if err := unix.Stat(closed, &secret); err != nil {
		t.Fatal(err)
	}
	link, flips := flipping(t, dir, open, closed)
	see := func(fd int, err error) (uint64, error) {
		if err != nil {
			return 0, err
		}
		defer unix.Close(fd)
		var stat unix.Stat_t
		err = unix.Fstat(fd, &stat)
		return stat.Ino, err
	}
	ask := func() (Ticket, error) { return visitor.Ask(Named(link)) }
	own := folder(t, open+"/own", 0o755)
	folder(t, closed+"/own", 0o755)
	if err := os.Chown(own, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	for name, use := range map[string]func() (uint64, error){
		"Ask": func() (uint64, error) {
			ticket, err := ask()
			ticket.Close()
			return ticket.Inode, err
		},
		"AskFolder": func() (uint64, error) {
			ticket, err := visitor.AskFolder(Named(link))
			ticket.Close()
			return ticket.Inode, err
		},
		"Look": func() (uint64, error) {
			_, err := visitor.As.Look(Named(link + "/own"))
			return 0, err
		},
		"Hold": func() (uint64, error) {
			ticket, err := ask()
			if err != nil {
				return 0, err
			}
			mount, err := ticket.Hold(nil)
			if err != nil {
				t.Fatalf("what was found is not there any more: %v", err)
			}
			defer mount.Close()
			var stat unix.Stat_t
			err = unix.Fstat(int(mount.Fd()), &stat)
			return stat.Ino, err
		},
		"Make": func() (uint64, error) {
			fd, _, err := Inside{As: visitor.As}.Make(link+"/own/made", true)
			if unix.Access(closed+"/own/made", unix.F_OK) == nil {
				return secret.Ino, nil
			}
			_ = os.Remove(own + "/made")
			_, err = see(fd, err)
			return 0, err
		},
		"Open": func() (uint64, error) {
			ticket, err := ask()
			if err != nil {
				return 0, err
			}
			ticket.Close() // as in a later agent
			return see(ticket.Open())
		},
		"Clone": func() (uint64, error) {
			ticket, err := ask()
			if err != nil {
				return 0, err
			}
			ticket.Close()
			return see(ticket.Clone(true))
		},
		"File": func() (uint64, error) {
			text, err := visitor.File(Named(link + "/text"))
			if err != nil {
				return 0, err
			}
			defer text.Close()
			if said, _ := io.ReadAll(text); string(said) != "open" {
				return secret.Ino, nil
			}
			return 0, nil
		},
	} {
		passed := 0
		for first, tries := flips.Load(), 0; flips.Load()-first < 10_000 || tries < 1000; tries++ {
			inode, err := use()
			if err == nil {
				passed++
			}
			if inode == secret.Ino {
				t.Fatalf("%s: the closed directory was reached after %d flips", name, flips.Load()-first)
			}
		}
		t.Logf("%s: %d times the open directory", name, passed)
	}
}

// flipping swaps a link between two directories continuously. Both are links, and the kernel exchanges them in one
// call, so the link always exists.
func flipping(t *testing.T, dir, open, closed string) (link string, flips *atomic.Int64) {
	t.Helper()
	link, flips = dir+"/link", new(atomic.Int64)
	if err := errors.Join(os.Symlink(open, link), os.Symlink(closed, link+".other")); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if unix.Renameat2(unix.AT_FDCWD, link, unix.AT_FDCWD, link+".other", unix.RENAME_EXCHANGE) == nil {
				flips.Add(1)
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-stopped })
	return link, flips
}

// TestMake checks that missing directories are made as the user, and as root only in the container's own mounts.
func TestMake(t *testing.T) {
	needRoot(t)
	dir := room(t)
	shut := folder(t, dir+"/shut", 0o755)
	in := Inside{As: visitor.As}
	if fd, _, err := in.Make(shut+"/a/b", true); err != unix.EACCES {
		t.Errorf("in a directory of root's: %d %v", fd, err)
	}
	own := folder(t, dir+"/own", 0o755)
	if err := os.Chown(own, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	for path, directory := range map[string]bool{"/a/b": true, "/c/d": false} {
		fd, made, err := in.Make(own+path, directory)
		if err != nil || made {
			t.Errorf("in a directory of his: %v %v", made, err)
			continue
		}
		var stat unix.Stat_t
		if err := unix.Fstat(fd, &stat); err != nil || stat.Uid != nobody ||
			(stat.Mode&unix.S_IFMT == unix.S_IFDIR) != directory {
			t.Errorf("%s: %+v %v", path, stat, err)
		}
		unix.Close(fd)
	}
	fd, err := unix.Open(shut, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	in.Own = map[uint64]bool{MountID(fd): true}
	unix.Close(fd)
	fd, made, err := in.Make(shut+"/a/b", true)
	if err != nil || !made {
		t.Errorf("in a mount of the container's own: %v %v", made, err)
	}
	unix.Close(fd)
	if err := os.Symlink(shut+"/nowhere", own+"/dangling"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := in.Make(own+"/dangling/x", true); err == nil {
		t.Error("something was made behind a link to nothing")
	}
}
