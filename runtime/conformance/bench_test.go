//go:build linux

// From the start of a container to its end, beside the plain exec of the same command, and beside runc and crun where the
// machine has them: all in one run, in turn, because figures of different hours say nothing about each other.
package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/yi-json/synapse/runtime/carapace"
)

// contestant starts /bin/true in some way and waits for its end.
type contestant struct {
	name string
	once func() error
}

func BenchmarkStartToExit(b *testing.B) {
	if missing := Busybox(); missing != "" {
		b.Skip(missing)
	}
	field := contestants(b)
	for _, c := range field {
		if err := c.once(); err != nil {
			b.Fatalf("%s: %v", c.name, err)
		}
	}
	alone, crowd := map[string][]time.Duration{}, map[string][]time.Duration{}
	rounds := 0
	for b.Loop() {
		rounds++
		for _, c := range field { // In turn, so that a busy moment of the machine meets all of them.
			alone[c.name] = append(alone[c.name], timed(b, c))
		}
		if rounds%20 == 1 {
			for _, c := range field {
				crowd[c.name] = append(crowd[c.name], twenty(b, c)...)
			}
		}
	}
	for _, c := range field {
		b.ReportMetric(median(alone[c.name]), c.name+"-ms")
		b.ReportMetric(median(crowd[c.name]), c.name+"-20-at-once-ms")
	}
}

func timed(b *testing.B, c contestant) time.Duration {
	began := time.Now()
	if err := c.once(); err != nil {
		b.Errorf("%s: %v", c.name, err)
	}
	return time.Since(began)
}

func twenty(b *testing.B, c contestant) []time.Duration {
	took := make([]time.Duration, 20)
	var group sync.WaitGroup
	for i := range took {
		group.Go(func() { took[i] = timed(b, c) })
	}
	group.Wait()
	return took
}

func median(took []time.Duration) float64 {
	slices.Sort(took)
	return float64(took[len(took)/2].Microseconds()) / 1000
}

func contestants(b *testing.B) []contestant {
	rootfs := MakeRootfs(b)
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
		{"exec", program(filepath.Join(rootfs, "bin/true"))},
		{"carapace-run-rootfs", program(append(slices.Clone(place), "--rootfs", rootfs, "--memory", "256m", "--pids", "64", "--", "/bin/true")...)},
		{"carapace-run-host", program(append(slices.Clone(place), "--rootfs", "host", "--", "/bin/true")...)},
		{"carapace-library", inProcess(carapace.Spec{Rootfs: rootfs, Command: []string{"/bin/true"}, Limits: limits})},
	}
	if unshare, err := exec.LookPath("unshare"); err == nil {
		field = append(field, contestant{"unshare-chroot", program(unshare, "-m", "-p", "-i", "-u", "-f", "chroot", rootfs, "/bin/true")})
	}
	for _, name := range []string{"runc", "crun"} {
		if peer, err := exec.LookPath(name); err == nil {
			if once := peerOnce(b, peer, rootfs); once() == nil {
				field = append(field, contestant{name, once})
			} else {
				b.Logf("%s is left out: %v", name, once())
			}
		}
	}
	return field
}

// peerOnce runs a bundle of the same root and limits with another runtime.
func peerOnce(b *testing.B, binary, rootfs string) func() error {
	state, bundle, parent := b.TempDir(), b.TempDir(), "/"+NewID()
	b.Cleanup(func() {
		for _, folder := range parents(parent) {
			_ = os.Remove(folder)
		}
	})
	return func() error {
		id := NewID()
		folder := filepath.Join(bundle, id)
		text, err := json.Marshal(bundleOf(Task{ID: id, Rootfs: rootfs, Command: []string{"/bin/true"}, MemoryBytes: 256 << 20, Pids: 64}, parent+"/"+id))
		if err == nil {
			err = os.Mkdir(folder, 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, "config.json"), text, 0o600)
		}
		if err != nil {
			return err
		}
		defer os.RemoveAll(folder)
		said, err := exec.Command(binary, "--root", state, "run", "--bundle", folder, id).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%v: %s", err, strings.TrimSpace(string(said)))
		}
		return nil
	}
}
