//go:build linux

package local

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
)

// This file owns the order of things: the scheduler first, then the nodes, and
// all of them to their end.

// Options say what cluster to run.
type Options struct {
	Scheduler, Node []string // the programs, with what stands before their flags
	Listen          string   // host:port; port 0 takes a free one
	Dir             string   // of all state and logs; made if it is not there
	Nodes, Racks    int
	GPUs, CPUs      int // of each node
	Memory, GPUType string
	Store, Driver   string // empty: the programs' own defaults
	Owner           string // whose the cluster is: its admin
	Insecure        bool   // it speaks plaintext, and whoever reaches its port commands it
	Env             []string
	Output          io.Writer // where the processes' lines go; nil: to their logs only
	Colour          bool
	Resume          bool          // the state is kept: jobs are to go on when it is started again
	Sweep           time.Duration // how long a stray may take to end itself
	Term            time.Duration // how long a process may
}

// Cluster is the processes.
type Cluster struct {
	o        Options
	forker   *forker
	all      []*process
	died     chan *process
	stopping chan struct{} // closed once ends are expected
	terminal *terminal
	address  string
	lock     *os.File // on the directory, for as long as the cluster is there

	authority *identity.Folder // that certifies all others; nil: there are no keys
}

// Bounds of what one machine is asked to run.
const (
	MaxNodes = 1000
	// Rendezvous ports are taken from below where the system gives out its own.
	firstPort, lastPort = 10_000, 32_000
)

// Died is a process that ended though nobody asked it to.
type Died struct {
	Name, How string
	Last      []string
}

// Error names the process.
func (d *Died) Error() string { return d.Name + " " + d.How }

// Start starts the scheduler and all nodes. Whether the nodes have joined is for
// the caller to ask over the API. What was started is there to Stop even where
// an error comes back.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if o.Term == 0 {
		o.Term = 2500 * time.Millisecond
	}
	if o.Sweep == 0 {
		o.Sweep = time.Second
	}
	c := &Cluster{o: o, forker: newForker(), died: make(chan *process, o.Nodes+1), stopping: make(chan struct{})}
	c.terminal = &terminal{w: o.Output, colour: o.Colour, width: max(len("scheduler"), len(c.nodeName(o.Nodes-1)))}
	adopt()
	if err := os.MkdirAll(filepath.Join(o.Dir, "logs"), 0o755); err != nil {
		return c, err
	}
	var err error
	if c.lock, err = lock(o.Dir); err != nil {
		return c, err
	}
	switch n, err := leftovers(o.Node, "end", o.Dir); {
	case err != nil:
		return c, err
	case n > 0 && o.Output != nil:
		fmt.Fprintf(o.Output, "ended %d processes left by the last cluster in %s, which was killed\n", n,
			messages.OneLine(o.Dir))
	}
	if err := c.makeKeys(); err != nil {
		return c, fmt.Errorf("cluster keys: %w", err)
	}
	if err := c.startScheduler(ctx); err != nil {
		return c, err
	}
	return c, c.startNodes()
}

// Address is where the scheduler listens.
func (c *Cluster) Address() string { return c.address }

func (c *Cluster) startScheduler(ctx context.Context) error {
	file := filepath.Join(c.o.Dir, "listen")
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	args := []string{"--listen", c.o.Listen, "--listen-file", file, "--data-dir", filepath.Join(c.o.Dir, schedulerFolder),
		"--levels", "zone,rack"}
	if args = append(args, c.secure(schedulerFolder)...); !c.o.Insecure {
		args = append(args, "--secrets-key", c.sealKey())
	} else {
		args = append(args, "--insecure", "--insecure")
	}
	if c.o.Store != "" {
		args = append(args, "--store", c.o.Store)
	}
	if err := c.start("scheduler", append(slices.Clone(c.o.Scheduler), args...)); err != nil {
		return err
	}
	scheduler := c.all[0]
	for {
		if text, err := os.ReadFile(file); err == nil {
			// The file may be seen before it is whole.
			address := strings.TrimSpace(string(text))
			if _, port, err := net.SplitHostPort(address); err == nil && port != "" && strings.HasSuffix(string(text), "\n") {
				c.address = address
				return nil
			}
		}
		select {
		case <-scheduler.exited:
			return died(scheduler)
		case <-ctx.Done():
			return fmt.Errorf("scheduler does not listen: %w", ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (c *Cluster) startNodes() error {
	ports := portRanges(c.o.Nodes)
	hide, err := c.hide()
	if err != nil {
		return err
	}
	for i := range c.o.Nodes {
		name := c.nodeName(i)
		dir := filepath.Join(c.o.Dir, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		args := []string{
			"--join", c.address, "--data-dir", dir, "--id", name, "--address", addressOf(c.o.Dir, i),
			"--gpus", strconv.Itoa(c.o.GPUs), "--topology",
			fmt.Sprintf("zone=local,rack=r%d", rackOf(i, c.o.Nodes, c.o.Racks)+1), "--ports", ports[i],
			"--root-uids", rootRange(i), "--loopback-registries",
		}
		for _, optional := range [][2]string{{"--gpu-type", c.o.GPUType}, {"--memory", c.o.Memory},
			{"--driver", c.o.Driver}} {
			if optional[1] != "" {
				args = append(args, optional[0], optional[1])
			}
		}
		if c.o.CPUs > 0 {
			args = append(args, "--cpus", strconv.Itoa(c.o.CPUs))
		}
		if !c.o.Insecure {
			if err := c.certify(identity.RoleNode, name, name); err != nil {
				return fmt.Errorf("keys of %s: %w", name, err)
			}
		}
		args = slices.Concat(args, c.secure(name), hide)
		if err := c.start(name, append(slices.Clone(c.o.Node), args...)); err != nil {
			return err
		}
	}
	return nil
}

// rootRange is a node's own range of numbers for tasks that are root of their containers: all nodes are on one
// machine here.
func rootRange(node int) string {
	const first, numbers = 500_000_000, 16 * 65536 // for sixteen such tasks at once
	from := first + node*numbers
	return fmt.Sprintf("%d-%d", from, from+numbers-1)
}

// nodeName is padded, so that names sort as numbers do.
func (c *Cluster) nodeName(i int) string {
	return fmt.Sprintf("node-%0*d", len(strconv.Itoa(c.o.Nodes)), i+1)
}

// addressOf is a node's own address. All of 127.0.0.0/8 is this machine, and needs no setting up; so lists of hosts
// have as many hosts as there are nodes, and who listens on one's address is not met on another's. Two clusters
// seldom share one, and one that is started again in its directory has the same.
func addressOf(dir string, node int) string {
	const networks, each = 254 * 252, 250 // 127.1.0.0 to 127.254.251.0; the last four leave room for a thousand nodes
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(dir)) // it cannot fail
	network := int(hash.Sum32() % networks)
	return fmt.Sprintf("127.%d.%d.%d", 1+network/252, network%252+node/each, 1+node%each)
}

// rackOf gives neighbours the same rack, and all racks as many nodes, give or take one.
func rackOf(i, nodes, racks int) int { return i * racks / nodes }

// portRanges are disjoint, and begin anywhere, so that two clusters on one
// machine seldom share one.
func portRanges(nodes int) []string {
	each := min((lastPort-firstPort)/nodes, 200)
	first := firstPort + rand.IntN(lastPort-firstPort-each*nodes+1)
	ranges := make([]string, nodes)
	for i := range ranges {
		ranges[i] = fmt.Sprintf("%d-%d", first+i*each, first+(i+1)*each-1)
	}
	return ranges
}

var colours = []string{"\x1b[36m", "\x1b[33m", "\x1b[32m", "\x1b[35m", "\x1b[34m"}

func (c *Cluster) start(name string, argv []string) error {
	log, err := logFile(filepath.Join(c.o.Dir, "logs", name+".log"))
	if err != nil {
		return err
	}
	out := &output{name: name, colour: colours[len(c.all)%len(colours)], log: log, terminal: c.terminal}
	p, err := c.forker.start(name, argv, c.o.Env, out)
	if err != nil {
		_ = log.Close()
		return err
	}
	c.all = append(c.all, p)
	go func() {
		<-p.exited
		select {
		case <-c.stopping:
		default:
			c.died <- p
		}
	}()
	return nil
}

func died(p *process) *Died { return &Died{p.name, p.how(), p.output.tail()} }

// Watch waits until the context ends, or a process does that should not. Once
// the cluster stands, a node may die as machines do: that is told, and life goes on.
func (c *Cluster) Watch(ctx context.Context, standing <-chan struct{}, told func(*Died)) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case p := <-c.died:
			select {
			case <-standing:
				if p != c.all[0] {
					told(died(p))
					continue
				}
			default:
			}
			return died(p)
		case <-tick.C:
			reap(c.own())
		}
	}
}

func (c *Cluster) own() []int {
	pids := make([]int, len(c.all))
	for i, p := range c.all {
		pids[i] = p.cmd.Process.Pid
	}
	return pids
}

// Stop ends everything: the processes first, asked and then killed; then what
// they have left behind. Now, once closed, spares the asking.
func (c *Cluster) Stop(now <-chan struct{}) error {
	close(c.stopping)
	defer c.forker.end()
	for _, p := range c.all {
		p.signal(syscall.SIGTERM)
	}
	patience := time.After(c.o.Term)
	for _, p := range c.all {
		select {
		case <-p.exited:
		case <-patience:
			p.signal(syscall.SIGKILL)
			patience = closed() // It is over for the others too.
		case <-now:
			p.signal(syscall.SIGKILL)
		}
	}
	for _, p := range c.all {
		<-p.exited
	}
	err := c.sweep(now)
	if c.lock == nil {
		return err // another cluster's directory: nothing there is ours
	}
	if _, left := leftovers(c.o.Node, "collect", c.o.Dir); left != nil && c.o.Output != nil {
		fmt.Fprintln(c.o.Output, messages.OneLine(left.Error()))
	}
	c.lock.Close()
	return err
}

// closed is a time that has passed.
func closed() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}

// sweep ends what descends from us and is none of our processes. Those have been
// waited for, so their pids stand for nothing any more.
func (c *Cluster) sweep(now <-chan struct{}) error {
	const pause, rounds = 20 * time.Millisecond, 200
	asking := time.After(c.o.Sweep)
	s := syscall.SIGTERM
	if c.o.Resume {
		// A task that ends when asked has failed, and its job with it. One that is
		// gone with its supervisor was lost, and the job is tried again.
		s = syscall.SIGKILL
	}
	for range rounds {
		select {
		case <-asking:
			s = syscall.SIGKILL
		case <-now:
			s = syscall.SIGKILL
		default:
		}
		left := strays(nil, s)
		reap(nil)
		if left == 0 {
			return nil
		}
		// A second SIGTERM may mean something else to a program than the first.
		if s == syscall.SIGTERM {
			s = syscall.Signal(0)
		}
		time.Sleep(pause)
	}
	return fmt.Errorf("%d processes started by the nodes did not end", len(descendants()))
}
