//go:build linux

// From a made container to its end: the command is let run, and init is waited for.
package carapace

import (
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

func (m *maker) process() (pid, pidfd int) { return m.pid, int(m.pidfd.Load()) }

func (m *maker) run() ([]string, *StartError) {
	if m.refusal != nil {
		return nil, m.refusal
	}
	text, failure := planOf(&m.launch, m.nest)
	if failure != nil {
		return nil, failure
	}
	if _, err := m.socket.Write(text); err != nil {
		return nil, m.mourn(err)
	}
	said, err := m.hear()
	defer m.shed() // While the command runs there is time for it.
	switch {
	case err != nil:
		return nil, m.mourn(err)
	case said.kind == recordFailed:
		return nil, m.explain(said)
	case said.kind == recordReady:
		if failure := m.becomeCommand(m.nest.traced && said.value == 0); failure != nil {
			return nil, failure
		}
	}
	if said.value != 0 {
		m.launch.unenforced = append(m.launch.unenforced, unseenBinary+syscall.Errno(said.value).Error())
	}
	return m.launch.unenforced, nil
}

// unseenBinary tells of a machine that forbids us to trace, or to look at another user's process.
const unseenBinary = "a look at the binary that the command executes: "

// becomeCommand has a process without an init go on to its exec, and looks at that as an init would (init.go).
func (m *maker) becomeCommand(traced bool) *StartError {
	if _, err := m.socket.Write([]byte{1}); err != nil {
		return m.mourn(err)
	}
	stopped := traced && m.awaitExec()
	if stopped {
		mount, err := mountOfBinary(strconv.Itoa(m.pid))
		switch {
		case errors.Is(err, unix.EACCES) && m.launch.who.uid != 0:
			m.launch.unenforced = append(m.launch.unenforced, unseenBinary+err.Error())
		case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH):
			return m.mourn(err) // Who has been killed meanwhile has no binary.
		case err != nil || mount == m.nest.exeMount:
			return m.explain(record{step: stepBinary, value: uint64(unix.EACCES)})
		}
		_, _, _ = unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(m.pid), 0, 0, 0, 0)
		return nil
	}
	said, err := m.hear()
	switch {
	case err == nil:
		return m.explain(said)
	case traced:
		return m.mourn(err)
	}
	return nil // Its exec closed the socket.
}

// awaitExec waits until the command is stopped at its exec, or has ended.
func (m *maker) awaitExec() bool {
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(m.pid, &status, 0, &m.usage)
		switch {
		case err == unix.EINTR:
		case err == nil && status.Stopped() && status.StopSignal() == unix.SIGTRAP:
			return true
		case err == nil && status.Stopped():
			_ = unix.PtraceCont(m.pid, int(status.StopSignal()))
		default:
			m.status = &status
			return false
		}
	}
}

// mourn is for an init that died of its set-up: killed, as a rule, by one who wanted the container gone.
func (m *maker) mourn(err error) *StartError {
	m.stop() // It closed its socket, or lost its reason; it is not coming back.
	status := m.reap()
	switch {
	case status.Signaled():
		return &StartError{codeSignal + int(status.Signal()), "set-up", "killed before the command ran", err}
	case status.ExitStatus() > codeSignal:
		return &StartError{status.ExitStatus(), "set-up", "the command was killed before it ran", err}
	}
	return &StartError{CodeSetupFailed, "set-up", fmt.Sprintf("init ended with code %d before the command ran", status.ExitStatus()), err}
}

// reap waits for init, which is over only when every process of its namespace is.
func (m *maker) reap() unix.WaitStatus {
	for m.status == nil {
		var status unix.WaitStatus
		_, err := unix.Wait4(m.pid, &status, 0, &m.usage)
		if err == nil && status.Stopped() { // One that is traced, and killed meanwhile, or calls itself traced by us.
			letGo(uintptr(m.pid), uint32(status.StopSignal()))
			continue
		}
		if err == unix.EINTR {
			continue
		}
		if err != nil { // Somebody else in this process reaped our child: the status is lost, the death is certain.
			status = unix.WaitStatus(unix.SIGKILL)
		}
		m.status = &status
	}
	return *m.status
}

func (m *maker) wait() (unix.WaitStatus, unix.Rusage, bool) {
	status := m.reap()
	if m.order.Spec.NoInit {
		return status, m.usage, true
	}
	var text [recordBytes]byte
	// It is there already if it ever will be: init is gone.
	if n, _, err := unix.Recvfrom(int(m.socket), text[:], unix.MSG_DONTWAIT); err != nil || n < len(text) {
		return status, m.usage, false
	}
	return unix.WaitStatus(recordOf(text).value), m.usage, true
}

func (m *maker) stop() {
	if pidfd := m.pidfd.Load(); pidfd > 0 {
		_ = unix.PidfdSendSignal(int(pidfd), unix.SIGKILL, nil, 0)
	}
}

// shed lets go of what only init was to have.
func (m *maker) shed() {
	for _, fd := range append(m.files, m.theirs) {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	m.files, m.theirs = nil, -1
	m.spaces.close()
	m.spaces = nil
	if m.nest != nil {
		m.nest.free()
		m.nest = nil
	}
}

func (m *maker) end() {
	if m.pid > 0 {
		m.stop()
		m.reap()
		unix.Close(int(m.pidfd.Swap(0)))
		m.pid = 0
	}
	if m.socket >= 0 {
		unix.Close(int(m.socket))
		m.socket = -1
	}
	m.home.close()
	m.home = nowhere
	m.shed()
}
