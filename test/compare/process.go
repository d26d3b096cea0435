package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// This file owns the processes of both systems: their start, their end, and the wait for a state.

// processes are the running programs, and the folder of all their files.
type processes struct {
	work    string
	folders []string // other folders to remove
	running []*exec.Cmd
}

// start starts a program in the foreground, with its output in a log.
func (p *processes) start(name string, env []string, program string, args ...string) error {
	log, err := os.Create(filepath.Join(p.work, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.Dir = append(env, marker+"="+p.work), log, log, p.work
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start %s: %w", name, err)
	}
	p.running = append(p.running, cmd)
	return nil
}

// marker is a variable in the environment of each process. Tasks inherit it, and their supervisors outlive the agents.
const marker = "SYNAPSE_COMPARE_FOLDER"

// end kills all processes and removes the folder.
func (p *processes) end() {
	for _, cmd := range p.running {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	for tries := 0; p.sweep() > 0 && tries < 200; tries++ {
		time.Sleep(10 * time.Millisecond)
	}
	for _, folder := range append(p.folders, p.work) {
		for tries := 0; os.RemoveAll(folder) != nil && tries < 50; tries++ {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// sweep kills the remaining processes that name the folder, and returns their number.
func (p *processes) sweep() (many int) {
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		pid, _ := strconv.Atoi(filepath.Base(folder))
		for _, file := range []string{"cmdline", "environ"} {
			text, err := os.ReadFile(filepath.Join(folder, file))
			if err == nil && pid != os.Getpid() && bytes.Contains(text, []byte(p.work)) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				many++
				break
			}
		}
	}
	return many
}

// lastLines returns the end of a log, for an error.
func (p *processes) lastLines(name string) string {
	text, _ := os.ReadFile(filepath.Join(p.work, name+".log"))
	return strings.TrimSpace(string(text[max(0, len(text)-600):]))
}

// patience limits the wait for one state.
const patience = time.Minute

// eventually waits until a condition holds.
func eventually(ctx context.Context, what string, every time.Duration, holds func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !holds() {
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return fmt.Errorf("timeout: %s: %w", what, ctx.Err())
		}
	}
	return nil
}

// system is a running cluster of one of the systems.
type system struct {
	name string
	env  []string
	path func(program string) string // file of a command
}

// command returns a command of the system.
func (s *system) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.path(program), args...)
	cmd.Env, cmd.Dir = s.env, os.TempDir()
	return cmd
}

// ask runs a command, and returns its output without the line end.
func (s *system) ask(ctx context.Context, program string, args ...string) (string, error) {
	out, err := s.command(ctx, program, args...).Output()
	if err != nil {
		var ended *exec.ExitError
		if errors.As(err, &ended) {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(ended.Stderr)))
		}
		return "", fmt.Errorf("%s: %s %s: %w", s.name, program, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// freePorts returns ports of the loopback interface that are free now.
func freePorts(many int) ([]int, error) {
	var ports []int
	for range many {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close() // all at the end, so that all ports differ
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// build builds the programs of Synapse and the floor programs. A copied file starts faster than one that the linker has
// just written, and an installed program is a copy.
func build(ctx context.Context, bin string) error {
	built := bin + "-built"
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", built+"/", "./cmd/...",
		"./test/compare/floor/...")
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("cannot build the programs: %w", err)
	}
	if err := os.CopyFS(bin, os.DirFS(built)); err != nil {
		return err
	}
	return os.RemoveAll(built)
}
