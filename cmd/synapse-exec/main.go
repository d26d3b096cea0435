// Command synapse-exec runs inside a task as the task's user, and does Synapse's work there. It is mounted into
// every task and needs no program of the image. It defines its subcommands, its exit codes, and its texts on
// stderr.
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

// words maps the first argument to the functions for synapse-cli and --lead.
var words = map[string]func([]string) error{
	"--pack": pack, "--unpack": unpack, "--dial": dial, "--version": version, "--release": release,
	"--pmi": servePMI,
}

func main() {
	// The process shares the task's memory limit, so its heap must stay small.
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

const usage = `synapse-exec HOST COMMAND...     run a command line in a task of the gang on another node, instead of ssh
synapse-exec :RANK COMMAND...    run a command line in the task with this rank
synapse-exec --lead COMMAND...   run a command on rank 0; the other tasks wait until it succeeds
synapse-exec --job VERB          show, requeue, requeue-hold or cancel the job of this task
synapse-exec --ack STEP          acknowledge that this task has saved the requested checkpoint (checkpoint.ack: socket)

Only tasks of Synapse can use this program; its path is $SYNAPSE_EXEC. HOST is a name or an address from $SYNAPSE_HOSTS.
The exit code is the command's own, or 255 if the command did not run or the connection was lost.
`

// dispatch runs the subcommand.
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
	case "--job":
		return ownJob(args)
	case "--ack":
		return acknowledge(args)
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

// version prints the version. An answer proves that the program can run.
func version([]string) error {
	text := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		text = info.Main.Version
	}
	_, err := fmt.Println("synapse-exec", text)
	return err
}

// errSkipped is the result of a copy that skipped entries, which were all named.
var errSkipped = errors.New("the other files were copied")

// skipping reports entries that are not copied.
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

// pack writes a file or a folder as an archive to stdout.
func pack(args []string) error {
	if len(args) != 1 {
		return errors.New("--pack takes one path")
	}
	note, end := skipping()
	return end(transfer.Pack(os.Stdout, args[0], note))
}

// unpack creates the files of an archive from stdin.
func unpack(args []string) error {
	if len(args) != 1 {
		return errors.New("--unpack takes one path")
	}
	note, end := skipping()
	return end(transfer.Unpack(os.Stdin, args[0], "", note))
}

// dialPatience limits the wait for a port on loopback.
const dialPatience = 10 * time.Second

// dial connects stdin and stdout with a loopback port. Each direction ends separately, so an answer may follow the
// end of the input.
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

// loopback connects to a server on the IPv4 or IPv6 loopback address.
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
