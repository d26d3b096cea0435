// Command compare measures Synapse and Slurm next to each other on this host, in interleaved rounds, and prints the
// medians and their ratios. The results of one run have the same load of the host in them, so only the ratios count.
//
//	make compare                        64 nodes of each system, 15 rounds
//	make compare NODES=4 ROUNDS=3       a quick look
//	make compare WRITE=1                also replaces the table in docs/reports/performance.md
//
// Slurm comes from the packages of Debian. The program unpacks them into a folder and installs nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// This file owns the flags and the order of a comparison.

// withoutSlurm is the exit code if this host has no Slurm and cannot unpack it.
const withoutSlurm = 3

// request describes a comparison.
type request struct {
	nodes, rounds int
	submits, jobs int           // per round
	slurm         string        // folder of the unpacked packages
	driver        string        // of the node agents
	only          string        // part of the name of the measured rows
	page          string        // page whose table is replaced; empty: none
	within        time.Duration // limit of the complete run
}

func main() {
	var r request
	flag.IntVar(&r.nodes, "nodes", 64, "number of nodes of each system, from 1 to 64")
	flag.IntVar(&r.rounds, "rounds", 15, "number of interleaved rounds")
	flag.IntVar(&r.submits, "submits", 100, "number of submits in each round")
	flag.IntVar(&r.jobs, "jobs", 100, "number of jobs without work in each round")
	flag.StringVar(&r.slurm, "slurm", "bin/slurm", "folder for the unpacked packages of Slurm")
	flag.StringVar(&r.driver, "driver", "process", "driver of the node agents")
	flag.StringVar(&r.only, "only", "", "measure only the rows whose names contain this text")
	flag.StringVar(&r.page, "write", "", "page whose table is replaced")
	flag.DurationVar(&r.within, "within", 45*time.Minute, "limit of the complete run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, r.within)
	defer cancel()
	if err := r.run(ctx, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		if errors.Is(err, errNoSlurm) {
			os.Exit(withoutSlurm)
		}
		os.Exit(1)
	}
}

func (r request) validate() error {
	switch {
	case r.nodes < 1 || r.nodes > 64:
		return fmt.Errorf("%d nodes: choose 1 to 64", r.nodes)
	case r.rounds < 1 || r.submits < 1 || r.jobs < 1:
		return errors.New("rounds, submits and jobs must be at least 1")
	}
	return nil
}

// run measures all rows, and removes all processes and files that it created.
func (r request) run(ctx context.Context, out, progress io.Writer) error {
	if err := r.validate(); err != nil {
		return err
	}
	packages, err := unpacked(ctx, r.slurm, progress)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "synapse-compare-")
	if err != nil {
		return err
	}
	procs := &processes{work: work}
	defer procs.end()
	if err := os.Chmod(work, 0o755); err != nil { // tasks run as other users
		return err
	}
	fmt.Fprintln(progress, "building the programs")
	bin := filepath.Join(work, "bin")
	if err := build(ctx, bin); err != nil {
		return err
	}
	fmt.Fprintf(progress, "starting %d nodes of each system\n", r.nodes)
	theirs, err := startSlurm(ctx, procs, packages, r.nodes)
	if err != nil {
		return err
	}
	ours, err := startSynapse(ctx, procs, bin, r.nodes, r.driver)
	if err != nil {
		return err
	}
	bench, err := newBench(r, bin, procs, ours, theirs)
	if err != nil {
		return err
	}
	defer bench.close()
	rows := bench.rows()
	began := time.Now()
	if err := measure(ctx, rows, r.rounds, progress); err != nil {
		return err
	}
	text := report(ctx, r, rows, theirs, began)
	fmt.Fprint(out, text)
	if r.page == "" {
		return nil
	}
	return replace(r.page, text)
}
