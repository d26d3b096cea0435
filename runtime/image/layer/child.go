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

// This file owns the child process that unpacks a layer. Code that reads an untrusted stream must not have the agent's
// rights. If the agent is root, the child runs as nobody. It keeps only the capabilities that it needs to change file
// owners. Its root is the layer's directory. It ends with the agent.

// SubCommand is the first argument of a child. Main gets the arguments after it.
const SubCommand = "unpack-layer"

const (
	nobody       = 65534
	maxComplaint = 4 << 10
	childExit    = 5 * time.Second // the maximum time until a killed child and its pipes are gone

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

// Unpacker starts child processes.
type Unpacker struct {
	// Command is a command that calls Main with its further arguments.
	Command []string
	Limits  Limits
}

// Unpack makes dir and unpacks a layer into it. If it fails or ctx ends, the content of dir is useless, and no process
// is left.
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
		return nil, fmt.Errorf("run the unpacking process: %w", err)
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

// run runs a child until it ends. The child is killed when the thread that started it ends, so that thread is locked.
func run(child *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return child.Run()
}

// tail keeps the beginning of a child's error output.
type tail struct{ bytes.Buffer }

func (t *tail) Write(p []byte) (int, error) {
	t.Buffer.Write(p[:min(len(p), max(0, maxComplaint-t.Len()))])
	return len(p), nil
}

// Main is the main function of a child. It returns the exit code.
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

// answer writes the record of the layer. The record may be large, because it may contain many names.
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
		return nil, errors.New("this command is only for the agent, which uses it to unpack layers of images")
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

// limit limits the process: no file above the limit, even if its code has a bug, and no core dump.
func limit(limits Limits) error {
	size := uint64(limits.Bytes)
	for resource, value := range map[int]uint64{unix.RLIMIT_FSIZE: size, unix.RLIMIT_CORE: 0} {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: value, Max: value}); err != nil {
			return fmt.Errorf("limit the unpacking process: %w", err)
		}
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// enter changes the root to the layer's directory, and drops the capability to do so.
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
		return fmt.Errorf("drop capabilities: %w", err)
	}
	keep := ^uint32(1 << unix.CAP_SYS_CHROOT)
	for _, set := range []*uint32{&sets[0].Effective, &sets[0].Permitted, &sets[0].Inheritable} {
		*set &= keep
	}
	if err := unix.Capset(&header, &sets[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}
