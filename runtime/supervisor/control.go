package supervisor

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// This file receives the commands of agents. Each agent connects to the socket in the task's directory and sends the
// key. It then gets the state of the task. Each message is one packet of text, so no framing is needed.
//
//	agent → supervisor: key NUMBER NUMBER, first · stop SIGNAL GRACE_NS · signal SIGNAL · warn SIGNAL END
//	  · keep HEARD_NS · disk… NUMBER NUMBER
//	supervisor → agent: waiting · started PID · gone EXIT

const maxPacket = 16 << 10

// keyPatience bounds the wait for the key of a connection.
const keyPatience = 5 * time.Second

// command is one command of an agent.
type command struct {
	verb          string
	first, second int64
}

// control holds the connections of agents.
type control struct {
	key      Key
	commands chan command

	mu    sync.Mutex
	conns []*os.File
	last  string // the last message, for later connections
}

// openControl listens, and adopts the connection that the agent passed. Without a socket the task still runs. The next
// agent can then not control it, and waits for its end.
func openControl(key Key) *control {
	c := &control{key: key, commands: make(chan command, 16), last: "waiting"}
	if first, err := adoptSocket(agentFD); err == nil {
		c.add(first)
	}
	listener, err := listen(controlFile)
	if err != nil {
		fmt.Fprintln(os.Stderr, "supervisor: control socket:", err)
		return c
	}
	go accept(listener, c.greet)
	return c
}

// adoptSocket adds a descriptor to Go's poller, so that waiting needs no thread.
func adoptSocket(fd int) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "control"), nil
}

func listen(name string) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	_ = os.Remove(name)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		unix.Close(fd)
		return nil, err
	}
	if err := unix.Listen(fd, maxExecs); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return adoptSocket(fd)
}

// accept calls take with each new connection.
func accept(listener *os.File, take func(*os.File)) {
	raw, err := listener.SyscallConn()
	if err != nil {
		return
	}
	for {
		fd := -1
		err := raw.Read(func(l uintptr) bool {
			var wrong error
			fd, _, wrong = unix.Accept4(int(l), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			return wrong != unix.EAGAIN
		})
		if err != nil {
			return
		}
		if fd < 0 {
			continue
		}
		if conn, err := adoptSocket(fd); err == nil {
			take(conn)
		}
	}
}

func (c *control) greet(conn *os.File) {
	if c.key == (Key{}) {
		c.add(conn)
		return
	}
	go func() {
		if c.key.isShown(conn) {
			c.add(conn)
		}
	}()
}

// isShown accepts a connection that sends the key, and closes any other. Another process that finds the socket, for
// example a task of the same user, gets no information and cannot send commands.
func (key Key) isShown(conn *os.File) bool {
	buffer := make([]byte, 256)
	_ = conn.SetReadDeadline(time.Now().Add(keyPatience))
	n, err := conn.Read(buffer)
	word, ok := parseCommand(string(buffer[:max(n, 0)]))
	if err != nil || !ok || word.verb != "key" || (Key{word.first, word.second}) != key {
		conn.Close()
		return false
	}
	_ = conn.SetReadDeadline(time.Time{})
	return true
}

// add adds a connection. It sends the current state before any later one.
func (c *control) add(conn *os.File) {
	c.mu.Lock()
	c.conns = append(c.conns, conn)
	_ = sendNow(conn, c.last)
	c.mu.Unlock()
	go c.listenTo(conn)
}

func (c *control) listenTo(conn *os.File) {
	buffer := make([]byte, 256)
	for {
		n, err := conn.Read(buffer)
		if err != nil || n == 0 {
			break
		}
		if word, ok := parseCommand(string(buffer[:n])); ok {
			c.commands <- word
		}
	}
	c.mu.Lock()
	c.conns = slices.DeleteFunc(c.conns, func(f *os.File) bool { return f == conn })
	c.mu.Unlock()
	conn.Close()
}

func parseCommand(text string) (command, bool) {
	fields := strings.Fields(text)
	if len(fields) < 2 || len(fields) > 3 {
		return command{}, false
	}
	c := command{verb: fields[0]}
	for i, into := range []*int64{&c.first, &c.second} {
		if i+1 < len(fields) {
			n, err := strconv.ParseInt(fields[i+1], 10, 64)
			if err != nil || n < 0 {
				return command{}, false
			}
			*into = n
		}
	}
	return c, true
}

// say sends a message to every agent, and to each later one. An agent that does not read misses the message, because it
// must never block the task.
func (c *control) say(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = text
	for _, conn := range c.conns {
		_ = sendNow(conn, text)
	}
}

// sendNow sends one packet, or nothing if the receiver's queue is full.
func sendNow(conn *os.File, text string) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = raw.Write(func(fd uintptr) bool {
		_, sent = unix.Write(int(fd), []byte(text)) // the socket does not block
		return true
	})
	if err != nil {
		return err
	}
	return sent
}
