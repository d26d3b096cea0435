package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestMain lets the test binary act as a rank of the gang in TestProcesses.
func TestMain(m *testing.M) {
	if os.Getenv("SYNAPSE_RANK") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// freePort returns a port that is currently free.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// gang runs these ranks of a world of this size, each in a goroutine.
func gang(t *testing.T, ranks, world, elements int, timeout time.Duration) (outputs []string, errs []error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	master := net.JoinHostPort("127.0.0.1", freePort(t))
	buffers := make([]bytes.Buffer, ranks)
	errs = make([]error, ranks)
	var wait sync.WaitGroup
	for rank := range ranks {
		wait.Go(func() {
			m := &member{job: "j1", rank: rank, world: world, master: master, elements: elements}
			errs[rank] = m.run(ctx, &buffers[rank])
		})
	}
	wait.Wait()
	for i := range buffers {
		outputs = append(outputs, buffers[i].String())
	}
	return outputs, errs
}

func TestSum(t *testing.T) {
	for _, c := range []struct{ world, elements int }{{1, 10}, {2, 1000}, {3, 1}, {5, 1001}, {8, 1 << 14}} {
		t.Run(fmt.Sprintf("%d ranks %d elements", c.world, c.elements), func(t *testing.T) {
			outputs, errs := gang(t, c.world, c.world, c.elements, 30*time.Second)
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			sums := map[string]bool{}
			for rank, out := range outputs {
				if !strings.HasPrefix(out, fmt.Sprintf("rank %d of %d: the sum of %d numbers is right, checksum ",
					rank, c.world, c.elements)) {
					t.Errorf("rank %d says %q", rank, out)
				}
				sums[strings.Fields(out)[12]] = true
			}
			if len(sums) != 1 {
				t.Errorf("the ranks have different sums: %v", outputs)
			}
		})
	}
}

// TestAMissingMember checks that the other ranks report a missing rank in time instead of waiting forever.
func TestAMissingMember(t *testing.T) {
	_, errs := gang(t, 3, 4, 100, 400*time.Millisecond)
	for rank, err := range errs {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
	if !strings.Contains(errs[0].Error(), "3 of 4 ranks came") {
		t.Errorf("rank 0 does not say who is missing: %v", errs[0])
	}
}

// TestAWrongSumIsNoticed checks that a rank detects a wrong sum of the ring.
func TestAWrongSumIsNoticed(t *testing.T) {
	m := &member{job: "j", rank: 0, world: 2, elements: 10}
	sum := contribution("j", 0, 10)
	for i, x := range contribution("j", 1, 10) {
		sum[i] += x
	}
	if err := m.check(sum); err != nil {
		t.Fatal(err)
	}
	sum[7]++
	if err := m.check(sum); err == nil || !strings.Contains(err.Error(), "element 7") {
		t.Errorf("a wrong sum passes: %v", err)
	}
	other := contribution("k", 0, 10)
	if fmt.Sprint(other) == fmt.Sprint(contribution("j", 0, 10)) ||
		fmt.Sprint(other) == fmt.Sprint(contribution("k", 1, 10)) {
		t.Error("contributions do not depend on job and rank")
	}
}

func TestEnvironment(t *testing.T) {
	env := map[string]string{
		"SYNAPSE_JOB_ID": "j", "SYNAPSE_RANK": "1", "SYNAPSE_WORLD_SIZE": "2", "MASTER_PORT": "9", "SYNAPSE_HOSTS": "h0,h1",
	}
	get := func(name string) string { return env[name] }
	m, err := fromEnvironment(get)
	if err != nil || m.master != "h0:9" || m.rank != 1 || m.world != 2 {
		t.Errorf("%+v, %v", m, err)
	}
	for name, bad := range map[string]string{
		"SYNAPSE_RANK": "2", "SYNAPSE_WORLD_SIZE": "", "MASTER_PORT": "", "ALLREDUCE_TIMEOUT": "soon",
		"ALLREDUCE_ELEMENTS": "-1",
	} {
		before := env[name]
		env[name] = bad
		if _, err := fromEnvironment(get); err == nil {
			t.Errorf("%s=%q is taken", name, bad)
		}
		env[name] = before
	}
}

// TestProcesses runs each rank as a separate process.
func TestProcesses(t *testing.T) {
	const world = 3
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	port := freePort(t)
	var wait sync.WaitGroup
	for rank := range world {
		wait.Go(func() {
			cmd := exec.CommandContext(ctx, self)
			cmd.Env = append(os.Environ(), "SYNAPSE_JOB_ID=j2", fmt.Sprintf("SYNAPSE_RANK=%d", rank),
				fmt.Sprintf("SYNAPSE_WORLD_SIZE=%d", world),
				"MASTER_ADDR=127.0.0.1", "MASTER_PORT="+port, "ALLREDUCE_ELEMENTS=5000")
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "is right") {
				t.Errorf("rank %d: %v: %s", rank, err, out)
			}
		})
	}
	wait.Wait()
}
