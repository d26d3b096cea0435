package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// This file owns Slurm: its packages, its configuration and its processes.

// errNoSlurm means that the host has no Slurm.
var errNoSlurm = errors.New("no Slurm on this host")

// wanted are the packages of Slurm that a cluster needs. apt-get adds the libraries.
var wanted = []string{"slurmctld", "slurmd", "slurm-client", "munge"}

// packages is an unpacked or installed Slurm.
type packages struct {
	folders   []string // of programs
	libraries []string // folders of unpacked libraries
	plugins   []string
}

// unpacked returns Slurm: the packages that the host has, and the other packages unpacked in a folder.
func unpacked(ctx context.Context, folder string, progress io.Writer) (*packages, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	if p := search(folder); p.complete() {
		return p, nil
	}
	fmt.Fprintln(progress, "unpacking Slurm into", folder)
	if err := unpack(ctx, folder); err != nil {
		return nil, fmt.Errorf("%w: install the packages %s, or run this on Debian with network access: %w", errNoSlurm,
			strings.Join(wanted, ", "), err)
	}
	p := search(folder)
	if !p.complete() {
		return nil, fmt.Errorf("%w: the packages in %s lack programs: remove this folder and run again", errNoSlurm, folder)
	}
	return p, nil
}

// unpack downloads the missing packages and unpacks them. It installs nothing and needs no rights.
func unpack(ctx context.Context, folder string) error {
	simulated := append([]string{"install", "-s", "-qq", "--no-install-recommends"}, wanted...)
	list := exec.CommandContext(ctx, "apt-get", simulated...)
	list.Env = append(os.Environ(), "LC_ALL=C")
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("apt-get does not know the packages (run apt-get update): %w", err)
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "Inst" {
			names = append(names, words[1])
		}
	}
	files, err := os.MkdirTemp("", "synapse-compare-packages-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(files)
	get := exec.CommandContext(ctx, "apt-get", append([]string{"download", "-qq"}, names...)...)
	get.Dir = files
	if out, err := get.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get download: %w: %s", err, strings.TrimSpace(string(out)))
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	archives, _ := filepath.Glob(filepath.Join(files, "*.deb"))
	for _, archive := range archives {
		if out, err := exec.CommandContext(ctx, "dpkg-deb", "-x", archive, folder).CombinedOutput(); err != nil {
			return fmt.Errorf("cannot unpack %s: %w: %s", filepath.Base(archive), err, out)
		}
	}
	return nil
}

// search finds Slurm in a folder of unpacked packages, and on the host.
func search(folder string) *packages {
	p := &packages{}
	for _, root := range []string{folder, "/"} {
		for _, dir := range []string{"usr/sbin", "usr/bin"} {
			p.folders = append(p.folders, filepath.Join(root, dir))
		}
		found, _ := filepath.Glob(filepath.Join(root, "usr/lib/*/slurm-wlm"))
		p.plugins = append(p.plugins, found...)
		if root == folder {
			for _, dir := range found {
				p.libraries = append(p.libraries, dir, filepath.Dir(dir))
			}
		}
	}
	return p
}

// file returns the path of a program, or "". Debian adds -wlm to the names of the daemons.
func (p *packages) file(program string) string {
	for _, folder := range p.folders {
		for _, suffix := range []string{"", "-wlm"} {
			if path := filepath.Join(folder, program+suffix); exec.Command(path).Err == nil {
				if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
					return path
				}
			}
		}
	}
	return ""
}

func (p *packages) complete() bool {
	needed := []string{"slurmctld", "slurmd", "slurmstepd", "munged", "sbatch", "srun", "scancel", "squeue", "sinfo"}
	for _, program := range needed {
		if p.file(program) == "" {
			return false
		}
	}
	return len(p.plugins) > 0
}

// cpus is the number of CPUs that each node of both systems offers.
const cpus = 8

// config returns the configuration of a cluster. Its nodes are processes on this host with different ports.
func (p *packages) config(dir, owner, host string, ports []int) string {
	lines := []string{
		"ClusterName=compare", "SlurmctldHost=localhost(127.0.0.1)", "SlurmctldPort=" + strconv.Itoa(ports[0]),
		"SlurmUser=" + owner, "SlurmdUser=" + owner,
		"AuthType=auth/munge", "AuthInfo=socket=" + filepath.Join(dir, "munge.sock"), "CredType=cred/munge",
		"PluginDir=" + strings.Join(p.plugins, ":"),
		"StateSaveLocation=" + filepath.Join(dir, "state"), "SlurmdSpoolDir=" + filepath.Join(dir, "spool-%n"),
		"SlurmctldPidFile=" + filepath.Join(dir, "slurmctld.pid"), "SlurmdPidFile=" + filepath.Join(dir, "slurmd-%n.pid"),
		"SlurmctldLogFile=" + filepath.Join(dir, "slurmctld.txt"), "SlurmdLogFile=" + filepath.Join(dir, "slurmd-%n.txt"),
		"ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "MpiDefault=none",
		"SelectType=select/cons_tres", "SelectTypeParameters=CR_CPU",
		// Slurm's page on high throughput recommends to start batch jobs without a delay.
		"SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,default_queue_depth=10000",
		"MaxJobCount=100000", "SlurmdParameters=config_overrides", "ReturnToService=2",
		"SlurmctldDebug=error", "SlurmdDebug=error",
	}
	for i, port := range ports[1:] {
		lines = append(lines, fmt.Sprintf(
			"NodeName=n%d NodeHostname=%s NodeAddr=127.0.0.1 Port=%d CPUs=%d RealMemory=65536", i, host, port, cpus))
	}
	return strings.Join(append(lines, "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP", ""), "\n")
}

// startSlurm starts munged, slurmctld and the slurmds, and waits until all nodes are idle.
func startSlurm(ctx context.Context, procs *processes, p *packages, nodes int) (*system, error) {
	dir := filepath.Join(procs.work, "slurm")
	if err := os.MkdirAll(filepath.Join(dir, "state"), 0o755); err != nil {
		return nil, err
	}
	ports, err := freePorts(nodes + 1)
	if err != nil {
		return nil, err
	}
	owner, err := user.Current()
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	config, key := filepath.Join(dir, "slurm.conf"), filepath.Join(dir, "munge.key")
	secret := make([]byte, 1024)
	_, _ = rand.Read(secret)
	err = errors.Join(os.WriteFile(key, secret, 0o400),
		os.WriteFile(config, []byte(p.config(dir, owner.Username, host, ports)), 0o644))
	if err != nil {
		return nil, err
	}
	s := &system{name: "Slurm", path: p.file, env: append(os.Environ(), "SLURM_CONF="+config)}
	if len(p.libraries) > 0 {
		s.env = append(s.env, "LD_LIBRARY_PATH="+strings.Join(p.libraries, ":"))
	}
	err = procs.start("munged", s.env, p.file("munged"), "-F", "--force", "--key-file="+key,
		"--socket="+filepath.Join(dir, "munge.sock"), "--pid-file="+filepath.Join(dir, "munge.pid"),
		"--log-file="+filepath.Join(dir, "munge.txt"), "--seed-file="+filepath.Join(dir, "munge.seed"))
	if err == nil {
		err = eventually(ctx, "munged does not listen", 20*time.Millisecond, func() bool {
			_, err := os.Stat(filepath.Join(dir, "munge.sock"))
			return err == nil
		})
	}
	if err == nil {
		err = procs.start("slurmctld", s.env, p.file("slurmctld"), "-D")
	}
	for i := 0; err == nil && i < nodes; i++ {
		name := fmt.Sprintf("n%d", i)
		err = errors.Join(os.MkdirAll(filepath.Join(dir, "spool-"+name), 0o755),
			procs.start("slurmd-"+name, s.env, p.file("slurmd"), "-D", "-N", name, "-d", p.file("slurmstepd")))
	}
	if err != nil {
		return nil, err
	}
	if err = slurmIdle(ctx, s, nodes, 200*time.Millisecond); err != nil {
		return nil, fmt.Errorf("%w\nslurmctld: %s\nslurmd: %s", err, procs.lastLines("slurmctld"),
			procs.lastLines("slurmd-n0"))
	}
	return s, nil
}

// slurmIdle waits until this many nodes are up and run nothing.
func slurmIdle(ctx context.Context, s *system, nodes int, every time.Duration) error {
	return eventually(ctx, fmt.Sprintf("%d nodes of Slurm are not idle", nodes), every, func() bool {
		many, err := s.ask(ctx, "sinfo", "-h", "-t", "idle", "-o", "%D")
		return err == nil && many == strconv.Itoa(nodes)
	})
}
