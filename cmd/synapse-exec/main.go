// Command synapse-exec does what Synapse does inside a task, as the task's user. Every task is shown it; nothing of
// it needs a program of the image. It owns its words, its exit codes, and what it says on stderr.
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/yi-json/synapse/runtime/transfer"
)

const (
	codeFailed = 1
	codeUsage  = 2
)

// words are what synapse-cli and --lead have it do, as its first argument.
var words = map[string]func([]string) error{
	"--pack": pack, "--unpack": unpack, "--dial": dial, "--version": version, "--release": release,
}

func main() {
	// It runs within the limits of a task that needs them for itself.
	debug.SetGCPercent(25)
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(codeUsage)
	}
	code, err := dispatch(os.Args[1], os.Args[2:])
	if err != nil {
		complain(err.Error())
	}
	os.Exit(code)
}

const usage = `synapse-exec HOST COMMAND...     run a command line in the gang's task on another node, in place of ssh
synapse-exec :RANK COMMAND...    run a command line in the task with this rank
synapse-exec --lead COMMAND...   run a command on rank 0; the other tasks wait until it succeeds

Only tasks of Synapse can use this program; its path is $SYNAPSE_EXEC. HOST is a name or an address from $SYNAPSE_HOSTS.
The exit code is the command's own, or 255 if the command did not run or the connection was lost.
`

// dispatch does what the first word says.
func dispatch(word string, args []string) (int, error) {
	if do, known := words[word]; known {
		err := do(args)
		if err != nil {
			return codeFailed, err
		}
		return 0, nil
	}
	switch word {
	case "-h", "--help":
		fmt.Print(usage)
		return 0, nil
	case "--lead":
		return lead(args)
	}
	host, command, silent, err := remoteWords(append([]string{word}, args...))
	if err != nil {
		return codeUsage, err
	}
	if silent {
		return remote(host, command, nil)
	}
	return remote(host, command, os.Stdin)
}

func complain(text string) {
	fmt.Fprintln(os.Stderr, "synapse-exec:", strings.ReplaceAll(text, "\n", "; "))
}

// version says which one it is, and does nothing: to be asked shows that it can be run.
func version([]string) error {
	text := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		text = info.Main.Version
	}
	_, err := fmt.Println("synapse-exec", text)
	return err
}

// errSkipped is the end of a copy that left something out, each of which was named.
var errSkipped = errors.New("the other files were copied")

// skipping names what does not travel.
func skipping() (note transfer.Skipped, end func(error) error) {
	n := 0
	note = func(name, why string) {
		n++
		complain(fmt.Sprintf("%q skipped: %s", name, why))
	}
	return note, func(err error) error {
		if err == nil && n > 0 {
			return errSkipped
		}
		return err
	}
}

// pack writes a file or a folder to stdout.
func pack(args []string) error {
	if len(args) != 1 {
		return errors.New("--pack takes one path")
	}
	note, end := skipping()
	return end(transfer.Pack(os.Stdout, args[0], note))
}

// unpack makes what comes on stdin.
func unpack(args []string) error {
	if len(args) != 1 {
		return errors.New("--unpack takes one path")
	}
	note, end := skipping()
	return end(transfer.Unpack(os.Stdin, args[0], "", note))
}

// dialPatience bounds the wait for a port of the task's own machine.
const dialPatience = 10 * time.Second

// dial joins stdin and stdout with a port of the loopback. Each direction ends by itself: who has said all may
// still be answered.
func dial(args []string) error {
	if len(args) != 1 {
		return errors.New("--dial takes one port")
	}
	port, err := strconv.ParseUint(args[0], 10, 16)
	if err != nil || port == 0 {
		return fmt.Errorf("%q is not a port", args[0])
	}
	conn, err := loopback(strconv.FormatUint(port, 10))
	if err != nil {
		return err
	}
	defer conn.Close()
	var ways sync.WaitGroup
	ways.Go(func() {
		_, _ = io.Copy(conn, os.Stdin) // a server that reads no more may still answer
		_ = conn.CloseWrite()
	})
	_, err = io.Copy(os.Stdout, conn)
	if err != nil {
		return err
	}
	_ = os.Stdout.Close()
	ways.Wait()
	return nil
}

// loopback reaches a server that listens on either address.
func loopback(port string) (*net.TCPConn, error) {
	var failed error
	for _, host := range []string{"127.0.0.1", "::1"} {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(host, port), dialPatience)
		if err == nil {
			return conn.(*net.TCPConn), nil
		}
		if failed == nil {
			failed = err
		}
	}
	return nil, failed
}
