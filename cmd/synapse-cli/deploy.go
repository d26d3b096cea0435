package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/rollout"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
)

// This file implements `deploy`: its flags, its requests to the cluster, and its output. Package rollout makes the
// decisions.

// deployFlags holds the flags of `deploy`.
type deployFlags struct {
	hosts, by, ssh string
	packages       []string
	canaries       int
	atOnce         int
	withinMs       int64
	overwrite, dry bool
}

// The limits of a rollout.
const (
	maxHostsFile = 1 << 20
	maxAtOnce    = 256
	invitedFor   = time.Hour
)

// hostsExample shows the file of nodes in the help of deploy.
const hostsExample = "  settings: {join: \"10.0.0.7:9000\", labels: pool=train}\n" +
	"  nodes:\n" +
	"    n1: {ssh: root@10.0.0.11, settings: {topology: \"zone=a,rack=r1\"}}\n" +
	"    n[2-40]: {ssh: \"admin@{name}.cluster\"}   # a user other than root needs passwordless sudo\n" +
	"    n41:                                     # ssh n41"

func (a *app) deployCommand() *cobra.Command {
	d := &deployFlags{withinMs: (2 * time.Minute).Milliseconds()}
	c := &cobra.Command{
		Use:   "deploy --hosts FILE",
		Short: "install, configure and join node agents over ssh",
		Long: "Installs the node agent over ssh on the nodes that a file lists. On each node, the command installs\n" +
			"the package, writes the settings and starts the systemd unit. A node without a key joins the cluster\n" +
			"with a token. The command then waits until the cluster reports the node as healthy. Parts that are\n" +
			"already up to date are not changed, so you can run the command again at any time. Running tasks\n" +
			"continue.\n\n" +
			"The command first inspects all nodes. It skips nodes that do not answer or that cannot be set up as\n" +
			"the file specifies. It then updates the first nodes one by one (--canary), and the other nodes in\n" +
			"parallel (--at-once). The rollout stops if an updated node does not join, has fewer GPUs than\n" +
			"before, or is unschedulable. Nodes in progress are then completed, and no further node is updated.\n" +
			"The command never restores an old package; for that, run it again with the old package. The first\n" +
			"Ctrl-C stops the rollout in the same way. The second Ctrl-C abandons the nodes in progress.\n\n" +
			"The file lists the nodes by name under `nodes`. It can have `settings` for all nodes and for each\n" +
			"node, with the keys of " +
			rollout.SettingsFile +
			":\n\n" +
			hostsExample +
			"\n\n" +
			"Standard output has one line per node: its name, the result, and the reason.",
		Example: "  synapse-cli deploy --hosts hosts.yaml --package synapse_1.4.0_amd64.deb --by keys/scheduler --dry-run\n" +
			"  synapse-cli deploy --hosts hosts.yaml --package synapse_1.4.0_amd64.deb --by keys/scheduler\n" +
			"  synapse-cli deploy --hosts hosts.yaml --canary 2 --at-once 32 --ssh \"ssh -l admin\"",
		Args: func(_ *cobra.Command, args []string) error { return d.check(args) },
		RunE: func(*cobra.Command, []string) error {
			r, reach, err := d.rollout()
			if err != nil {
				return err
			}
			return a.with(func(ctx context.Context, c *client.Client) error {
				_, _, secure := c.Root()
				r.Plan.Token = secure || d.by != ""
				r.Crew = &crew{reach, fleet{client: c}}
				return a.deploy(ctx, r)
			})
		},
	}
	f := c.Flags()
	f.StringVar(&d.hosts, "hosts", "", "`file` of nodes to deploy to")
	f.StringArrayVar(&d.packages, "package", nil,
		"package `file` to install, .deb or .rpm, named as by make dist; repeat for each package format and "+
			"architecture (default: keep the installed package)")
	f.StringVar(&d.by, "by", "",
		"`folder` of the scheduler that nodes join, for join tokens; run the command on the scheduler's host")
	f.IntVar(&d.canaries, "canary", 1, "number of nodes to update first, one by one")
	f.IntVar(&d.atOnce, "at-once", 16, "number of nodes to update in parallel after --canary")
	f.Var(span{&d.withinMs}, "within", "maximum time to wait until a node is healthy again")
	f.StringVar(&d.ssh, "ssh", "ssh", "ssh command that precedes the destination")
	f.BoolVar(&d.overwrite, "overwrite", false, "replace settings that were changed by hand on a node")
	f.BoolVar(&d.dry, "dry-run", false, "inspect the nodes and show the planned changes only")
	return c
}

func (d *deployFlags) check(args []string) error {
	switch {
	case len(args) > 0:
		return exit.Hint("list the nodes in the file of --hosts", "`deploy` accepts no arguments")
	case d.hosts == "":
		return exit.Hint("run `deploy --help` for an example of the file", "--hosts is missing")
	case d.canaries < 0:
		return exit.Usage("--canary %d: must not be negative", d.canaries)
	case d.atOnce < 1 || d.atOnce > maxAtOnce:
		return exit.Usage("--at-once %d: must be 1 to %d", d.atOnce, maxAtOnce)
	case d.withinMs <= 0:
		return exit.Usage("--within %s: must be positive", jobfile.FormatDuration(d.withinMs))
	}
	return nil
}

// rollout returns the rollout that the flags request and the connection to the nodes. The caller adds the cluster.
func (d *deployFlags) rollout() (*rollout.Rollout, *rollout.Reach, error) {
	hosts, err := readHosts(d.hosts)
	if err != nil {
		return nil, nil, err
	}
	r := &rollout.Rollout{Hosts: hosts, Canaries: d.canaries, AtOnce: d.atOnce, Poll: pollMachines, Dry: d.dry,
		Within: time.Duration(d.withinMs) * time.Millisecond,
		Plan:   rollout.Plan{MayInvite: d.by != "", Overwrite: d.overwrite}}
	for _, path := range d.packages {
		p, err := rollout.ReadPackage(path)
		if err != nil {
			return nil, nil, exit.Usage("--package: %s", err)
		}
		r.Plan.Packages = append(r.Plan.Packages, p)
	}
	reach, err := rollout.NewReach(d.ssh)
	if err != nil {
		return nil, nil, exit.Usage("--ssh: %s", err)
	}
	reach.Apart, reach.Within = apart, r.Within
	reach.Invite, err = inviter(d.by)
	return r, reach, err
}

// deploy runs the rollout and prints the results.
func (a *app) deploy(ctx context.Context, r *rollout.Rollout) error {
	var telling sync.Mutex
	r.Tell = func(h rollout.Host, text string) {
		telling.Lock()
		defer telling.Unlock()
		a.say("%s: %s", h.Name, text)
	}
	ctx, begin, end := a.interruptible(ctx)
	defer end()
	return a.deployed(r.Run(ctx, begin), r.Dry)
}

func readHosts(path string) ([]rollout.Host, error) {
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxHostsFile {
		err = fmt.Errorf("%s is larger than %d MiB", path, maxHostsFile>>20)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, exit.Usage("--hosts: %s", err)
	}
	hosts, err := rollout.ReadHosts(path, text)
	if err != nil {
		return nil, exit.Usage("%s", err)
	}
	return hosts, nil
}

// inviter returns a function that creates join tokens, each for one node name.
func inviter(by string) (func(name string) (string, error), error) {
	if by == "" {
		return nil, nil
	}
	folder, err := identity.OpenFolder(by)
	if err != nil {
		return nil, exit.Hint("use the folder that synapse-scheduler --tls uses", "--by: %s", err)
	}
	return func(name string) (string, error) {
		return credential.Invite(folder, credential.Invitation{Name: name, Until: time.Now().Add(invitedFor)}, 1)
	}, nil
}

// interruptible returns two contexts. The first Ctrl-C ends begin, so that no further node is started. The second
// ends ctx and with it everything.
func (a *app) interruptible(parent context.Context) (ctx, begin context.Context, end func()) {
	ctx, all := context.WithCancel(parent)
	begin, none := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for _, then := range []func(){none, all} {
			select {
			case <-signals:
			case <-ctx.Done():
				return
			}
			if then(); ctx.Err() == nil {
				a.say("Stopping: no further nodes are started, nodes in progress are finished. Press Ctrl-C again " +
					"to abandon them.")
			}
		}
	}()
	return ctx, begin, func() {
		signal.Stop(signals)
		all()
	}
}

// deployed prints the results of all nodes.
func (a *app) deployed(all []rollout.Outcome, dry bool) error {
	counts, well := map[rollout.End]int{}, true
	for _, o := range all {
		end := o.End.String()
		if dry && o.End == rollout.NotBegun {
			end = "to do"
		} else if o.End != rollout.Done && o.End != rollout.Unchanged {
			well = false
		}
		why := show.Lines(cmp.Or(o.Why, "-")) // it contains text from the node
		if err := a.data("%s %s: %s", o.Host.Name, end, why); err != nil {
			return err
		}
		counts[o.End]++
	}
	if dry {
		if well {
			return nil
		}
		return &exit.Failure{Code: exit.Failed, Text: "some nodes cannot match the file"}
	}
	var parts []string
	for end := rollout.Done; end <= rollout.NotBegun; end++ {
		if counts[end] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[end], end))
		}
	}
	if counts[rollout.Unchanged] > 0 {
		parts = append(parts, fmt.Sprintf("%d unchanged", counts[rollout.Unchanged]))
	}
	text := fmt.Sprintf("%d nodes: %s", len(all), strings.Join(parts, ", "))
	if well {
		a.say("%s", text)
		return nil
	}
	return &exit.Failure{Code: exit.Failed, Text: text,
		Hint: "fix the cause and run the command again; completed nodes stay as they are"}
}

// crew reaches nodes over ssh, and reads their states from the cluster.
type crew struct {
	*rollout.Reach
	fleet
}

// pollMachines is the interval of requests for a node's state. maxAge is the maximum age of a shared answer.
const (
	pollMachines = 500 * time.Millisecond
	maxAge       = 300 * time.Millisecond
)

// fleet reads the nodes of the cluster. Concurrent requests share an answer.
type fleet struct {
	client *client.Client

	mu    sync.Mutex
	at    time.Time
	known map[string]rollout.State
}

// State returns the state of a node in the cluster.
func (f *fleet) State(ctx context.Context, name string) (rollout.State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.at) > maxAge {
		asked := time.Now()
		all, err := f.client.Nodes(ctx)
		if err != nil {
			return rollout.State{}, err
		}
		f.at, f.known = asked, map[string]rollout.State{}
		for _, n := range all {
			r := n.GetRecord()
			f.known[r.GetId()] = rollout.State{Known: true, Up: n.GetPhase() == "up", Closed: n.GetClosed(),
				GPUs:    len(r.GetAnnouncement().GetGpus()) - len(n.GetLedger().GetWithdrawnGpus()),
				Version: r.GetAnnouncement().GetAgentVersion()}
		}
	}
	return f.known[name], nil
}
