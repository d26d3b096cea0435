package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/cmd/internal/daemon"
	"github.com/yi-json/synapse/cmd/internal/doctor"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/gpu"
)

// This file checks a host before it becomes a node. It reads the agent's settings, starts nothing and joins
// nothing, and may run next to an agent.

func doctorCommand() *cobra.Command {
	o, asJSON := &options{}, false
	c := &cobra.Command{
		Use:   "doctor",
		Short: "check whether this node can run tasks, and show a fix for each problem",
		Long: "Checks what an agent with these settings requires: valid settings, the data folder and its disk,\n" +
			"the kernel, cgroups, GPUs and their driver. It also checks the clock, ports, uids, the key and\n" +
			"certificate, and the connection to the schedulers. The command starts nothing and changes nothing.\n" +
			"It exits with code 1 if a check failed.",
		Example: "  synapse-node doctor --config /etc/synapse/node.yaml\n  synapse-node doctor --join head:9000 --json",
	}
	o.flags(c.Flags())
	c.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	never := func() error { return nil } // invalid settings become a finding
	return daemon.Command(c, twins, never, func() error {
		return doctor.Report(c.OutOrStdout(), asJSON, newExaminer(o).all(context.Background()))
	}, healthSection(&o.health))
}

// examiner makes one examination. Tests replace parts of it to simulate faults.
type examiner struct {
	o          *options
	now        func() time.Time
	uid        int
	files      uint64 // limit of open files
	localPorts string // file with the kernel's range of ephemeral ports
	room       func(folder string) (unix.Statfs_t, error)
	clock      func() (synchronised bool, err error)
	containers func() []carapace.Finding
	gpus       func(context.Context) (*gpu.Inventory, error)
}

func newExaminer(o *options) *examiner {
	x := &examiner{
		o: o, now: time.Now, uid: os.Geteuid(), localPorts: "/proc/sys/net/ipv4/ip_local_port_range",
		room: func(folder string) (s unix.Statfs_t, err error) { err = unix.Statfs(folder, &s); return s, err },
		clock: func() (bool, error) {
			var t unix.Timex
			state, err := unix.Adjtimex(&t)
			return state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0, err
		},
		containers: func() []carapace.Finding { return carapace.Check(carapace.Cgroups{}) },
		gpus: func(ctx context.Context) (*gpu.Inventory, error) {
			return gpu.New(gpu.Options{Timeout: discovery}).Find(ctx)
		},
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil {
		x.files = limit.Max
	}
	return x
}

// all makes every check, regardless of the others.
func (x *examiner) all(ctx context.Context) (all []doctor.Finding) {
	all = append(all, x.settings(), x.user(), x.folder(), x.disk(), x.descriptors())
	all = append(all, x.kernel()...)
	all = append(all, x.devices(ctx), x.synchronised())
	all = append(all, x.ports()...)
	config, found := x.certificate()
	all = append(all, found...)
	for _, at := range x.o.join {
		all = append(all, doctor.Scheduler(ctx, at, config, x.now)...)
	}
	return all
}

func (x *examiner) settings() doctor.Finding {
	if err := x.o.check(); err != nil {
		return doctor.Fail("settings", "run `synapse-node config show` for all settings and their sources", "%v", err)
	}
	return doctor.OK("settings", "settings are valid")
}

func (x *examiner) user() doctor.Finding {
	if x.uid != 0 {
		return doctor.Warn("user", "run the agent as root, as its unit does",
			"agent runs as user %d: no containers, no limits, and all jobs run as this user", x.uid)
	}
	return doctor.OK("user", "root")
}

// folder checks the agent's folder, or the folder in which it would be created.
func (x *examiner) folder() doctor.Finding {
	const way = "use --data-dir with a folder on a local disk that survives a reboot"
	dir, err := filepath.Abs(x.o.dataDir)
	if err != nil {
		return doctor.Fail("folder", way, "%v", err)
	}
	at := nearest(dir)
	info, err := os.Stat(at)
	switch {
	case err != nil:
		return doctor.Fail("folder", way, "%v", err)
	case !info.IsDir():
		return doctor.Fail("folder", way, "%s is not a folder", at)
	case unix.Access(at, unix.W_OK) != nil:
		return doctor.Fail("folder", way, "%s is not writable", at)
	}
	if s, err := x.room(at); err == nil && s.Type == unix.TMPFS_MAGIC {
		return doctor.Warn("folder", way, "%s is in memory: a reboot loses the node's ID and ledger", dir)
	}
	return doctor.OK("folder", "%s", dir)
}

// nearest returns the folder itself, or its nearest existing ancestor.
func nearest(dir string) string {
	for {
		if _, err := os.Lstat(dir); err == nil || dir == "/" {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// The required free space for images, layers and output.
const (
	fullAt   = 5  // free percent below which the check fails
	narrowAt = 15 // free percent below which the check warns
)

func (x *examiner) disk() doctor.Finding {
	const way = "free some space: images are in the folder `images` of --data-dir, and output of tasks is in the " +
		"folder `launcher`"
	s, err := x.room(nearest(x.o.dataDir))
	if err != nil || s.Blocks == 0 {
		return doctor.Warn("disk", way, "disk usage is unknown (%v)", err)
	}
	free := s.Bavail * 100 / s.Blocks
	inodes := uint64(100)
	if s.Files > 0 {
		inodes = s.Ffree * 100 / s.Files
	}
	switch {
	case free < fullAt:
		return doctor.Fail("disk", way, "%d%% free: a node with a full disk refuses work", free)
	case inodes < fullAt:
		return doctor.Fail("disk", way, "%d%% of the inodes free: without inodes, no file can be created", inodes)
	case free < narrowAt:
		return doctor.Warn("disk", way, "%d%% free", free)
	}
	return doctor.OK("disk", "%d%% free", free)
}

// fewFiles is the number of open files that an agent with a few hundred tasks needs.
const fewFiles = 8192

func (x *examiner) descriptors() doctor.Finding {
	if x.files < fewFiles {
		return doctor.Fail("open files", "set LimitNOFILE= in the unit, or ulimit -n, to "+strconv.Itoa(fewFiles)+" "+
			"or more",
			"limit is %d", x.files)
	}
	return doctor.OK("open files", "limit is %d", x.files)
}

// kernel checks the requirements of containers and their limits with carapace's own checks.
func (x *examiner) kernel() (all []doctor.Finding) {
	if x.uid != 0 {
		return nil // containers require root
	}
	for _, f := range x.containers() {
		if f.OK {
			all = append(all, doctor.OK(f.Name, "%s", f.Reason))
			continue
		}
		way := "see docs/explain/isolation.md, or use --driver process, which enforces no limits"
		if strings.Contains(f.Name, "limit") || strings.Contains(f.Name, "cg") || f.Name == "devices" || f.Name == "cpuset" {
			way = "mount the control groups (cgroup2 on /sys/fs/cgroup) writable, with this controller enabled"
		}
		all = append(all, doctor.Fail(f.Name, way, "%s", f.Reason))
	}
	return all
}

func (x *examiner) devices(ctx context.Context) doctor.Finding {
	if x.o.gpus >= 0 {
		return doctor.OK("gpus", "%d declared, detection is off", x.o.gpus)
	}
	ctx, cancel := context.WithTimeout(ctx, allDiscovery)
	defer cancel()
	found, err := x.gpus(ctx)
	switch {
	case err != nil:
		return doctor.Fail("gpus", "check that nvidia-smi works; after a driver update, reboot the host; to run "+
			"without GPUs, set --gpus 0", "%v", err)
	case len(found.Notes) > 0:
		return doctor.Warn("gpus", "missing devices are not offered to jobs", "%d found; %s",
			len(found.Devices), strings.Join(found.Notes, "; "))
	}
	return doctor.OK("gpus", "%d found", len(found.Devices))
}

func (x *examiner) synchronised() doctor.Finding {
	switch synchronised, err := x.clock(); {
	case err != nil:
		return doctor.Warn("time service", "check with `timedatectl`", "state of the time service is unknown: %v", err)
	case !synchronised:
		return doctor.Warn("time service", "start chrony or systemd-timesyncd", "no service synchronizes the clock")
	}
	return doctor.OK("time service", "clock is synchronized")
}

// ports checks that the rendezvous port range is free and stays free.
func (x *examiner) ports() (all []doctor.Finding) {
	if at := x.o.metricsAt; at != "" {
		all = append(all, x.listens("--metrics", at))
	}
	if x.o.portFirst == 0 {
		return all
	}
	var first, last int
	if text, err := os.ReadFile(x.localPorts); err == nil {
		_, _ = fmt.Sscan(string(text), &first, &last) // 0 if it is not a range
	}
	if x.o.portFirst <= last && first <= x.o.portLast {
		all = append(all, doctor.Fail("ports", "use a range outside of the kernel's range, or reserve the ports "+
			"with net.ipv4.ip_local_reserved_ports",
			"--ports %s overlaps %d-%d, the kernel's range of ephemeral ports", x.o.ports, first, last))
	}
	for port := x.o.portFirst; port <= x.o.portLast; port++ {
		if f := x.listens("--ports", net.JoinHostPort("", strconv.Itoa(port))); f.Verdict != doctor.Well {
			return append(all, f)
		}
	}
	return append(all, doctor.OK("ports", "%s are free", x.o.ports))
}

// listens tries to listen on an address, unless an agent may already use it.
func (x *examiner) listens(flag, at string) doctor.Finding {
	l, err := net.Listen("tcp", at)
	if err != nil {
		return doctor.Fail("ports", "set "+flag+" to another address; if the agent runs, the agent itself uses "+
			"this address",
			"%s %s: %v", flag, at, err)
	}
	l.Close()
	return doctor.OK("ports", "%s is free", at)
}

// certificate checks the node's key, and returns the TLS settings for requests to schedulers.
func (x *examiner) certificate() (*tls.Config, []doctor.Finding) {
	if x.o.tls == "" {
		return nil, []doctor.Finding{doctor.Warn("certificate", "see docs/operate/tls.md",
			"without --tls, anyone who can reach the scheduler can control this node")}
	}
	if _, err := os.Stat(x.o.tls); err != nil && x.o.token != "" {
		return &tls.Config{InsecureSkipVerify: true}, []doctor.Finding{ // only for a health request
			doctor.OK("certificate", "node joins with its token when the agent starts")}
	}
	const way = "fix the problem that the error names, or join again with a new token (`synapse-cli token create " +
		"--node-name NAME`)"
	if identity.IsExternal(x.o.tls) {
		return x.external()
	}
	folder, err := identity.OpenFolder(x.o.tls)
	if err != nil {
		return &tls.Config{InsecureSkipVerify: true}, []doctor.Finding{doctor.Fail("certificate", way, "%v", err)}
	}
	var all []doctor.Finding
	leaf, now := folder.Pair.Leaf(), x.now()
	switch {
	case now.After(leaf.NotAfter.Add(credential.LapsedFor)):
		all = append(all, doctor.Fail("certificate", way,
			"expired on %s, too long ago to be renewed", stamp(leaf.NotAfter)))
	case now.After(leaf.NotAfter):
		all = append(all, doctor.Warn("certificate", "start the agent: it renews the certificate when it reaches a scheduler",
			"expired on %s", stamp(leaf.NotAfter)))
	case now.Before(leaf.NotBefore):
		all = append(all, doctor.Fail("certificate", "correct the node's clock", "valid from %s", stamp(leaf.NotBefore)))
	default:
		all = append(all, doctor.OK("certificate", "valid until %s", stamp(leaf.NotAfter)))
	}
	trust, err := folder.Trust()
	if err != nil {
		return &tls.Config{InsecureSkipVerify: true}, append(all, doctor.Fail("certificate", way, "%v", err))
	}
	trust.Now = x.now
	return trust.ClientConfig(func() *identity.Pair { return folder.Pair }, nil), all
}

// external checks the certificate of an outside issuer.
func (x *examiner) external() (*tls.Config, []doctor.Finding) {
	const way = "fix the problem that the error names, and see docs/operate/spiffe.md"
	of, err := credential.ReadExternal(x.o.tls)
	if err == nil {
		err = of.Pair().Late(x.now())
	}
	if err != nil {
		return &tls.Config{InsecureSkipVerify: true}, []doctor.Finding{doctor.Fail("certificate", way, "%v", err)}
	}
	trust := of.Trust()
	trust.Now = x.now
	return trust.ClientConfig(of.Pair, nil), []doctor.Finding{
		doctor.OK("certificate", "%s, valid until %s", of.Identity(), stamp(of.Pair().Leaf().NotAfter))}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
