package e2e

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
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
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"google.golang.org/grpc"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests 64 hostile clients, each with its own certificate, in a process that uses half a core. Next to them,
// an honest client submits 100 jobs a second.

// beingHostile is the first argument of the process with the hostile clients. The scheduler and the keys follow.
// Without a scheduler the process only computes.
const beingHostile = "be-hostile"

const (
	hostiles   = 64
	halfACore  = 500 * time.Millisecond // per second
	honestPace = 10 * time.Millisecond
)

// TestHostileIdentities checks that the honest client is served within a bounded time, and that the cost of the others
// is bounded and returned. BenchmarkHostileIdentities measures the additional waiting time on an otherwise idle host.
func TestHostileIdentities(t *testing.T) {
	pace.Crowd(t)
	got := besideHostiles(t, 3*time.Second)
	t.Log(got)
	if got.failed > 0 || got.beside > max(10*got.alone, 3*time.Second) || got.grown > 200 || got.left > 60 {
		t.Errorf("%v: the honest client failed or waited too long, or the scheduler used 200 MB more, or kept 60 MB", got)
	}
}

// BenchmarkHostileIdentities includes a control: half a core that computes and connects to nobody. The scheduler cannot
// reduce that cost.
func BenchmarkHostileIdentities(b *testing.B) {
	each := 15 * time.Second
	if testing.Short() {
		each = time.Second
	}
	for range b.N {
		got := besideHostiles(b, each)
		b.ReportMetric(float64(got.alone.Microseconds())/1000, "ms-p99-alone")
		b.ReportMetric(float64(got.computing.Microseconds())/1000, "ms-p99-beside-half-a-core")
		b.ReportMetric(float64(got.beside.Microseconds())/1000, "ms-p99-beside")
		b.ReportMetric(float64(got.beside)/float64(got.alone), "times")
		b.ReportMetric(float64(got.beside)/float64(got.computing), "times-of-half-a-core")
		b.ReportMetric(got.share, "processors-of-theirs")
		b.ReportMetric(float64(got.grown), "MB-more")
		b.ReportMetric(float64(got.left), "MB-kept")
		if got.failed > 0 {
			b.Errorf("submits of the honest client failed: %v", got)
		}
	}
}

// hostility holds the cost of the hostile clients.
type hostility struct {
	alone, beside time.Duration // 99 of 100 submits were acknowledged within this time
	computing     time.Duration // the same next to a process that computes on half a core
	grown, left   int64         // additional MB: the maximum during the attack, and the rest at the end
	failed        int
	share         float64 // share of a processor that they used
	why           error   // the first error of them
}

func (h hostility) String() string {
	return fmt.Sprintf("p99 %v alone, %v beside half a core and %v beside them, who had %.2f of a processor; %d MB more "+
		"and %d kept, %d failed (%v)", h.alone, h.computing, h.beside, h.share, h.grown, h.left, h.failed, h.why)
}

func besideHostiles(tb testing.TB, each time.Duration) (h hostility) {
	tb.Helper()
	s := hostileCluster(tb)
	h.alone = s.honest(each, &h)
	over := s.hire("")
	h.computing = s.honest(each, &h)
	over()
	before := s.resident()
	over = s.hire(s.address)
	stop, watched := make(chan struct{}), make(chan int64)
	go func() {
		most := int64(0)
		for {
			most = max(most, s.resident())
			select {
			case <-stop:
				watched <- most
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	time.Sleep(each / 3) // until all of them have started
	h.beside = s.honest(each, &h)
	close(stop)
	h.grown = (<-watched - before) >> 20
	h.share = over()
	for limit := pace.Until(time.Minute); time.Now().Before(limit); time.Sleep(200 * time.Millisecond) {
		if h.left = (s.resident() - before) >> 20; h.left <= 40 {
			break
		}
	}
	return h
}

// victim is the scheduler that they attack.
type victim struct {
	tb            testing.TB
	address, keys string
	log           string
	pid           int
	client        api.SynapseClient
	sent          int
}

func hostileCluster(tb testing.TB) *victim {
	tb.Helper()
	dir := tb.TempDir()
	keys := filepath.Join(dir, "keys")
	if text, err := exec.Command(filepath.Join(bin, "synapse-cli"), "init", keys).CombinedOutput(); err != nil {
		tb.Fatalf("%v: %s", err, text)
	}
	by, err := identity.OpenFolder(filepath.Join(keys, "scheduler"))
	if err != nil {
		tb.Fatal(err)
	}
	for i := range hostiles {
		one, err := by.Certify(identity.RoleSubmitter, fmt.Sprint("h", i), time.Now())
		if err == nil {
			one.Dir = filepath.Join(keys, fmt.Sprint("h", i))
			err = one.Create()
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	file := filepath.Join(dir, "address")
	c := exec.Command(filepath.Join(bin, "synapse-scheduler"), "--listen", "127.0.0.1:0", "--listen-file", file,
		"--data-dir", filepath.Join(dir, "data"), "--tls", by.Dir)
	v := &victim{tb: tb, keys: keys, log: filepath.Join(dir, "log")}
	log, err := os.Create(v.log)
	if err != nil {
		tb.Fatal(err)
	}
	defer log.Close()
	if c.Stderr = log; c.Start() != nil {
		tb.Fatal("the scheduler does not start")
	}
	v.pid = c.Process.Pid
	tb.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	for limit := pace.Until(20 * time.Second); v.address == ""; time.Sleep(20 * time.Millisecond) {
		if text, err := os.ReadFile(file); err == nil {
			v.address = strings.TrimSpace(string(text))
		} else if time.Now().After(limit) {
			tb.Fatal("the scheduler does not listen")
		}
	}
	conn, err := grpc.NewClient("passthrough:///"+v.address,
		grpc.WithTransportCredentials(badgeOf(keys, "admin").Credentials(nil)))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	v.client = api.NewSynapseClient(conn)
	return v
}

// hire starts a process that attacks a scheduler. over ends it, and returns its CPU share.
func (v *victim) hire(address string) (over func() float64) {
	v.tb.Helper()
	c := exec.Command("/proc/self/exe", beingHostile, address, v.keys)
	c.Env, c.Stderr = append(os.Environ(), "GOMAXPROCS=1"), os.Stderr
	began := time.Now()
	if err := c.Start(); err != nil {
		v.tb.Fatal(err)
	}
	v.tb.Cleanup(func() { _ = c.Process.Kill() }) // if something fails meanwhile
	return func() float64 {
		_ = c.Process.Kill()
		_ = c.Wait()
		return (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds() / time.Since(began).Seconds()
	}
}

func badgeOf(keys, name string) *credential.Badge {
	badge, err := credential.OpenBadge(filepath.Join(keys, name), identity.People...)
	if err != nil {
		panic(err)
	}
	return badge
}

// resident returns the scheduler's resident memory.
func (v *victim) resident() int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.pid))
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "RssAnon:" {
			kb, _ := strconv.ParseInt(fields[1], 10, 64)
			return kb << 10
		}
	}
	return 0
}

// honest submits at a fixed rate, whether or not earlier submits were answered. It returns the p99 of the answered
// ones.
func (v *victim) honest(each time.Duration, h *hostility) (p99 time.Duration) {
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	spec := gang(1, 1, "true")
	for range each / honestPace {
		v.sent++
		q := &messages.Submit{RequestId: fmt.Sprint("honest-", v.sent), Spec: spec, AllowInfeasible: true}
		began := time.Now()
		all.Go(func() {
			ctx, done := context.WithTimeout(context.Background(), pace.Of(30*time.Second))
			defer done()
			_, err := v.client.Submit(ctx, q)
			mu.Lock()
			defer mu.Unlock()
			if took = append(took, time.Since(began)); err != nil {
				h.failed, h.why = h.failed+1, cmp.Or(h.why, err)
			}
		})
		time.Sleep(honestPace)
	}
	all.Wait()
	slices.Sort(took)
	return took[len(took)*99/100]
}

// beHostile runs all hostile clients until the process is killed.
func beHostile(address, keys string) int {
	kinds := []func(string, *credential.Badge){idles, readsNothing, isSlow, sendsMuch, reconnects}
	if address == "" {
		go func() {
			for sum := sha256.Sum256(nil); ; sum = sha256.Sum256(sum[:]) {
			}
		}()
		restrain(halfACore)
	}
	for i := range hostiles {
		badge := badgeOf(keys, fmt.Sprint("h", i))
		go func() {
			for {
				kinds[i%len(kinds)](address, badge)
				time.Sleep(10 * time.Millisecond)
			}
		}()
	}
	restrain(halfACore)
	return 0
}

// restrain limits the CPU time of this process to a part of each second. It stops itself for the rest. Unused time is
// lost, as in a cgroup with a quota.
func restrain(of time.Duration) {
	const period = 100 * time.Millisecond // as in the kernel
	used := func() time.Duration {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	for began, before := time.Now(), used(); ; time.Sleep(5 * time.Millisecond) {
		spent := used() - before
		if spent > time.Duration(of.Seconds()*float64(period)) {
			stand(began.Add(time.Duration(float64(spent) / of.Seconds())))
		}
		if time.Since(began) >= period {
			began, before = time.Now(), used()
		}
	}
}

// stand stops this process until a time. It uses raw system calls, because Go's calls would let another goroutine run.
// No signal is delivered meanwhile, because the runtime would continue at a signal.
func stand(until time.Time) {
	left := time.Until(until)
	if left <= 0 {
		return
	}
	pause, all, before := syscall.NsecToTimespec(left.Nanoseconds()), ^uint64(0), uint64(0)
	const block, restore, bytes = 0, 2, 8
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, block, uintptr(unsafe.Pointer(&all)),
		uintptr(unsafe.Pointer(&before)), bytes, 0, 0)
	_, _, _ = syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&pause)), 0, 0)
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, restore, uintptr(unsafe.Pointer(&before)), 0, bytes, 0, 0)
}

func hostileCalls(address string, badge *credential.Badge) (api.SynapseClient, func()) {
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(badge.Credentials(nil)),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(1<<30)))
	if err != nil {
		return nil, func() {}
	}
	return api.NewSynapseClient(conn), func() { conn.Close() }
}

// idles opens all streams that it may, and does nothing with them.
func idles(address string, badge *credential.Badge) {
	c, done := hostileCalls(address, badge)
	defer done()
	for range 128 {
		stream, err := c.Watch(context.Background(), &messages.Watch{Jobs: true, Ids: []string{"jnone"}})
		if err == nil {
			go func() { _, _ = stream.Recv() }()
		}
	}
	time.Sleep(time.Hour)
}

// readsNothing requests everything, and reads nothing.
func readsNothing(address string, badge *credential.Badge) {
	c, done := hostileCalls(address, badge)
	defer done()
	for range 64 {
		_, _ = c.Watch(context.Background(), &messages.Watch{Jobs: true, Present: true, Reasons: true})
	}
	time.Sleep(time.Hour)
}

// isSlow sends its first bytes one at a time, without a certificate.
func isSlow(address string, _ *credential.Badge) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer conn.Close()
	for _, b := range []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("a", 500)) {
		if _, err := conn.Write([]byte{b}); err != nil {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// sendsMuch submits requests above the size limit, and just below it.
func sendsMuch(address string, badge *credential.Badge) {
	c, done := hostileCalls(address, badge)
	defer done()
	for _, size := range []int{messages.MaxMessageBytes - 4096, 64 << 20} {
		spec := gang(1, 1, "true")
		spec.Command = []string{strings.Repeat("x", size)}
		_, _ = c.Submit(context.Background(), &messages.Submit{Spec: spec, RequestId: rand.Text()})
	}
}

// reconnects authenticates, or does not, and disconnects.
func reconnects(address string, badge *credential.Badge) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(pace.Until(5 * time.Second))
	if _, _, err := badge.Credentials(nil).ClientHandshake(context.Background(), address, conn); err != nil {
		_, _ = io.ReadAll(io.LimitReader(tls.Client(conn, &tls.Config{InsecureSkipVerify: true}), 1))
	}
}
