package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// This file owns the cluster of Synapse: its keys and its processes.

// startSynapse starts a scheduler and node agents that use TLS, and waits until all nodes are up.
func startSynapse(ctx context.Context, procs *processes, bin string, nodes int, driver string) (*system, error) {
	dir := filepath.Join(procs.work, "synapse")
	keys, address := filepath.Join(dir, "keys"), filepath.Join(dir, "address")
	s := &system{name: "Synapse", path: func(program string) string { return filepath.Join(bin, program) }}
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "SYNAPSE_") && !strings.HasPrefix(pair, "SBATCH_") {
			s.env = append(s.env, pair)
		}
	}
	s.env = append(s.env, "HOME="+dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if _, err := s.ask(ctx, "synapse-cli", "init", keys, "--cluster", "compare"); err != nil {
		return nil, err
	}
	err := procs.start("scheduler", s.env, s.path("synapse-scheduler"), "--listen", "127.0.0.1:0",
		"--listen-file", address, "--data-dir", filepath.Join(dir, "scheduler"),
		"--tls", filepath.Join(keys, "scheduler"), "--levels", "rack")
	if err != nil {
		return nil, err
	}
	var at []byte
	err = eventually(ctx, "the scheduler does not listen", 20*time.Millisecond, func() bool {
		at, err = os.ReadFile(address)
		return err == nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, procs.lastLines("scheduler"))
	}
	server := strings.TrimSpace(string(at))
	s.env = append(s.env, "SYNAPSE_SERVER="+server, "SYNAPSE_TLS="+filepath.Join(keys, "admin"))
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		folder := filepath.Join(keys, name)
		_, err := s.ask(ctx, "synapse-cli", "certify", "node", name, "--by", filepath.Join(keys, "scheduler"),
			"--out", folder)
		if err == nil {
			err = procs.start("agent-"+name, s.env, s.path("synapse-node"), "--join", server, "--tls", folder,
				"--data-dir", filepath.Join(dir, name), "--topology", fmt.Sprintf("rack=r%d", i/16), "--gpus", "0",
				"--cpus", fmt.Sprint(cpus), "--memory", "64Gi", "--address", "127.0.0.1", "--driver", driver)
		}
		if err != nil {
			return nil, err
		}
	}
	err = eventually(ctx, fmt.Sprintf("%d nodes of Synapse are not up", nodes), 200*time.Millisecond, func() bool {
		out, err := s.ask(ctx, "synapse-cli", "get", "nodes", "-o", "json")
		return err == nil && strings.Count(out, `"up"`) == nodes
	})
	if err != nil {
		return nil, fmt.Errorf("%w\nscheduler: %s\nagent: %s", err, procs.lastLines("scheduler"),
			procs.lastLines("agent-n0"))
	}
	return s, nil
}
