package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/yi-json/synapse/runtime/shell"
)

// This file owns --lead: a gang in which rank 0 has a launcher start everything, as mpirun. The other tasks hold their
// places, and end well when it has; where it fails, or one of them does, the gang ends as any other.

// lead runs the command on rank 0, and waits elsewhere.
func lead(args []string) (int, error) {
	if len(args) == 0 {
		return codeUsage, errors.New("--lead requires a command")
	}
	if os.Getenv("SYNAPSE_RANK") != "0" {
		return stay()
	}
	command := exec.Command(args[0], args[1:]...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(signals)
	if err := command.Start(); err != nil {
		return 127, err
	}
	go func() {
		for s := range signals {
			_ = command.Process.Signal(s)
		}
	}()
	err := command.Wait()
	if code := command.ProcessState.ExitCode(); code != 0 {
		if status, ok := command.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			code = 128 + int(status.Signal())
		}
		return code, nil
	}
	if err != nil {
		return codeFailed, err
	}
	return dismiss()
}

// codeWithTask is that of a process that ended because its task did.
const codeWithTask = 128 + int(syscall.SIGKILL)

// stayName is where a task that waits can be told, in its own scratch directory.
const stayName = "synapse-stay"

func stayPlace() (*os.File, string, error) {
	folder, err := os.Open(filepath.Dir(filepath.Dir(os.Getenv("SYNAPSE_EXEC"))))
	if err != nil {
		return nil, "", err
	}
	return folder, fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), stayName), nil
}

// stay waits until it is told that all is over.
func stay() (int, error) {
	folder, path, err := stayPlace()
	if err != nil {
		return codeFailed, err
	}
	defer folder.Close()
	_ = os.Remove(path)
	listener, err := net.Listen("unix", path)
	if err != nil {
		return codeFailed, err
	}
	defer os.Remove(path)
	conn, err := listener.Accept()
	if err != nil {
		return codeFailed, err
	}
	return 0, conn.Close()
}

// release tells the task that this runs in. One that has just begun may not listen yet: a command on rank 0 can be over
// before.
func release([]string) error {
	folder, path, err := stayPlace()
	if err != nil {
		return err
	}
	defer folder.Close()
	conn, err := dialUntil(path)
	if err != nil {
		return err
	}
	return conn.Close()
}

// dismissAtOnce is how many tasks are told beside each other.
const dismissAtOnce = 16

// dismiss tells all other tasks.
func dismiss() (int, error) {
	world, err := strconv.Atoi(os.Getenv("SYNAPSE_WORLD_SIZE"))
	if err != nil {
		return codeFailed, errors.New("SYNAPSE_WORLD_SIZE is not set")
	}
	var all sync.WaitGroup
	failed := make(chan error, world)
	room := make(chan struct{}, dismissAtOnce)
	for rank := 1; rank < world; rank++ {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			args := []string{"/bin/sh", "-c", `exec "$SYNAPSE_EXEC" --release`}
			code, err := call(shell.Command{Host: fmt.Sprintf(":%d", rank), Args: args}, nil)
			if code != 0 && code != codeWithTask { // the task may end before the process that told it
				failed <- fmt.Errorf("rank %d was not notified of the end: code %d, %v", rank, code, err)
			}
		})
	}
	all.Wait()
	close(failed)
	if err := <-failed; err != nil {
		return codeFailed, err
	}
	return 0, nil
}
