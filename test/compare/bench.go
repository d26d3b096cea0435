package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// This file owns the measured operations of both systems.

// bench is the equipment of the measurements.
type bench struct {
	request
	ours, theirs *system
	started      *os.File // named pipe to which each task writes a line
	pipe         string
	floor        *floor
}

func newBench(r request, bin string, procs *processes, ours, theirs *system) (*bench, error) {
	b := &bench{request: r, ours: ours, theirs: theirs}
	if err := b.links(bin, procs.work); err != nil {
		return nil, err
	}
	// Tasks of Synapse can write only to their own files and to public folders.
	public, err := os.MkdirTemp("/var/tmp", filepath.Base(procs.work)+"-")
	if err != nil {
		return nil, err
	}
	procs.folders = append(procs.folders, public)
	b.pipe = filepath.Join(public, "started")
	if err = os.Chmod(public, 0o755); err == nil {
		err = syscall.Mkfifo(b.pipe, 0o666)
	}
	if err == nil {
		err = os.Chmod(b.pipe, 0o666)
	}
	if err == nil {
		b.started, err = os.OpenFile(b.pipe, os.O_RDWR, 0) // also a writer, so that the pipe never ends
	}
	if err == nil {
		b.floor, err = listen(filepath.Join(procs.work, "floor.pem"))
	}
	return b, err
}

// links creates Slurm's commands for Synapse, as `synapse-cli slurm install` does.
func (b *bench) links(bin, work string) error {
	folder := filepath.Join(work, "links")
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"sbatch", "squeue", "scancel"} {
		if err := os.Symlink(filepath.Join(bin, "synapse-submit"), filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	b.ours.path = func(program string) string {
		if link := filepath.Join(folder, program); exec.Command(link).Err == nil {
			if _, err := os.Lstat(link); err == nil {
				return link
			}
		}
		return filepath.Join(bin, program)
	}
	return nil
}

func (b *bench) close() {
	b.started.Close()
	b.floor.close()
}

// lines waits until this many lines were written to the pipe.
func (b *bench) lines(many int) error {
	if err := b.started.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	for buffer := make([]byte, 4096); many > 0; {
		n, err := b.started.Read(buffer)
		if err != nil {
			return fmt.Errorf("%d tasks have not started: %w", many, err)
		}
		many -= strings.Count(string(buffer[:n]), "\n")
	}
	return nil
}

// settle waits until a system runs nothing and no job waits.
func (b *bench) settle(ctx context.Context, s *system) error {
	err := eventually(ctx, s.name+" is not idle", 50*time.Millisecond, func() bool {
		out, err := s.ask(ctx, "squeue", "-h")
		return err == nil && out == ""
	})
	if err == nil && s == b.theirs {
		err = slurmIdle(ctx, s, b.nodes, 50*time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond) // the agents remove their files
	return err
}

// clear cancels all jobs of a system.
func (b *bench) clear(ctx context.Context, s *system) error {
	if _, err := s.ask(ctx, "scancel", "--me"); err != nil {
		return err
	}
	return b.settle(ctx, s)
}

// gang returns the measurement of the time from the start of the submitting command until all tasks have started.
func (b *bench) gang(s *system, nodes int, program string, args ...string) figure {
	return func(ctx context.Context) (float64, error) {
		cmd := s.command(ctx, program, append(args, "sh", "-c", "echo > "+b.pipe+"; exec sleep 600")...)
		began := time.Now()
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		defer func() { // a command that waits ends with the job
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
		}()
		if err := b.lines(nodes); err != nil {
			return 0, fmt.Errorf("%s: %w", s.name, err)
		}
		took := time.Since(began)
		return milliseconds(took), b.clear(ctx, s)
	}
}

// command returns the measurement of the time until a command ends.
func (b *bench) command(s *system, program string, args ...string) figure {
	return func(ctx context.Context) (float64, error) {
		began := time.Now()
		if _, err := s.ask(ctx, program, args...); err != nil {
			return 0, err
		}
		took := time.Since(began)
		return milliseconds(took), b.settle(ctx, s)
	}
}

// submits returns the measurement of submits per second, by several clients that start one command after another.
func (b *bench) submits(s *system, clients int, program string, args ...string) figure {
	return func(ctx context.Context) (float64, error) {
		began := time.Now()
		if err := b.together(ctx, s, clients, b.request.submits, program, args...); err != nil {
			return 0, err
		}
		rate := float64(b.request.submits) / time.Since(began).Seconds()
		return rate, b.clear(ctx, s)
	}
}

// empty returns the measurement of jobs without work per second, from the first submit until the last job has run.
func (b *bench) empty(s *system) figure {
	return func(ctx context.Context) (float64, error) {
		began := time.Now()
		err := b.together(ctx, s, 8, b.jobs, "sbatch", "-N1", "-n1", "-o", "/dev/null", "--wrap", "echo > "+b.pipe)
		if err == nil {
			err = b.lines(b.jobs)
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", s.name, err)
		}
		rate := float64(b.jobs) / time.Since(began).Seconds()
		return rate, b.settle(ctx, s)
	}
}

// together runs a command many times, by several clients at once.
func (b *bench) together(ctx context.Context, s *system, clients, many int, program string, args ...string) error {
	var all sync.WaitGroup
	failed := make([]error, clients)
	for client := range clients {
		all.Go(func() {
			for i := client; i < many && failed[client] == nil; i += clients {
				_, failed[client] = s.ask(ctx, program, args...)
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// rows returns the measured operations whose names contain the requested text.
func (b *bench) rows() *rows {
	all := &rows{}
	add := func(name string, r row) {
		if r.name = name; strings.Contains(name, b.only) {
			all.pairs = append(all.pairs, &r)
		}
	}
	for _, nodes := range []int{1, 8, 64} {
		if nodes <= b.nodes {
			many := fmt.Sprint(nodes)
			add("gang of "+many+": from submit until all tasks run", row{unit: "ms",
				ours: b.gang(b.ours, nodes, "synapse-cli", "submit", "-q", "--image", "host", "-n", many,
					"--cpu", fmt.Sprint(cpus), "--"),
				theirs: b.gang(b.theirs, nodes, "srun", "-N", many, "-n", many, "-c", fmt.Sprint(cpus))})
		}
	}
	add("`run true` / `srun true`, complete", row{unit: "ms", ours: b.command(b.ours, "synapse-cli", "run", "true"),
		theirs: b.command(b.theirs, "srun", "-n1", "true")})
	held := []string{"-H", "-N1", "-n1", "-o", "/dev/null", "--wrap", "true"}
	for _, clients := range []int{1, 8} {
		add(fmt.Sprintf("submits by `sbatch`, %d at once", clients), row{unit: "/s", more: true,
			ours: b.submits(b.ours, clients, "sbatch", held...), theirs: b.submits(b.theirs, clients, "sbatch", held...)})
	}
	add("submits by `synapse-cli submit` / `sbatch`, 8 at once", row{unit: "/s", more: true,
		ours:   b.submits(b.ours, 8, "synapse-cli", "submit", "-q", "--hold", "--image", "host", "-n", "1", "--", "true"),
		theirs: b.submits(b.theirs, 8, "sbatch", held...)})
	add("jobs without work, submitted by `sbatch`, 8 at once", row{unit: "/s", more: true,
		ours: b.empty(b.ours), theirs: b.empty(b.theirs)})
	program := func(name string, s *system, clear bool, program string, args ...string) {
		if strings.Contains(name, b.only) {
			all.programs = append(all.programs, &programRow{name: name, run: b.cost(s, clear, nil, program, args...)})
		}
	}
	program(floorHello, b.ours, false, "hello")
	program(floorSends, b.ours, false, "sends", b.floor.address, b.floor.file)
	program("`synapse-cli version --client`", b.ours, false, "synapse-cli", "version", "--client")
	program("`sbatch` of Synapse, a submit", b.ours, true, "sbatch", held...)
	ofJob := func(name string, s *system, program string, args ...string) {
		if strings.Contains(name, b.only) {
			all.programs = append(all.programs, &programRow{name: name, run: b.cost(s, true, held, program, args...)})
		}
	}
	ofJob("`squeue -h -j JOB -o %T` of Synapse", b.ours, "squeue", "-h", "-o", "%T", "-j")
	ofJob("`scancel JOB` of Synapse", b.ours, "scancel")
	program("`sbatch --version` of Slurm", b.theirs, false, "sbatch", "--version")
	program("`sbatch` of Slurm, a submit", b.theirs, true, "sbatch", held...)
	ofJob("`squeue -h -j JOB -o %T` of Slurm", b.theirs, "squeue", "-h", "-o", "%T", "-j")
	ofJob("`scancel JOB` of Slurm", b.theirs, "scancel")
	return all
}

// perRound is the number of runs of each program in a round.
const perRound = 10

// cost returns the measurement of a program: the mean elapsed time and CPU time of a run, in milliseconds. If submit is
// not nil, each run gets the number of a new job, which sbatch submits with these arguments before the measurement.
func (b *bench) cost(s *system, clear bool, submit []string, program string, args ...string) cost {
	return func(ctx context.Context) (elapsed, cpu float64, err error) {
		for range perRound {
			words := slices.Clone(args)
			if submit != nil {
				job, err := s.ask(ctx, "sbatch", append([]string{"--parsable"}, submit...)...)
				if err != nil {
					return 0, 0, err
				}
				words = append(words, job)
			}
			cmd := s.command(ctx, program, words...)
			began := time.Now()
			if out, err := cmd.CombinedOutput(); err != nil {
				return 0, 0, fmt.Errorf("%s: %s: %w: %s", s.name, program, err, out)
			}
			elapsed += milliseconds(time.Since(began)) / perRound
			cpu += milliseconds(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()) / perRound
		}
		if clear {
			err = b.clear(ctx, s)
		}
		return elapsed, cpu, err
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
