package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/yi-json/synapse/runtime/shell"
)

// This file implements the remote shell among the tasks of a gang. It replaces ssh for the launchers of MPI and
// DeepSpeed, without a server, keys or users. It connects through the task's socket, which only the task can use.

const (
	codeLost     = 255 // as in ssh: the command did not run, or the connection broke
	callPause    = 50 * time.Millisecond
	callPatience = 15 * time.Second // for an agent that restarts, and for a task that has just started
)

// harmless maps ssh's connection flags, which launchers often use, to whether they take a value.
var harmless = map[string]bool{
	"-x": false, "-q": false, "-T": false, "-n": false, "-4": false, "-6": false, "-o": true,
}

// remoteWords parses [flags] HOST COMMAND..., like ssh.
func remoteWords(args []string) (host string, command []string, silent bool, err error) {
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name := args[0]
		takes, ok := harmless[name]
		if !ok && strings.HasPrefix(name, "-o") {
			takes, ok = false, true
		}
		if !ok {
			return "", nil, false,
				fmt.Errorf("%s is not supported: the command runs as the task's user in a running task", name)
		}
		silent = silent || name == "-n"
		if args = args[1:]; takes && len(args) > 0 {
			args = args[1:]
		}
	}
	if len(args) < 2 {
		return "", nil, false, errors.New("HOST or COMMAND is missing")
	}
	if _, _, user := strings.Cut(args[0], "@"); user {
		return "", nil, false, fmt.Errorf("%s: another user is not supported", args[0])
	}
	return args[0], args[1:], silent, nil
}

// remote runs a command line in a shell of another task, and returns its exit code.
func remote(host string, command []string, stdin io.Reader) (int, error) {
	return call(shell.Command{Host: host, Args: []string{"/bin/sh", "-c", strings.Join(command, " ")}}, stdin)
}

// call runs a command, and copies its streams.
func call(command shell.Command, stdin io.Reader) (int, error) {
	text, err := json.Marshal(command)
	if err == nil && len(text) > shell.PieceBytes {
		err = errors.New("command is too long")
	}
	if err != nil {
		return codeLost, err
	}
	conn, err := connect()
	if err != nil {
		return codeLost, err
	}
	defer conn.Close()
	var sending sync.Mutex
	send := func(kind shell.Kind, body []byte) error {
		sending.Lock()
		defer sending.Unlock()
		return shell.Send(conn, kind, body)
	}
	if err := send(shell.Exec, text); err != nil {
		return codeLost, err
	}
	go feed(send, stdin)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	go func() {
		for s := range signals {
			_ = send(shell.Signal, []byte{byte(s.(syscall.Signal))})
		}
	}()
	return hear(conn)
}

// feed sends the input of the command.
func feed(send func(shell.Kind, []byte) error, stdin io.Reader) {
	buffer := make([]byte, shell.PieceBytes)
	for stdin != nil {
		n, err := stdin.Read(buffer)
		if n > 0 && send(shell.Stdin, buffer[:n]) != nil {
			return
		}
		if err != nil {
			break
		}
	}
	_ = send(shell.StdinEnds, nil)
}

// hear writes the output of the command, until its end.
func hear(conn io.Reader) (int, error) {
	for {
		kind, body, err := shell.Receive(conn)
		if err != nil {
			return codeLost, errors.New("connection to the node agent was lost, and the command is being ended")
		}
		switch kind {
		case shell.Stdout:
			_, err = os.Stdout.Write(body)
		case shell.Stderr:
			_, err = os.Stderr.Write(body)
		case shell.End:
			var end shell.Result
			if err := json.Unmarshal(body, &end); err != nil {
				return codeLost, err
			}
			if end.Text != "" {
				return end.Code, errors.New(end.Text)
			}
			return end.Code, nil
		}
		if err != nil {
			return codeLost, err
		}
	}
}

// connect connects to the agent through the task's socket, which appears soon after the start. Its path may exceed
// the limit of socket paths, so it is addressed through its folder.
func connect() (net.Conn, error) {
	program := os.Getenv("SYNAPSE_EXEC")
	if program == "" {
		return nil, errors.New("SYNAPSE_EXEC is not set: this process is not in a task of Synapse, or its environment was " +
			"cleared")
	}
	folder, err := os.Open(filepath.Dir(program))
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	return dialUntil(fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), shell.SocketName))
}

// dialUntil retries until the socket exists.
func dialUntil(path string) (net.Conn, error) {
	for until := time.Now().Add(callPatience); ; time.Sleep(callPause) {
		conn, err := net.Dial("unix", path)
		if err == nil || time.Now().After(until) {
			return conn, err
		}
	}
}
