package supervisor

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// This file is the agent's side of a supervisor. It starts a supervisor, finds it again, and detects its death. A
// living supervisor holds the task's lock from before its start until its end.

// ErrDead reports that no supervisor lives.
var ErrDead = errors.New("the task has no living supervisor")

// Event holds a report of a supervisor.
type Event struct {
	Started bool  // the task runs
	Exit    *Exit // the task has ended; the last event
	Closed  bool  // the supervisor is gone; the last event
}

// Link is an agent's connection to one supervisor.
type Link struct {
	dir  string
	conn *os.File
}

// Start starts a supervisor that runs spec in dir. It executes command with dir as its last argument. It returns an
// error if a supervisor already lives there.
func Start(dir string, spec *Spec, command []string) (*Link, error) {
	defer closeAll(spec.Held)
	held, busy, err := lock(dir)
	if err != nil {
		return nil, err
	}
	if busy {
		return nil, fmt.Errorf("a supervisor already lives in %s", dir)
	}
	defer held.Close()
	var drawn [16]byte
	if _, err := unix.Getrandom(drawn[:], 0); err != nil {
		return nil, fmt.Errorf("generate the supervisor's key: %w", err)
	}
	for i := range spec.Key {
		spec.Key[i] = int64(binary.NativeEndian.Uint64(drawn[8*i:]) >> 1)
	}
	if err := writeJSON(dir, specFile, spec); err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "control")
	defer theirs.Close()
	ours, err := adoptSocket(pair[0])
	if err != nil {
		unix.Close(pair[0])
		return nil, fmt.Errorf("control socket: %w", err)
	}
	trouble, err := os.OpenFile(filepath.Join(dir, errorFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		ours.Close()
		return nil, fmt.Errorf("prepare the supervisor: %w", err)
	}
	defer trouble.Close()
	c := exec.Command(command[0], append(append([]string(nil), command[1:]...), dir)...)
	c.Stderr = trouble
	c.ExtraFiles = append([]*os.File{theirs, held}, spec.Held...) // descriptors 3, 4, and from FirstHeld on
	c.Env = []string{"GOMAXPROCS=1", "GOTRACEBACK=single"}
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		ours.Close()
		return nil, fmt.Errorf("start the supervisor: %w", err)
	}
	go func() { _ = c.Wait() }() // prevents a zombie while this agent lives
	return &Link{dir: dir, conn: ours}, nil
}

// Lives reports whether a supervisor holds the task's lock.
func Lives(dir string) (bool, error) {
	held, busy, err := lock(dir)
	if err != nil {
		return false, err
	}
	if held != nil {
		held.Close()
	}
	return busy, nil
}

// Attach connects to the supervisor that an earlier agent started. It waits for a supervisor that is just being
// executed. ErrDead means that there is none. The exit record then describes the end of the task, if there is a record.
func Attach(dir string, patience time.Duration) (*Link, error) {
	until := time.Now().Add(patience)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		alive, err := Lives(dir)
		if err != nil {
			return nil, err
		}
		if !alive {
			return nil, ErrDead
		}
		conn, err := connect(dir, controlFile)
		if err == nil {
			l := &Link{dir: dir, conn: conn}
			if err := l.showKey(); err != nil {
				l.Close()
				return nil, err
			}
			return l, nil
		}
		if time.Now().After(until) {
			return nil, fmt.Errorf("the supervisor in %s does not answer: %w", dir, err)
		}
		time.Sleep(pause)
	}
}

// showKey sends the key, which proves that an agent has connected.
func (l *Link) showKey() error {
	var spec struct{ Key Key }
	if _, err := readJSON(filepath.Join(l.dir, specFile), &spec); err != nil {
		return fmt.Errorf("read the supervisor's key: %w", err)
	}
	_ = l.send(fmt.Sprintf("key %d %d", spec.Key[0], spec.Key[1])) // Next reports a supervisor that ends just now
	return nil
}

// connect uses a descriptor of the directory, because many paths are too long for a socket's address.
func connect(dir, name string) (*os.File, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	address := &unix.SockaddrUnix{Name: "/proc/self/fd/" + strconv.Itoa(int(d.Fd())) + "/" + name}
	if err := unix.Connect(fd, address); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return adoptSocket(fd)
}

// Next waits for the next event. There is none after Exit or Closed.
func (l *Link) Next() Event {
	buffer := make([]byte, maxPacket)
	for {
		n, err := l.conn.Read(buffer)
		if errors.Is(err, unix.ECONNRESET) { // The supervisor ended without reading; its last packet follows this error.
			n, err = l.conn.Read(buffer)
		}
		if err != nil || n == 0 {
			return Event{Closed: true}
		}
		verb, rest, _ := strings.Cut(string(buffer[:n]), " ")
		switch verb {
		case "started":
			return Event{Started: true}
		case "gone":
			exit := &Exit{}
			if json.Unmarshal([]byte(rest), exit) == nil {
				return Event{Exit: exit}
			}
		}
	}
}

// Stop signals the task, and kills it after the grace. A repeated stop can only shorten the grace.
func (l *Link) Stop(signal int, grace time.Duration) error {
	return l.send(fmt.Sprintf("stop %d %d", signal, grace.Nanoseconds()))
}

// Signal passes one signal to the task.
func (l *Link) Signal(signal int) error { return l.send(fmt.Sprintf("signal %d", signal)) }

// Warn signals the task before an end of this number. Only the first warning of a number has an effect.
func (l *Link) Warn(signal int, end int64) error {
	return l.send(fmt.Sprintf("warn %d %d", signal, end))
}

// Keep sends the latest time, by the node's clock, at which the control plane is known to have received a message from
// the node.
func (l *Link) Keep(heardNs int64) error { return l.send(fmt.Sprintf("keep %d", heardNs)) }

func (l *Link) send(text string) error {
	if err := sendNow(l.conn, text); err != nil {
		return fmt.Errorf("supervisor in %s: %w", l.dir, err)
	}
	return nil
}

// Close closes the connection. The supervisor continues.
func (l *Link) Close() { l.conn.Close() }
