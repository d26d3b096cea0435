//go:build linux

package layer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// This file owns the child in which a layer is unpacked: nothing that reads what a stranger made runs with the agent's
// rights. As root the child is nobody, keeps no capability but those it takes to give files away, and the layer's
// directory is its whole world. It ends with the agent.

// SubCommand is the first argument of a child; Main gets what follows.
const SubCommand = "unpack-layer"

const (
	nobody       = 65534
	maxComplaint = 4 << 10
	childExit    = 5 * time.Second // a child that was killed, and its pipes, take no longer than that to go

	rootFD = 3
)

// rights lists the capabilities that the child keeps, to own and enter the files that it gives away. It keeps the last
// one only until it has entered its root.
var rights = []uintptr{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_SYS_CHROOT}

// order holds the instructions for a child.
type order struct {
	Limits Limits `json:"limits"`
	Owners bool   `json:"owners"`
}

// Unpacker starts children.
type Unpacker struct {
	// Command ends up in Main with the arguments that follow.
	Command []string
	Limits  Limits
}

// Unpack makes dir and fills it with a layer. When it fails, or ctx ends, what is there is worth nothing; no process is
// left.
func (u Unpacker) Unpack(ctx context.Context, stream io.Reader, dir string) (*Changes, error) {
	files := filepath.Join(dir, filesDir)
	if err := os.MkdirAll(files, 0o755); err != nil {
		return nil, err
	}
	root, err := os.Open(files)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	answer, err := os.Create(filepath.Join(dir, changesFile))
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	text, err := json.Marshal(order{u.Limits, os.Geteuid() == 0})
	if err != nil {
		return nil, err
	}
	arguments := append(append([]string{}, u.Command[1:]...), string(text))
	child := exec.CommandContext(ctx, u.Command[0], arguments...)
	complaint := &tail{}
	child.Env, child.Dir, child.Stdin, child.Stdout, child.Stderr = []string{}, "/", stream, answer, complaint
	child.ExtraFiles, child.WaitDelay = []*os.File{root}, childExit
	child.SysProcAttr = confinement()
	if err := run(child); err != nil {
		if child.ProcessState != nil && child.ProcessState.ExitCode() == fullExit {
			return nil, asFull(complaint.String())
		}
		if said := strings.TrimSpace(complaint.String()); said != "" && ctx.Err() == nil {
			return nil, errors.New(said)
		}
		return nil, fmt.Errorf("the process that unpacks it: %w", err)
	}
	return Read(dir)
}

// confinement returns the process attributes that restrict the child before it runs.
func confinement() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	if os.Geteuid() == 0 {
		attributes.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		attributes.AmbientCaps = rights
	}
	return attributes
}

// run runs a child to its end. The signal of our death is tied to the thread that started the child, so that must stay.
func run(child *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return child.Run()
}

// tail keeps the beginning of what a child says.
type tail struct{ bytes.Buffer }

func (t *tail) Write(p []byte) (int, error) {
	t.Buffer.Write(p[:min(len(p), max(0, maxComplaint-t.Len()))])
	return len(p), nil
}

// Main is a child's whole life. It answers the exit code.
func Main(arguments []string) int {
	meter := &meter{fd: rootFD}
	changes, err := child(arguments, meter)
	if err == nil {
		err = answer(changes, meter)
	}
	switch {
	case err == nil:
		return 0
	case IsFull(err):
		fmt.Fprintln(os.Stderr, meter.last(err))
		return fullExit
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// answer writes what is known of the layer, which may be much: all its names are in it.
func answer(changes *Changes, meter *meter) error {
	text, err := json.Marshal(changes)
	if err != nil {
		return err
	}
	if err := meter.wrote(int64(len(text))); err != nil {
		return err
	}
	_, err = os.Stdout.Write(append(text, '\n'))
	return err
}

func child(arguments []string, meter *meter) (*Changes, error) {
	var told order
	if len(arguments) != 1 || json.Unmarshal([]byte(arguments[0]), &told) != nil {
		return nil, errors.New("this command unpacks an image's layer for the agent; nobody else calls it")
	}
	runtime.LockOSThread() // capabilities belong to a thread
	if err := limit(told.Limits); err != nil {
		return nil, err
	}
	if told.Owners {
		if err := enter(rootFD); err != nil {
			return nil, err
		}
	}
	unix.Umask(0)
	meter.least = told.Limits.least()
	return unpack(rootFD, os.Stdin, told.Limits, told.Owners, meter)
}

// limit bounds what a stream can make of us: no file beyond the limit, whatever we believe, and no dump of it.
func limit(limits Limits) error {
	size := uint64(limits.Bytes)
	for resource, value := range map[int]uint64{unix.RLIMIT_FSIZE: size, unix.RLIMIT_CORE: 0} {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: value, Max: value}); err != nil {
			return fmt.Errorf("limits of the unpacking process: %w", err)
		}
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// enter makes the layer's directory all there is, and gives up the way to do such a thing.
func enter(root int) error {
	if err := unix.Fchdir(root); err != nil {
		return fmt.Errorf("enter the layer's directory: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("enter the layer's directory (the agent needs the capability SYS_CHROOT): %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	keep := ^uint32(1 << unix.CAP_SYS_CHROOT)
	for _, set := range []*uint32{&sets[0].Effective, &sets[0].Permitted, &sets[0].Inheritable} {
		*set &= keep
	}
	if err := unix.Capset(&header, &sets[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}
