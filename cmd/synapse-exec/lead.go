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

// This file implements --lead: a gang in which rank 0 runs a launcher, such as mpirun, that starts everything. The
// other tasks wait, and exit with 0 after the launcher has succeeded. If the launcher or a task fails, the gang
// ends as usual.

// lead runs the command on rank 0, and waits on other ranks.
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

// codeWithTask is the exit code of a process that was killed with its task.
const codeWithTask = 128 + int(syscall.SIGKILL)

// stayName is the name of the socket of a waiting task, in its scratch folder.
const stayName = "synapse-stay"

func stayPlace() (*os.File, string, error) {
	folder, err := os.Open(filepath.Dir(filepath.Dir(os.Getenv("SYNAPSE_EXEC"))))
	if err != nil {
		return nil, "", err
	}
	return folder, fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), stayName), nil
}

// stay waits until rank 0 reports the end.
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

// release reports the end to the task in which it runs. A new task may not listen yet, because a short command on
// rank 0 may already have ended.
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

// dismissAtOnce limits the tasks that are notified concurrently.
const dismissAtOnce = 16

// dismiss notifies all other tasks.
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
			if code != 0 && code != codeWithTask { // the task may end before the process that notifies it
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
