//go:build linux

// This file compares the time from the start of a container to its end with a plain exec of the same command, and with
// runc and crun if they are installed. All run interleaved in one run, because figures from different times cannot be
// compared.
package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/test/able"
)

// contestant starts /bin/true in some way and waits for its end. The work of ready is not measured.
type contestant struct {
	name  string
	ready func() (once func() error, err error)
}

// always returns a contestant without preparations.
func always(name string, once func() error) contestant {
	return contestant{name, func() (func() error, error) { return once, nil }}
}

// aPause is the pause before a single start. A kernel that has just moved a process into another cgroup moves the next
// one without delay, but after a pause it waits for all processors. A benchmark that moves processes must not profit
// from earlier moves.
const aPause = 100 * time.Millisecond

func BenchmarkStartToExit(b *testing.B) {
	if missing := able.Busybox(); missing != "" {
		b.Skip(missing)
	}
	field := contestants(b)
	for _, c := range field {
		timed(b, c.name, prepared(b, c))
	}
	alone, apart := map[string][]time.Duration{}, map[string][]time.Duration{}
	crowd, inCrowd := map[string][]time.Duration{}, map[string][]time.Duration{}
	rounds := 0
	for b.Loop() {
		rounds++
		for _, c := range field { // Interleaved, so that a busy moment of the host affects all of them.
			alone[c.name] = append(alone[c.name], timed(b, c.name, prepared(b, c)))
		}
		if rounds%20 != 1 {
			continue
		}
		for _, c := range field {
			each, last := twenty(b, c)
			crowd[c.name], inCrowd[c.name] = append(crowd[c.name], last), append(inCrowd[c.name], each...)
			for range 3 {
				time.Sleep(aPause)
				apart[c.name] = append(apart[c.name], timed(b, c.name, prepared(b, c)))
			}
		}
	}
	for _, c := range field {
		b.ReportMetric(median(alone[c.name]), c.name+"-ms")
		b.ReportMetric(median(apart[c.name]), c.name+"-apart-ms")
		b.ReportMetric(median(crowd[c.name]), c.name+"-20-at-once-ms")
		b.ReportMetric(median(inCrowd[c.name]), c.name+"-one-of-20-ms")
	}
}

func prepared(b *testing.B, c contestant) func() error {
	once, err := c.ready()
	if err != nil {
		b.Fatalf("%s: %v", c.name, err)
	}
	return once
}

func timed(b *testing.B, name string, once func() error) time.Duration {
	began := time.Now()
	if err := once(); err != nil {
		b.Errorf("%s: %v", name, err)
	}
	return time.Since(began)
}

// twenty starts twenty at once. It measures each one, and the time until the last has ended.
func twenty(b *testing.B, c contestant) (each []time.Duration, last time.Duration) {
	all := make([]func() error, 20)
	for i := range all {
		all[i] = prepared(b, c)
	}
	each = make([]time.Duration, len(all))
	var group sync.WaitGroup
	began := time.Now()
	for i, once := range all {
		group.Go(func() { each[i] = timed(b, c.name, once) })
	}
	group.Wait()
	return each, time.Since(began)
}

func median(took []time.Duration) float64 {
	slices.Sort(took)
	return float64(took[len(took)/2].Microseconds()) / 1000
}

func contestants(b *testing.B) []contestant {
	rootfs := able.MakeRootfs(b)
	_, d, binary := newCommand(b)
	place := []string{binary, "run", "--state-dir", d.options.StateDir, "--cgroup-parent", d.options.Cgroups.Parent}
	program := func(line ...string) func() error {
		return func() error {
			if text, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
				return fmt.Errorf("%v: %s", err, text)
			}
			return nil
		}
	}
	inProcess := func(spec carapace.Spec) func() error {
		return func() error {
			container, err := carapace.Start(spec, d.options)
			if err != nil {
				return err
			}
			if exit := container.Wait(); exit.Code != 0 || exit.Leftover != "" {
				return fmt.Errorf("%+v", exit)
			}
			return nil
		}
	}
	limits := carapace.Limits{MemoryBytes: 256 << 20, Pids: 64}
	field := []contestant{
		always("exec", program(filepath.Join(rootfs, "bin/true"))),
		always("carapace-run-rootfs",
			program(append(slices.Clone(place), "--rootfs", rootfs, "--memory", "256m", "--pids", "64", "--", "/bin/true")...)),
		always("carapace-run-host", program(append(slices.Clone(place), "--rootfs", "host", "--", "/bin/true")...)),
		always("carapace-library", inProcess(carapace.Spec{Rootfs: rootfs, Command: []string{"/bin/true"}, Limits: limits})),
		throughLauncher("launcher-carapace-host", newContainers(b), "host"),
		throughLauncher("launcher-carapace-rootfs", newContainers(b), rootfs),
		throughLauncher("launcher-process", newProcesses(b), "host"),
	}
	if unshare, err := exec.LookPath("unshare"); err == nil {
		field = append(field,
			always("unshare-chroot", program(unshare, "-m", "-p", "-i", "-u", "-f", "chroot", rootfs, "/bin/true")))
	}
	for _, name := range []string{"runc", "crun"} {
		peer, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if once := peerOnce(b, peer, rootfs, bundleOf); once() == nil {
			field = append(field, always(name+"-bare", once))
			field = append(field, always(name, peerOnce(b, peer, rootfs, bundleLikeOurs)))
		} else {
			b.Logf("%s is left out: %v", name, once())
			continue
		}
		field = append(field, throughLauncher("launcher-"+name, newOCI(b, name), rootfs))
	}
	return field
}

// throughLauncher measures the way of a node: from the start command until the end is reported, with a supervisor and
// the exit record on disk. The image was prepared before, as for a gang.
func throughLauncher(name string, s *stack, image string) contestant {
	s.image = image
	return contestant{name, func() (func() error, error) {
		p, err := s.prepare(Task{Rootfs: image, Command: []string{"/bin/true"}, MemoryBytes: 256 << 20})
		if err != nil {
			return nil, err
		}
		return func() error {
			p.start()
			<-p.gone
			go p.see(nil, nil) // also makes the launcher forget the task
			if p.exit.Code != 0 || p.exit.Kind != messages.ExitKind_EXIT_KIND_EXITED {
				return fmt.Errorf("%v", p.exit)
			}
			return nil
		}, nil
	}}
}

// BenchmarkSupervisorMemory measures the memory of one supervisor while its task runs, with the command carapace as
// supervisor.
func BenchmarkSupervisorMemory(b *testing.B) {
	for name, s := range map[string]*stack{"process": newProcesses(b), "carapace": newContainers(b)} {
		b.Run(name, func(b *testing.B) {
			s.image = "host"
			p, err := s.prepare(Task{Command: []string{"/bin/sleep", "600"}})
			if err != nil {
				b.Fatal(err)
			}
			p.start()
			<-p.started
			go p.see(nil, nil)
			defer func() {
				_ = p.Kill()
				<-p.Done()
			}()
			leader, keeper := p.leader(b)
			for b.Loop() {
				reportMemory(b, "", keeper.PID)
				if name == "carapace" {
					reportMemory(b, "init-", leader.PID)
				}
			}
		})
	}
}

func reportMemory(b *testing.B, prefix string, pid int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var kib float64
		for _, name := range []string{"VmRSS", "RssAnon"} {
			if _, err := fmt.Sscanf(line, name+": %f kB", &kib); err == nil {
				b.ReportMetric(kib/1024, prefix+name+"-MiB")
			}
		}
	}
}
