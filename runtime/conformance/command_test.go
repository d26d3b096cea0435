//go:build linux

// This file runs the suite against programs: the command carapace, and runc and crun if they are installed. It shows
// that the suite requires nothing that only carapace does. Differences are declared as missing traits.
package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able"
)

// command drives a program that runs a container in the foreground and ends with its exit code.
type command struct {
	lacks    map[Trait]string
	env      []string                     // of the program, in addition to the test's own
	line     func(Task) ([]string, error) // the command line of a task
	kill     func(id string) error        // kills a running one
	leavings func() ([]string, error)
}

func (c *command) Lacks(trait Trait) string    { return c.lacks[trait] }
func (c *command) Leavings() ([]string, error) { return c.leavings() }

// program is a program that runs a container.
type program struct {
	id   string
	of   *command
	run  *exec.Cmd
	done chan struct{}
}

func (c *command) Start(task Task) (Running, error) {
	line, err := c.line(task)
	if err != nil {
		return nil, err
	}
	run := exec.Command(line[0], line[1:]...)
	run.Env = append(os.Environ(), c.env...)
	// exec.Cmd takes an interface, and a nil *os.File in an interface is not nil.
	if task.Stdin != nil {
		run.Stdin = task.Stdin
	}
	if task.Stdout != nil {
		run.Stdout = task.Stdout
	}
	if task.Stderr != nil {
		run.Stderr = task.Stderr
	}
	if err := run.Start(); err != nil {
		return nil, err
	}
	p := &program{task.ID, c, run, make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = run.Wait() // its state contains the result
	}()
	return p, nil
}

func (p *program) Done() <-chan struct{} { return p.done }
func (p *program) Signal(signal syscall.Signal) error {
	if err := p.run.Process.Signal(signal); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Kill kills the container, or waits for it. Before the start there is nothing to kill, and the suite kills from the
// first moment.
func (p *program) Kill() error {
	for deadline := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		err := p.of.kill(p.id)
		select {
		case <-p.done:
			return nil
		default:
		}
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

func (p *program) Exit() Exit {
	if status := p.run.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return Exit{Code: 128 + int(status.Signal())}
	}
	return Exit{Code: p.run.ProcessState.ExitCode()}
}

// builtBefore names cmd/carapace to a test that runs as another user or on another host, and need not or cannot build
// it.
const builtBefore = "CONFORMANCE_CARAPACE"

// built builds cmd/carapace once for all tests, in a folder that tasks of other users can reach. It is removed after
// the last test.
var built = sync.OnceValues(func() (string, error) {
	if binary := os.Getenv(builtBefore); binary != "" {
		return binary, nil
	}
	var err error
	if builtIn, err = os.MkdirTemp("", "carapace-"); err != nil {
		return "", err
	}
	binary := filepath.Join(builtIn, "carapace")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", binary, "github.com/yi-json/synapse/cmd/carapace")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build cmd/carapace: %w\n%s", err, text)
	}
	return binary, os.Chmod(builtIn, 0o755)
})

// builtIn is the folder of the binary; empty: it was not built.
var builtIn string

// buildCommand returns the path of cmd/carapace.
func buildCommand(t testing.TB) string {
	t.Helper()
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// newCommand returns the command carapace as a driver, with the library's state directory and parent group.
func newCommand(t testing.TB) (*command, *library, string) {
	t.Helper()
	d := newLibrary(t)
	binary := buildCommand(t)
	place := []string{"--state-dir", d.options.StateDir, "--cgroup-parent", d.options.Cgroups.Parent}
	c := &command{leavings: d.Leavings, lacks: map[Trait]string{
		ReportsOOM:   "an exit code has no room for it; the events of --status-fd do",
		Streams:      "the program itself stays with its streams, as a shell's child does",
		ExecSessions: "only its supervisor runs one, and here it has none",
	}}
	c.line = func(task Task) ([]string, error) {
		text, err := json.Marshal(specOf(task))
		if err != nil {
			return nil, err
		}
		file := filepath.Join(t.TempDir(), task.ID+".json")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return nil, err
		}
		return append(append([]string{binary, "run"}, place...), "--spec", file), nil
	}
	c.kill = func(id string) error {
		if text, err := exec.Command(binary, append(append([]string{"kill"}, place...), id)...).CombinedOutput(); err != nil {
			return fmt.Errorf("kill %s: %w: %s", id, err, text)
		}
		return nil
	}
	return c, d, binary
}

// TestCommand runs the suite through the command line.
func TestCommand(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds a binary, and TestCarapace has the same cases")
	}
	c, _, _ := newCommand(t)
	Run(t, c)
}

// TestPeers runs the suite through other runtimes.
func TestPeers(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: other people's programs")
	}
	for _, name := range []string{"runc", "crun"} {
		t.Run(name, func(t *testing.T) {
			able.Need(t, able.Containers)
			Run(t, newPeer(t, able.Runtime(t, name)))
		})
	}
}

func newPeer(t testing.TB, binary string) *command {
	t.Helper()
	root, parent := filepath.Join(t.TempDir(), "state"), "/"+NewID()
	t.Cleanup(func() {
		for _, folder := range parents(parent) {
			if err := os.Remove(folder); err != nil {
				t.Error(err)
			}
		}
	})
	why := "its command line ends with code 1 or 255 for whatever goes wrong before the command runs"
	own := "_LIBCONTAINER_STATEDIR=" + t.TempDir() // crun would leave files in /tmp when it is killed
	c := &command{env: []string{own}, lacks: map[Trait]string{
		ReportsOOM: "an exit code has no room for it", Init: "it has none: the command is PID 1", SetupCode: why,
		ExecCodes: why,
		PidsExact: "its own threads count against the limit", PlainRoot: why, EarlyKill: why,
		ManyAtOnce:   "minutes of it show nothing about this project",
		ExecSessions: "it is not asked for one here",
	}}
	c.line = func(task Task) ([]string, error) {
		bundle := t.TempDir()
		text, err := json.Marshal(bundleOf(task, parent+"/"+task.ID))
		if err != nil {
			return nil, err
		}
		return []string{
			binary, "--root", root, "run", "--bundle", bundle, task.ID,
		}, os.WriteFile(filepath.Join(bundle, "config.json"), text, 0o600)
	}
	c.kill = func(id string) error {
		if text, err := exec.Command(binary, "--root", root, "kill", id, "KILL").CombinedOutput(); err != nil {
			return fmt.Errorf("kill %s: %w: %s", id, err, text)
		}
		return nil
	}
	if text := try(t, c); text != "" {
		t.Skipf("it does not run even a plain container here: %s", text)
	}
	c.leavings = func() ([]string, error) {
		// On a busy kernel, emptying a group may take longer than `run` waits. Then `delete` must remove the
		// container.
		abandoned, _ := filepath.Glob(filepath.Join(root, "*"))
		for _, folder := range abandoned {
			_ = exec.Command(binary, "--root", root, "delete", "--force", filepath.Base(folder)).Run()
		}
		var left []string
		for _, pattern := range []string{
			filepath.Join(root, "*"), "/sys/fs/cgroup/*" + parent + "/*/", "/sys/fs/cgroup" + parent + "/*/",
		} {
			found, _ := filepath.Glob(pattern)
			left = append(left, found...)
		}
		return left, nil
	}
	return c
}

// try returns the error output of a program that cannot run a container, or an empty text.
func try(t testing.TB, c *command) string {
	line, err := c.line(Task{ID: NewID(), Rootfs: able.MakeRootfs(t), Command: []string{"/bin/true"}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command(line[0], line[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%v: %s", err, text)
	}
	return ""
}

type object = map[string]any

// bundleOf returns a task in the form of the OCI runtime specification.
func bundleOf(task Task, cgroup string) object {
	uid, gid := 0, 0
	if task.User != "" {
		_, _ = fmt.Sscanf(task.User, "%d:%d", &uid, &gid)
	}
	capabilities := []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_KILL", "CAP_SETUID", "CAP_SETGID"}
	for _, name := range task.CapAdd {
		capabilities = append(capabilities, "CAP_"+name)
	}
	mounts := []object{
		{"destination": "/proc", "type": "proc", "source": "proc"},
		{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "mode=755"}},
		{"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": []string{"ro", "nosuid"}},
	}
	for target, source := range task.Mounts {
		mounts = append(mounts, object{"destination": target, "type": "none", "source": source, "options": []string{"bind"}})
	}
	devices := []object{{"allow": false, "access": "rwm"}}
	resources := object{}
	nodes := []object{}
	for _, path := range task.Devices {
		var stat syscall.Stat_t
		if syscall.Stat(path, &stat) == nil {
			major, minor := int64(stat.Rdev>>8&0xfff), int64(stat.Rdev&0xff)
			devices = append(devices, object{"allow": true, "type": "c", "major": major, "minor": minor, "access": "rwm"})
			nodes = append(nodes, object{"path": path, "type": "c", "major": major, "minor": minor, "fileMode": 0o666})
		}
	}
	resources["devices"] = devices
	if task.MemoryBytes > 0 {
		resources["memory"] = object{"limit": task.MemoryBytes}
	}
	if task.Pids > 0 {
		resources["pids"] = object{"limit": task.Pids}
	}
	return object{
		"ociVersion": "1.0.2", "root": object{"path": task.Rootfs}, "mounts": mounts,
		"process": object{
			"args": task.Command, "cwd": "/", "env": append([]string{"PATH=/bin"}, task.Env...),
			"user": object{"uid": uid, "gid": gid}, "noNewPrivileges": true,
			"capabilities": object{"bounding": capabilities, "effective": capabilities, "permitted": capabilities},
		},
		"linux": object{
			"cgroupsPath": cgroup, "resources": resources, "devices": nodes,
			"namespaces": []object{{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}},
		},
	}
}
