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

// This file starts and stops the processes in order: the scheduler first, then the nodes.

// Options holds the settings of a cluster.
type Options struct {
	Scheduler, Node []string // programs and their first arguments
	Listen          string   // host:port; port 0 selects a free port
	Dir             string   // folder for all state and logs; created if it does not exist
	Nodes, Racks    int
	GPUs, CPUs      int // per node
	Memory, GPUType string
	Store, Driver   string // empty: the programs' own defaults
	Owner           string // the cluster's admin
	Insecure        bool   // plaintext: anyone who can reach the port controls the cluster
	Env             []string
	Output          io.Writer // for the processes' output; nil: only to the logs
	Notes           io.Writer // for what is left of an earlier cluster
	Colour          bool
	Resume          bool          // jobs continue when the cluster is started again
	Sweep           time.Duration // time for remaining descendants to end themselves
	Term            time.Duration // time for a process to end itself
}

// Cluster holds the processes of a cluster.
type Cluster struct {
	o        Options
	forker   *forker
	all      []*process
	died     chan *process
	stopping chan struct{} // closed when processes are expected to end
	terminal *terminal
	address  string
	lock     *os.File // lock on the folder while the cluster exists

	authority *identity.Folder // authority that certifies all others; nil: plaintext
}

// The limits of a cluster on one host.
const (
	MaxNodes = 1000
	// The rendezvous ports are below the kernel's range of ephemeral ports.
	firstPort, lastPort = 10_000, 32_000
)

// Died describes a process that ended unexpectedly.
type Died struct {
	Name, How string
	Last      []string
}

// Error returns the name of the process and how it ended.
func (d *Died) Error() string { return d.Name + " " + d.How }

// Start starts the scheduler and all nodes. The caller must ask the API whether the nodes have joined. Also after
// an error, the caller must call Stop for the started processes.
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
	case n > 0 && o.Notes != nil:
		fmt.Fprintf(o.Notes, "ended %d processes left by the last cluster in %s, which was killed\n", n,
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

// Address returns the address of the scheduler.
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
			// The file may still be incomplete.
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

// rootRange returns the node's range of uids for tasks that are root in their containers. The ranges must be
// disjoint, because all nodes are on one host.
func rootRange(node int) string {
	const first, numbers = 500_000_000, 16 * 65536 // for sixteen such tasks at once
	from := first + node*numbers
	return fmt.Sprintf("%d-%d", from, from+numbers-1)
}

// nodeName pads the number with zeros, so that names sort in numerical order.
func (c *Cluster) nodeName(i int) string {
	return fmt.Sprintf("node-%0*d", len(strconv.Itoa(c.o.Nodes)), i+1)
}

// addressOf returns the node's own loopback address. All of 127.0.0.0/8 needs no setup. With separate addresses, a
// host list has as many hosts as there are nodes, and a listener on one node's address is not reachable at
// another's. The address depends on the folder: two clusters rarely share one, and a restarted cluster keeps its
// addresses.
func addressOf(dir string, node int) string {
	const networks, each = 254 * 252, 250 // 127.1.0.0 to 127.254.251.0; the last four are for 1000 nodes
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(dir)) // never fails
	network := int(hash.Sum32() % networks)
	return fmt.Sprintf("127.%d.%d.%d", 1+network/252, network%252+node/each, 1+node%each)
}

// rackOf puts neighbouring nodes into the same rack. The sizes of the racks differ by at most one node.
func rackOf(i, nodes, racks int) int { return i * racks / nodes }

// portRanges returns disjoint ranges with a random start, so that two clusters on one host rarely share a port.
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

// Watch waits until the context ends or a process ends unexpectedly. After standing is closed, Watch reports the
// end of a node and continues.
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

// Stop ends the processes: first with SIGTERM and then with SIGKILL. Then it ends all remaining descendants.
// Closing now skips the wait.
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
			patience = closed() // the time is up for the others too
		case <-now:
			p.signal(syscall.SIGKILL)
		}
	}
	for _, p := range c.all {
		<-p.exited
	}
	err := c.sweep(now)
	if c.lock == nil {
		return err // the folder belongs to another cluster
	}
	if _, left := leftovers(c.o.Node, "collect", c.o.Dir); left != nil && c.o.Notes != nil {
		fmt.Fprintln(c.o.Notes, messages.OneLine(left.Error()))
	}
	c.lock.Close()
	return err
}

// closed returns a channel that is already closed.
func closed() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}

// sweep ends all descendants other than the cluster's processes. Those have ended, and their process IDs may be
// reused.
func (c *Cluster) sweep(now <-chan struct{}) error {
	const pause, rounds = 20 * time.Millisecond, 200
	asking := time.After(c.o.Sweep)
	s := syscall.SIGTERM
	if c.o.Resume {
		// A task that ends after SIGTERM counts as failed, together with its job. A task that is killed
		// with its supervisor counts as lost, and its job is tried again.
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
		// A second SIGTERM may have another meaning for a program than the first.
		if s == syscall.SIGTERM {
			s = syscall.Signal(0)
		}
		time.Sleep(pause)
	}
	return fmt.Errorf("%d processes started by the nodes did not end", len(descendants()))
}
