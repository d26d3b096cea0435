//go:build linux

package main

// This file implements carapace run. It converts flags or a file into a Spec, and the end of the container into an
// exit code.

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/carapace"
)

// maxSpecFile limits the size of a spec file.
const maxSpecFile = 4 << 20

// request is a parsed command line of run.
type request struct {
	stateFlags
	spec     carapace.Spec
	statusFd int
	timeout  time.Duration
	grace    time.Duration
}

func run(arguments []string) int {
	// The container must not inherit file descriptors other than stdio.
	_ = unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	calmWatcher()
	// Signals are caught before the container is created. Otherwise a signal could end this process and leave
	// the container.
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, forwarded...)
	request, code, done := readRequest(arguments)
	if done {
		return code
	}
	tell, err := request.teller()
	if err != nil {
		complain(err)
		return carapace.CodeSetupFailed
	}
	if request.spec.ID == "" {
		request.spec.ID = carapace.DrawID()
	}
	container, err := carapace.Start(request.spec, carapace.Options{
		StateDir: request.stateDir, Cgroups: request.cgroups,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, OnEvent: tell,
	})
	if err != nil {
		complain(err)
		if failure := new(carapace.StartError); errors.As(err, &failure) {
			return failure.Code
		}
		return carapace.CodeSetupFailed
	}
	for _, what := range container.Unenforced() {
		if request.statusFd >= 0 {
			break // the events contain the error; only the task writes to stderr
		}
		fmt.Fprintf(os.Stderr, "carapace: not enforced: %s\n", what)
	}
	return request.see(container, signals)
}

// see forwards signals, applies the timeout, and returns the exit code.
func (r *request) see(container *carapace.Container, signals <-chan os.Signal) int {
	var timeout, grace <-chan time.Time
	sweeper, dismiss := time.After(sweepAfter), func() {}
	defer func() { dismiss() }()
	if r.timeout > 0 {
		timeout = time.After(r.timeout)
	}
	for {
		select {
		case received := <-signals:
			if err := container.Signal(received.(syscall.Signal)); err != nil {
				complain(err)
			}
		case <-sweeper:
			dismiss = r.leaveSweeper()
		case <-timeout:
			fmt.Fprintf(os.Stderr, "carapace: timeout of %v reached, ending the container\n", r.timeout)
			_ = container.Signal(unix.SIGTERM)
			grace = time.After(r.grace)
		case <-grace:
			_ = container.Kill()
		case <-container.Done():
			exit := container.Wait()
			if exit.Leftover != "" {
				fmt.Fprintf(os.Stderr, "carapace: not removed: %s\n", exit.Leftover)
			}
			return exit.Code
		}
	}
}

// forwarded lists the signals that are forwarded to the task. Stop signals are not in the list, because a container
// cannot be stopped and continued.
var forwarded = []os.Signal{
	unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM,
	unix.SIGWINCH, unix.SIGCONT,
}

// teller returns a function that writes events to the file descriptor of --status-fd. If the reader is gone, the
// task continues.
func (r *request) teller() (func(carapace.Event), error) {
	if r.statusFd < 0 {
		return nil, nil
	}
	var stat unix.Stat_t
	if err := unix.Fstat(r.statusFd, &stat); err != nil {
		return nil, fmt.Errorf("--status-fd %d is not open", r.statusFd)
	}
	signal.Ignore(unix.SIGPIPE)
	status := os.NewFile(uintptr(r.statusFd), "status")
	return func(event carapace.Event) {
		if text, err := json.Marshal(event); err == nil {
			_, _ = status.Write(append(text, '\n'))
		}
	}, nil
}

func readRequest(arguments []string) (r *request, code int, done bool) {
	r = &request{}
	flags := flag.NewFlagSet("carapace run", flag.ContinueOnError)
	file := r.register(flags)
	if code, done := parse(flags, arguments, carapace.CodeSetupFailed); done {
		return nil, code, true
	}
	given := map[string]bool{}
	flags.Visit(func(set *flag.Flag) { given[set.Name] = true })
	command := flags.Args()
	if len(given) == 0 && len(command) > 2 && command[1] == "--" && command[2] == "--" {
		// The older carapace parsed its arguments twice, and its callers still write the extra arguments.
		command = slices.Delete(command, 1, 3)
	}
	err := r.complete(*file, given, command)
	if err != nil {
		complain(err)
		return nil, carapace.CodeSetupFailed, true
	}
	return r, 0, false
}

// complete combines the file, flags and command. A file is a complete spec, so flags next to a file are refused as
// ambiguous.
func (r *request) complete(file string, given map[string]bool, command []string) error {
	if file != "" {
		for name := range given {
			if !slices.Contains([]string{"spec", "status-fd", "timeout", "grace", "state-dir", "cgroup-root", "cgroup-parent"},
				name) {
				return fmt.Errorf("--%s cannot be combined with --spec; write it into the file", name)
			}
		}
		if len(command) > 0 {
			return errors.New("a command cannot be combined with --spec; write it into the file")
		}
		return readSpec(file, &r.spec)
	}
	r.spec.Command = command
	if len(command) == 0 {
		return errors.New("no command; write it after the flags: carapace run --rootfs host -- COMMAND")
	}
	r.spec.Rootfs = cmp.Or(r.spec.Rootfs, "./rootfs")
	for _, path := range []*string{&r.spec.Rootfs, &r.spec.Layer, &r.spec.Scratch} {
		if *path == "" || path == &r.spec.Rootfs && *path == "host" {
			continue
		}
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
	}
	return nil
}

func readSpec(path string, spec *carapace.Spec) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("--spec: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxSpecFile+1))
	if err != nil {
		return fmt.Errorf("--spec: %w", err)
	}
	if len(text) > maxSpecFile {
		return fmt.Errorf("--spec: %s is larger than %d bytes", path, maxSpecFile)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(spec); err != nil {
		return fmt.Errorf("--spec %s: %w", path, err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return fmt.Errorf("--spec %s: more than one value in the file", path)
	}
	return nil
}

// environmentEntry returns NAME=value. For a bare NAME it uses the value in this process, so that secrets need not
// be on a command line.
func environmentEntry(text string) (string, error) {
	if strings.Contains(text, "=") {
		return text, nil
	}
	value, set := os.LookupEnv(text)
	if !set {
		return "", fmt.Errorf("variable %s is not set; write %s=value", text, text)
	}
	return text + "=" + value, nil
}
