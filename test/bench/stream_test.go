package bench

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/mutants/patch"
)

// This file measures how streams of bytes through the scheduler's process affect the passes of its Scheduler.

// BenchmarkStreamBeside has 5,000 gangs wait for one node. Fifty a second leave and fifty arrive. It measures the 99th
// percentile of the passes next to 1 GB through port-forward in each direction at a limited rate, and next to an
// unlimited cp. It also measures before and after each stream, because the passes of such a queue change over time.
//
// The command line, the agent and the task share the host's processors with the scheduler, which has a higher priority.
// With separate hosts it would have the processors alone. Its passes also have real-time priority if the host permits
// it (host.Ahead). Two controls show the rest of the effects. The first is a program that keeps one processor busy and
// streams nothing. The second is a relay in the scheduler's process, from TLS to TLS, which shows the minimum cost of
// forwarding bytes.
//
//	TMPDIR=/dev/shm make bench BENCH=StreamBeside
func BenchmarkStreamBeside(b *testing.B) {
	const program = "synapse-scheduler-telling"
	changes, err := patch.Load("../..", "testdata/passes")
	if err == nil {
		err = patch.Build("../..", changes, "cmd/synapse-scheduler", filepath.Join(bin, program))
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Setenv(relayAt, freePort(b))
	x := newInside(b, program)
	if err := syscall.Setpriority(syscall.PRIO_PGRP, x.scheduler.Process.Pid, -20); err != nil {
		b.Logf("the scheduler got no higher priority: %v", err)
	}
	var waiting []string
	for tick := time.NewTicker(6 * time.Millisecond); len(waiting) < size(5000, 20); <-tick.C {
		spec := gang(int32(1+len(waiting)%16), "/bin/true")
		spec.Each.MilliGpu = int64(1000 * (1 + len(waiting)%8))
		waiting = append(waiting, x.submit(fmt.Sprint("w-", len(waiting)), spec))
	}
	for _, way := range []struct {
		name    string
		pace    int64
		through func(*testing.B)
	}{
		{"busy", 0, busyProcessor}, {"relay", 110_000_000, x.relay},
		{"forward/out", 110_000_000, x.forwardOut}, {"forward/in", 110_000_000, x.forwardIn}, {"copy/out", 0, x.copyOut},
	} {
		b.Run(way.name, func(b *testing.B) {
			x.pace = way.pace
			once(b, func() { x.beside(b, &waiting, way.through) })
		})
	}
}

// busyProcessor computes for about as long as a stream takes.
func busyProcessor(b *testing.B) {
	c := exec.Command("sh", "-c", "while :; do :; done")
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	time.Sleep(time.Duration(size(8000, 300)) * time.Millisecond)
	_ = c.Process.Kill()
	_ = c.Wait() // it was killed
}

// relayAt names the address of the relay that testdata/passes adds to the scheduler's process.
const relayAt = "BENCH_RELAY"

// relay sends the same data through the relay as the command line sends through the scheduler. The sender and the
// receiver are in one process.
func (x *inside) relay(b *testing.B) {
	keys := filepath.Join(x.keys, "scheduler")
	pair, err := tls.LoadX509KeyPair(filepath.Join(keys, "cert.pem"), filepath.Join(keys, "key.pem"))
	if err != nil {
		b.Fatal(err)
	}
	sink, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		b.Fatal(err)
	}
	defer sink.Close()
	taken := make(chan int64, 1)
	go func() {
		var n int64
		if conn, err := sink.Accept(); err == nil {
			n, _ = io.Copy(io.Discard, conn)
		}
		taken <- n
	}()
	conn, err := tls.Dial("tcp", os.Getenv(relayAt), &tls.Config{InsecureSkipVerify: true})
	if err == nil {
		_, err = fmt.Fprintln(conn, sink.Addr())
	}
	if err == nil {
		_, err = io.CopyN(conn, x.source(), streamed())
	}
	if err == nil {
		err = conn.Close()
	}
	if err != nil {
		b.Fatal(err)
	}
	if n := <-taken; n != streamed() {
		b.Errorf("%d bytes of %d", n, streamed())
	}
}

// freePort returns an address without a listener.
func freePort(b *testing.B) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// beside measures the passes without a stream, next to it, and without it again.
func (x *inside) beside(b *testing.B, waiting *[]string, through func(*testing.B)) {
	alone := func() []time.Duration {
		return x.passes(waiting, func() { time.Sleep(time.Duration(size(5000, 300)) * time.Millisecond) })
	}
	all := alone()
	var took time.Duration
	x.used = 0
	with := x.passes(waiting, func() {
		began := time.Now()
		through(b)
		took = time.Since(began)
	})
	all = append(all, alone()...)
	late := func(passes []time.Duration) float64 {
		slices.Sort(passes)
		return float64(passes[len(passes)*99/100]) / 1e6
	}
	if len(all) == 0 || len(with) == 0 {
		b.Fatalf("only %d passes alone and %d next to a stream", len(all), len(with))
	}
	if x.pace > 0 || x.used > 0 {
		b.ReportMetric(float64(streamed())/1e6/took.Seconds(), "MB/s")
	}
	b.ReportMetric(late(all), "ms-p99-alone")
	b.ReportMetric(late(with), "ms-p99-beside")
	b.ReportMetric(float64(all[len(all)/2])/1e6, "ms-p50-alone")
	b.ReportMetric(float64(with[len(with)/2])/1e6, "ms-p50-beside")
	b.ReportMetric(late(with)/late(all), "times")
	b.ReportMetric(float64(len(with)), "passes")
}

// passes returns the durations of the Scheduler's passes while do runs and jobs come and go.
func (x *inside) passes(waiting *[]string, do func()) (took []time.Duration) {
	log := filepath.Join(x.dir, "scheduler.log")
	before, err := os.ReadFile(log)
	if err != nil {
		x.b.Fatal(err)
	}
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				x.changes(waiting)
			}
		}
	}()
	do()
	close(done)
	<-over
	text, err := os.ReadFile(log)
	if err != nil {
		x.b.Fatal(err)
	}
	for line := range strings.Lines(string(text[len(before):])) {
		if nanoseconds, is := strings.CutPrefix(strings.TrimSpace(line), "pass "); is {
			if n, err := strconv.ParseInt(nanoseconds, 10, 64); err == nil {
				took = append(took, time.Duration(n))
			}
		}
	}
	return took
}

// changes cancels the job that has waited longest, and submits another one.
func (x *inside) changes(waiting *[]string) {
	x.requests++
	first := (*waiting)[0]
	_, err := x.client.Cancel(x.ctx(), &messages.Cancel{Job: first})
	if err != nil {
		x.b.Errorf("cancel %s: %v", first, err)
	}
	*waiting = append((*waiting)[1:], x.submit(fmt.Sprint("s-", x.requests), gang(1, "/bin/true")))
}
