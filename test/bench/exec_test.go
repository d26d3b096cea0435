package bench

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/test/able"
)

// This file measures exec sessions in tasks: the duration of one process, and the throughput of cp and port-forward in
// both directions. The cluster has TLS on every connection, and containers if the host supports them.

// BenchmarkExec has one node, and a task that does nothing.
//
//	make bench BENCH=Exec/true      p50 ≤ 30 ms
//	make bench BENCH=Exec/copy      ≥ 100 MB/s each way, of 1 GB, and no more memory
//	make bench BENCH=Exec/forward   the same
//	TMPDIR=/dev/shm make bench BENCH=Exec/copy, without the disk
func BenchmarkExec(b *testing.B) {
	x := newInside(b, "synapse-scheduler")
	b.Run("true", x.benchTrue)
	b.Run("copy", func(b *testing.B) {
		b.Run("out", func(b *testing.B) { x.stream(b, x.copyOut) })
		b.Run("in", func(b *testing.B) { x.stream(b, x.copyIn) })
	})
	b.Run("forward", func(b *testing.B) {
		b.Run("out", func(b *testing.B) { x.stream(b, x.forwardOut) })
		b.Run("in", func(b *testing.B) { x.stream(b, x.forwardIn) })
	})
}

// inside is a cluster with a running job, and the means to enter it.
type inside struct {
	*cluster
	job, keys, folder string
	used              time.Duration // CPU time of the command line in the last stream
	pace              int64         // maximum rate of a server in bytes a second; 0: unlimited
}

func newInside(b *testing.B, program string) *inside {
	x := &inside{folder: b.TempDir()}
	x.keys = filepath.Join(x.folder, "keys")
	scheduler := newKeys(b, x.keys)
	x.cluster = newClusterOf(b, program, "--tls", scheduler)
	badge, err := credential.OpenBadge(filepath.Join(x.keys, "admin"), identity.RoleAdmin)
	if err != nil {
		b.Fatal(err)
	}
	conn, err := grpc.NewClient("passthrough:///"+x.address, grpc.WithTransportCredentials(badge.Credentials(nil)))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	x.client = api.NewSynapseClient(conn)
	driver := "process"
	if able.Containers.Lacks() == nil {
		driver = "carapace"
	}
	x.agents = append(x.agents, x.start("n1", "synapse-node", "--join", x.address, "--data-dir",
		filepath.Join(x.dir, "n1"), "--id", "n1", "--topology", "zone=a,rack=r1", "--gpus", "8", "--cpus", "8", "--memory",
		"64Gi", "--address", "127.0.0.1", "--driver", driver, "--tls", filepath.Join(x.keys, "n1")))
	x.idle(1)
	spec := gang(1, "/bin/sleep", "infinity")
	spec.Each.MemoryBytes = 4 << 30 // written data counts as memory until it is on the disk
	x.job = x.submit("inside", spec)
	x.eventually("it runs", func() bool {
		reply, err := x.client.GetJob(x.ctx(), &messages.GetJob{Job: x.job})
		return err == nil && reply.Job.Phase == messages.PhaseRunning
	})
	x.cli(b, "exec", x.job, "--", "truncate", "-s", fmt.Sprint(streamed()), "big") // it uses no blocks of the disk
	return x
}

// newKeys creates the keys of a cluster with one node, and returns the folder of its scheduler's keys.
func newKeys(b *testing.B, keys string) (scheduler string) {
	scheduler = filepath.Join(keys, "scheduler")
	for _, args := range [][]string{
		{"init", keys, "--cluster", "bench"},
		{"certify", "node", "n1", "--by", scheduler, "--out", filepath.Join(keys, "n1")},
	} {
		if text, err := exec.Command(filepath.Join(bin, "synapse-cli"), args...).CombinedOutput(); err != nil {
			b.Fatalf("%v: %v: %s", args, err, text)
		}
	}
	return scheduler
}

// command returns the command line of an admin.
func (x *inside) command(args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(bin, "synapse-cli"), args...)
	c.Env = append(os.Environ(), "SYNAPSE_SERVER="+x.address, "SYNAPSE_TLS="+filepath.Join(x.keys, "admin"))
	return c
}

// cli runs it to its end.
func (x *inside) cli(b *testing.B, args ...string) {
	b.Helper()
	c := x.command(args...)
	if text, err := c.CombinedOutput(); err != nil {
		b.Fatalf("%v: %v: %s", args, err, text)
	}
	x.used = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
}

// benchTrue runs one process after the other, each from the start of the command line to its end.
func (x *inside) benchTrue(b *testing.B) {
	once(b, func() {
		var took []time.Duration
		for range size(61, 3) {
			began := time.Now()
			x.cli(b, "exec", x.job, "--", "true")
			took = append(took, time.Since(began))
		}
		report(b, took)
	})
}

// streamed returns the number of bytes per stream.
func streamed() int64 { return int64(size(1000, 12)) * 1_000_000 }

// stream measures one direction once: its throughput, its CPU use, and the maximum additional memory of the scheduler
// and the agent.
func (x *inside) stream(b *testing.B, through func(*testing.B)) {
	once(b, func() {
		resident := func() float64 {
			return memory(b, x.scheduler.Process.Pid, "RssAnon") + memory(b, x.agents[0].Process.Pid, "RssAnon")
		}
		before, most := resident(), 0.0
		over, looked := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(looked)
			for {
				most = max(most, resident())
				select {
				case <-over:
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
		}()
		megabytes := float64(streamed()) / 1e6
		var took time.Duration
		x.costs(b, int(megabytes), func() {
			began := time.Now()
			through(b)
			took = time.Since(began)
		})
		close(over)
		<-looked
		b.ReportMetric(megabytes/took.Seconds(), "MB/s")
		b.ReportMetric(float64(x.used)/1e6/megabytes, "cli-cpu-ms")
		b.ReportMetric(most-before, "anon-MB-more")
		if most-before > 128 {
			b.Errorf("the scheduler and the agent needed %.1f MB more: data in flight is not bounded", most-before)
		}
	})
}

// copyOut copies a file from the task.
func (x *inside) copyOut(b *testing.B) {
	x.cli(b, "cp", x.job+":big", filepath.Join(x.folder, "big"))
}

// copyIn copies a file to the task.
func (x *inside) copyIn(b *testing.B) {
	path := filepath.Join(x.folder, "sent")
	err := os.WriteFile(path, nil, 0o644)
	if err == nil {
		err = os.Truncate(path, streamed())
	}
	if err != nil {
		b.Fatal(err)
	}
	x.cli(b, "exec", x.job, "--", "rm", "-f", "sent")
	x.cli(b, "cp", path, x.job+":sent")
}

// forwardOut reads from a server that the task reaches.
func (x *inside) forwardOut(b *testing.B) {
	x.forward(b, func(server net.Conn) (int64, error) {
		return io.CopyN(server, x.source(), streamed())
	}, func(client *net.TCPConn) (int64, error) { return io.Copy(io.Discard, client) })
}

// forwardIn writes to such a server, until it has confirmed that it got everything.
func (x *inside) forwardIn(b *testing.B) {
	x.forward(b, func(server net.Conn) (int64, error) { return io.Copy(io.Discard, server) },
		func(client *net.TCPConn) (int64, error) {
			n, err := io.CopyN(client, x.source(), streamed())
			if err == nil {
				err = client.CloseWrite()
			}
			if err == nil {
				_, err = io.Copy(io.Discard, client)
			}
			return n, err
		})
}

// zeros is an endless source with a rate.
type zeros struct {
	pace  int64
	began time.Time
	given int64
}

func (x *inside) source() io.Reader { return &zeros{pace: x.pace, began: time.Now()} }

func (z *zeros) Read(p []byte) (int, error) {
	clear(p)
	if z.given += int64(len(p)); z.pace > 0 {
		due := time.Duration(float64(z.given) / float64(z.pace) * float64(time.Second))
		time.Sleep(time.Until(z.began.Add(due)))
	}
	return len(p), nil
}

// forward starts a server for one connection through the task.
func (x *inside) forward(b *testing.B, serve func(net.Conn) (int64, error), use func(*net.TCPConn) (int64, error)) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	served := make(chan error, 1)
	go func() {
		conn, err := server.Accept()
		if err == nil {
			_, err = serve(conn)
			conn.Close()
		}
		served <- err
	}()
	_, port, _ := net.SplitHostPort(server.Addr().String())
	forward := x.command("port-forward", x.job, "0:"+port)
	out, err := forward.StdoutPipe()
	if err == nil {
		forward.Stderr = os.Stderr
		err = forward.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = forward.Process.Signal(syscall.SIGINT)
		_ = forward.Wait()
		x.used = forward.ProcessState.UserTime() + forward.ProcessState.SystemTime()
	}()
	line := make([]byte, 256)
	n, _ := out.Read(line)
	address, _, ok := strings.Cut(string(line[:n]), " forwards to ")
	if !ok {
		b.Fatalf("the port-forward does not listen: %q", line[:n])
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	got, err := use(conn.(*net.TCPConn))
	for _, err := range []error{err, <-served} {
		if err != nil || got != streamed() {
			b.Errorf("%d bytes of %d: %v", got, streamed(), err)
		}
	}
}
