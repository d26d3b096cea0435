//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/local"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/messages"
)

// This file implements `up`, which runs a cluster of real processes on this host.

// upFlags holds the flags of `up`.
type upFlags struct {
	local.Options
	patience string
	quiet    bool
	verbose  bool
	clean    bool
	insecure int // number of occurrences
}

func (a *app) upCommand() *cobra.Command {
	u := &upFlags{}
	c := &cobra.Command{
		Use:   "up",
		Short: "run a local cluster: a scheduler, and nodes with declared GPUs",
		Long: "Runs a small cluster on this host until Ctrl-C: a scheduler, and a process for each node. The nodes\n" +
			"are in racks, and each node declares GPUs that do not exist. Once all nodes have joined, the command\n" +
			"prints one line to standard output. State and logs are in --data-dir. If you start a cluster there\n" +
			"again, it continues with the jobs of the last one, and certificates that you created with `certify`\n" +
			"stay valid. Without --data-dir, state and logs are in a\n" +
			"temporary directory, which is deleted when the cluster ends. If a cluster is killed, its tasks\n" +
			"continue to run. The next cluster in the same directory ends these tasks and restarts their jobs. If\n" +
			"--clean is set, the command ends these tasks and starts no cluster.\n\n" +
			"The cluster uses TLS with generated keys. Only the user who started the cluster can read these keys.\n" +
			"SYNAPSE_CONFIG, which the command prints, names a settings file with the paths of the keys. Tasks\n" +
			"cannot read the keys, so no task can control the cluster. The user who starts the cluster is its\n" +
			"admin for 90 days.\n\n" +
			"Each node has a separate loopback address (127.x.y.z) and rendezvous port range, but all nodes share\n" +
			"the network of this host. A process that listens on all addresses therefore uses this port on every\n" +
			"node.",
		Example: "  synapse-cli up --nodes 8 --racks 2 --gpus 8\n" +
			"  synapse-cli up --data-dir ~/synapse --listen 127.0.0.1:9000\n" +
			"  synapse-cli up --clean",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usage("`up` accepts no arguments")
			}
			return u.check()
		},
		RunE: func(*cobra.Command, []string) error {
			if u.clean {
				return a.cleanUp(u)
			}
			return a.up(u)
		},
	}
	f := c.Flags()
	f.IntVar(&u.Nodes, "nodes", 4, "number of node processes")
	f.IntVar(&u.Racks, "racks", 1, "number of racks")
	f.IntVar(&u.GPUs, "gpus", 8, "number of declared GPUs per node")
	f.StringVar(&u.GPUType, "gpu-type", "", "type of the declared GPUs")
	f.IntVar(&u.CPUs, "cpus", 32, "number of CPUs that each node offers, whether or not they exist")
	f.StringVar(&u.Memory, "memory", "256Gi", "memory that each node offers, whether or not it exists")
	f.StringVar(&u.Listen, "listen", "127.0.0.1:0", "listening address of the scheduler; port 0 picks a free port")
	f.StringVar(&u.Dir, "data-dir", "", "directory for state and logs (default: a temporary directory)")
	f.StringVar(&u.Store, "store", "", "record store of the scheduler: sqlite or memory")
	f.StringVar(&u.Driver, "driver", "", "task driver, as in synapse-node --driver")
	f.StringVar(&u.patience, "join-timeout", "60s", "maximum time for all nodes to join")
	f.BoolVar(&u.clean, "clean", false,
		"start nothing; end the tasks that a killed cluster left running in --data-dir, or in any temporary directory of "+
			"a cluster")
	f.BoolVarP(&u.verbose, "verbose", "v", false, "also print the output of the processes, which their logs contain")
	f.BoolVarP(&u.quiet, "quiet", "q", false, "write the output of the processes to their logs only (the default)")
	_ = f.MarkHidden("quiet") // scripts of earlier versions use it
	f.CountVar(&u.insecure, "insecure",
		"use plaintext: anyone who can reach the port, including tasks, controls the cluster; give the flag twice")
	a.completeWords(c, "driver", upDrivers)
	a.completeWords(c, "store", []string{"sqlite", "memory"})
	return c
}

// upDrivers lists the drivers of synapse-node.
var upDrivers = []string{"auto", "carapace", "oci", "process"}

func (u *upFlags) check() error {
	u.Insecure = u.insecure > 1
	switch {
	case u.insecure == 1:
		return exit.Hint(
			"omit it, or pass it twice: then every task and user on this host can control the cluster",
			"--insecure is unsafe: tasks on this host could control the cluster without a key")
	case u.Nodes < 1 || u.Nodes > local.MaxNodes:
		return exit.Usage("--nodes %d: must be 1 to %d", u.Nodes, local.MaxNodes)
	case u.Racks < 1 || u.Racks > u.Nodes:
		return exit.Usage("--racks %d: must be 1 to the number of nodes", u.Racks)
	case u.GPUs < 0 || u.GPUs > messages.MaxMilliGPU/1000:
		return exit.Usage("--gpus %d: must be 0 to %d", u.GPUs, messages.MaxMilliGPU/1000)
	case u.CPUs < 0:
		return exit.Usage("--cpus %d: must not be negative", u.CPUs)
	case u.Driver != "" && !slices.Contains(upDrivers, u.Driver):
		return exit.Hint("use "+strings.Join(upDrivers, ", "), "--driver %s: unknown driver", u.Driver)
	case u.Store != "" && u.Store != "sqlite" && u.Store != "memory":
		return exit.Hint("use sqlite, memory", "--store %s: unknown store", u.Store)
	}
	if _, _, err := net.SplitHostPort(u.Listen); err != nil {
		return exit.Hint("write host:port, as in 127.0.0.1:9000", "--listen %q: invalid address", u.Listen)
	}
	if info, err := os.Stat(u.Dir); u.Dir != "" && err == nil && !info.IsDir() {
		return exit.Usage("--data-dir %s is not a directory", u.Dir)
	}
	for flag, text := range map[string]string{"memory": u.Memory, "join-timeout": u.patience} {
		parse := jobfile.ParseMemory
		if flag == "join-timeout" {
			parse = jobfile.ParseDuration
		}
		if _, err := parse(text); text != "" && err != nil {
			return flagProblem(flag, err)
		}
	}
	return nil
}

// cleanUp ends what killed clusters have left. It removes their temporary folders, and keeps folders that the user
// named.
func (a *app) cleanUp(u *upFlags) error {
	var err error
	dirs := []string{u.Dir}
	if u.Dir == "" {
		if dirs, err = local.Abandoned(os.TempDir()); err != nil {
			return err
		}
	} else if dirs[0], err = filepath.Abs(u.Dir); err != nil {
		return err
	} else if _, err := os.Stat(u.Dir); errors.Is(err, fs.ErrNotExist) {
		return &exit.Failure{Code: exit.NotFound, Text: "directory " + u.Dir + " does not exist",
			Hint: "omit --data-dir to end the remains of all temporary clusters"}
	}
	for _, dir := range dirs {
		node, err := a.program("synapse-node")
		if err != nil {
			return err
		}
		n, err := local.Clean(node, dir)
		if err == nil && u.Dir == "" {
			err = os.RemoveAll(dir)
		}
		if err != nil {
			return upProblem(err)
		}
		if err := a.data("%s: %d processes ended", dir, n); err != nil {
			return err
		}
	}
	return nil
}

// up runs the cluster. The first signal ends it in order, the second immediately.
func (a *app) up(u *upFlags) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	now := make(chan struct{})
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	go func() {
		var once sync.Once
		for s := range signals {
			if ctx.Err() != nil {
				once.Do(func() { close(now) })
				continue
			}
			a.say("%s: %s: stopping the cluster", a.name, s)
			stop()
		}
	}()
	temporary := u.Dir == ""
	u.Resume = !temporary
	if err := a.prepareUp(u); err != nil {
		return err
	}
	if temporary {
		defer os.RemoveAll(u.Dir)
	}
	cluster, err := local.Start(ctx, u.Options)
	if err == nil {
		err = a.serveUp(ctx, u, cluster)
	}
	interrupted := ctx.Err() != nil
	stop()
	if temporary && err == nil {
		a.cancelAll(cluster, now)
	}
	if stopped := cluster.Stop(now); err == nil || interrupted {
		err = stopped
	}
	return a.ended(err)
}

// ended returns the result of `up`. A process that died has already been reported.
func (a *app) ended(err error) error {
	var died *local.Died
	if errors.As(err, &died) {
		for _, line := range died.Last {
			a.say("  %s", line)
		}
		return &exit.Failure{Code: exit.Failed, Text: died.Error(), Hint: "see its last log lines above"}
	}
	return upProblem(err)
}

// upProblem returns the error for a folder in use with the code of a conflict.
func upProblem(err error) error {
	if errors.Is(err, local.ErrInUse) {
		return &exit.Failure{Code: exit.Conflict, Text: err.Error()}
	}
	return err
}

// prepareUp finds the programs and creates the folder.
func (a *app) prepareUp(u *upFlags) error {
	var err error
	if u.Scheduler, err = a.program("synapse-scheduler"); err != nil {
		return err
	}
	if u.Node, err = a.program("synapse-node"); err != nil {
		return err
	}
	if u.Dir == "" {
		// Tasks run as other users and must be able to enter the folder.
		if u.Dir, err = os.MkdirTemp("", local.TemporaryPrefix); err == nil {
			err = os.Chmod(u.Dir, 0o711)
		}
	} else if u.Dir, err = filepath.Abs(u.Dir); err == nil {
		err = os.MkdirAll(u.Dir, 0o755)
	}
	if u.Notes = a.stderr; u.verbose && !u.quiet {
		u.Output = a.stderr
	}
	u.Colour, u.Owner = a.style.Colour, ownerName()
	if u.Insecure {
		a.say("%s: INSECURE: this cluster uses plaintext. Every task and user on this host can control it.", a.name)
	}
	// The settings of the children are set here. Variables that the user has set for another node must not
	// affect them.
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "SYNAPSE_NODE_") && !strings.HasPrefix(entry, "SYNAPSE_SCHEDULER_") {
			u.Env = append(u.Env, entry)
		}
	}
	return err
}

// ownerName returns the owner of jobs with the cluster's keys: the user's name, if a certificate may contain it.
func ownerName() string {
	const otherwise = "admin"
	own, err := user.Current()
	if err != nil {
		return otherwise
	}
	if err := (identity.Identity{Cluster: local.Name, Role: identity.RoleAdmin, Name: own.Username}).Check(); err != nil {
		return otherwise
	}
	return own.Username
}

// settingsOf returns the connection settings for the cluster.
func settingsOf(cluster *local.Cluster) map[string]string {
	settings := map[string]string{"server": cluster.Address()}
	if keys := cluster.Keys(); keys != "" {
		settings["tls"] = keys
	}
	return settings
}

// dialLocal connects to the cluster as its owner.
func dialLocal(cluster *local.Cluster) (*client.Client, error) {
	return client.Dial(client.Config{Server: cluster.Address(), TLS: cluster.Keys()})
}

// serveUp waits until all nodes have joined, reports this, and watches the cluster until its end.
func (a *app) serveUp(ctx context.Context, u *upFlags, cluster *local.Cluster) error {
	if ctx.Err() != nil {
		return nil
	}
	settings := filepath.Join(u.Dir, "cli.yaml")
	text, err := yaml.Marshal(settingsOf(cluster))
	if err == nil {
		err = os.WriteFile(settings, text, 0o644)
	}
	if err != nil {
		return err
	}
	ms, err := jobfile.ParseDuration(u.patience)
	if err != nil {
		return flagProblem("join-timeout", err)
	}
	watched := make(chan error, 1)
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	standing := make(chan struct{})
	go func() {
		watched <- cluster.Watch(watching, standing, func(d *local.Died) {
			a.say("%s: %v; the cluster continues without it", a.name, d)
		})
	}()
	joining, cancel := context.WithTimeout(ctx, time.Duration(ms)*time.Millisecond)
	defer cancel()
	joined := make(chan error, 1)
	go func() { joined <- a.awaitNodes(joining, cluster, u.Nodes) }()
	select {
	case err := <-watched:
		return err
	case err := <-joined:
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
	close(standing)
	// The cluster continues if the reader of the line is gone.
	_ = a.data("ready: scheduler %s, %s, %s, %s", cluster.Address(), show.Counted(u.Nodes, "node"),
		show.Counted(u.Nodes*u.GPUs, "GPU"), show.Counted(u.Racks, "rack"))
	a.say("%s: export SYNAPSE_CONFIG=%s", a.name, show.Command(settings))
	a.say("%s: `%s web` shows the cluster in a browser", a.name, a.name)
	if u.Output == nil {
		a.say("%s: the processes write their logs to %s", a.name, filepath.Join(u.Dir, "logs"))
	}
	return <-watched
}

// awaitNodes waits until this many nodes are up.
func (a *app) awaitNodes(ctx context.Context, cluster *local.Cluster, want int) error {
	c, err := dialLocal(cluster)
	if err != nil {
		return err
	}
	defer c.Close()
	up := 0
	for {
		nodes, err := c.Nodes(ctx)
		if err == nil {
			up = 0
			for _, n := range nodes {
				if n.GetPhase() == "up" {
					up++
				}
			}
			if up >= want {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return &exit.Failure{Code: exit.TimedOut, Text: fmt.Sprintf("%d of %d nodes joined in time", up, want),
				Hint: "check the node logs; increase --join-timeout to wait longer"}
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// cancelAll cancels the jobs of a cluster that is about to end, so that they can stop in order. Jobs that do not
// stop are killed with the rest.
func (a *app) cancelAll(cluster *local.Cluster, now <-chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), 1500*time.Millisecond)
	defer cancel()
	c, err := dialLocal(cluster)
	if err != nil {
		return
	}
	defer c.Close()
	asked := map[string]bool{}
	for {
		jobs, err := c.Jobs(ctx, &messages.ListJobs{})
		live := 0
		for _, j := range jobs {
			if id := j.GetRecord().GetId(); !over(j) {
				live++
				if !asked[id] {
					asked[id] = true
					_, _ = c.Cancel(ctx, &messages.Cancel{Job: id, Reason: "cluster stops"})
				}
			}
		}
		if err != nil || live == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-now:
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}
