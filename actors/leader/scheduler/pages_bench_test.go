package scheduler

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/server/web"
)

// This file owns the benchmark of web UI pages while a Scheduler starts gangs.

// pagesAt names the environment variable that makes a child of the test binary act as ten pages of the server at that
// address.
const pagesAt = "SYNAPSE_BENCH_PAGES"

// TestBePages is not a test. BenchmarkPagesBeside runs it as a separate process, so that the cost of reading is not
// part of the scheduler's.
func TestBePages(t *testing.T) {
	url := os.Getenv(pagesAt)
	if url == "" {
		return
	}
	var read [10]int64
	var ended sync.WaitGroup
	ctx, leave := context.WithCancel(t.Context())
	for i := range read {
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/stream", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		ended.Go(func() {
			defer answer.Body.Close()
			read[i], _ = io.Copy(io.Discard, answer.Body) // it ends when the server goes
		})
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	leave()
	ended.Wait()
	for i, n := range read {
		if n < 1<<10 {
			t.Errorf("page %d was sent %d bytes", i, n)
		}
	}
}

// gallery is a crowd that pages watch. It passes the Mirror's events on, as the gateway does.
type gallery struct {
	api.SynapseClient
	*crowd
	events  chan *messages.Event
	gone    chan struct{} // closed at the end; watches continue for a while
	changed int
}

func (w *gallery) Watch(ctx context.Context, q *messages.Watch, _ ...grpc.CallOption) (
	grpc.ServerStreamingClient[messages.Event], error) {
	w.toMine <- q
	return &glance{at: w, ctx: ctx}, nil
}

type glance struct {
	grpc.ClientStream
	at  *gallery
	ctx context.Context
}

func (f *glance) Recv() (*messages.Event, error) {
	select {
	case e := <-f.at.events:
		return e, nil
	case <-f.at.gone:
		return nil, io.EOF
	case <-f.ctx.Done(): // the last page is gone
		f.at.toMine <- &messages.Unwatch{}
		return nil, f.ctx.Err()
	}
}

// shows runs the Mirror until the end, and passes its events on.
func (w *gallery) shows() {
	for {
		var said []leadertest.Letter
		select {
		case m := <-w.toMine:
			w.mirror.Receive(&leadertest.Context{Hears: m, Said: &said})
		case <-w.gone:
			return
		}
		for _, l := range said {
			if e, is := l.Message.(*messages.Event); is {
				w.events <- e
			}
		}
	}
}

// change shows a node with a changed ledger, as when a gang starts or ends on it.
func (w *gallery) change() {
	w.changed++
	at := w.changed % len(w.Scheduler.machines)
	id := fmt.Sprintf("n%05d-%d", at/8, at%8)
	total := &messages.Resources{MilliCpu: 64_000, MemoryBytes: 512 << 30, MilliGpu: 8000}
	s := &messages.NodeStatus{Phase: messages.NodeUp,
		Ledger: &messages.LedgerReport{Total: total, Free: &messages.Resources{}},
		Record: &messages.NodeRecord{Id: id, Announcement: &messages.Announcement{Total: total,
			Place: []*messages.Label{{Key: "block", Value: fmt.Sprint("b", at/320)},
				{Key: "rack", Value: fmt.Sprint("r", at/8)}}}}}
	grant := &messages.Grant{Amount: &messages.Resources{MilliGpu: 8000}}
	for g := range 8 {
		gpu := fmt.Sprint("gpu-", g)
		s.Record.Announcement.Gpus = append(s.Record.Announcement.Gpus, &messages.Gpu{Id: gpu, Type: "H100"})
		grant.Gpus = append(grant.Gpus, &messages.GpuShare{GpuId: gpu, Milli: 1000})
	}
	s.Ledger.Slices = []*messages.SliceReport{{
		Job: fmt.Sprintf("w%06d", 1+w.changed%w.made), Grants: []*messages.Grant{grant},
		State: messages.SliceState_SLICE_STATE_COMMITTED,
	}}
	w.toMine <- mirror.NodeShown{Status: s}
}

// processTime returns the CPU time of this process.
func processTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// span holds the durations of the passes in a period, and the CPU cores that the process used in total, including the
// Mirror and the pages' connections.
type span struct {
	passes []pass
	core   float64
}

// runs starts 100 gangs and changes 100 nodes a second for a while.
func (w *gallery) runs(lasts time.Duration) span {
	began, used, tick := time.Now(), processTime(), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	w.passes = nil
	for time.Since(began) < lasts {
		<-tick.C
		w.change()
		w.step()
	}
	return span{w.passes, (processTime() - used).Seconds() / time.Since(began).Seconds()}
}

// pages starts the process of ten pages. The function stop ends it.
func pages(b *testing.B, url string) (stop func()) {
	b.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestBePages$")
	child.Env, child.Stderr = append(os.Environ(), pagesAt+"="+url), os.Stderr
	stdin, err := child.StdinPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	return func() {
		stdin.Close()
		if err := child.Wait(); err != nil {
			b.Errorf("the pages ended with %v", err)
		}
	}
}

// BenchmarkPagesBeside measures ten pages that read all changes on 10,000 nodes, with 100 gangs and 100 changed nodes a
// second and a planner that looks ahead. It reports the duration of passes with pages, and without them before and
// after, because the passes of such a cluster change with time. It also reports the additional CPU cores. The pages
// read in a separate process.
func BenchmarkPagesBeside(b *testing.B) {
	machines, waiting, lasts, leaves := 10_000, 10_000, 10*time.Second, 12*time.Second
	if testing.Short() {
		machines, waiting, lasts, leaves = 400, 200, 300*time.Millisecond, 0
	}
	runtime.LockOSThread() // its CPU time is measured
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as in a scheduler that has led for a while
	w := &gallery{
		crowd: newCrowd(machines, waiting), events: make(chan *messages.Event, 1<<16), gone: make(chan struct{}),
	}
	go w.shows()
	defer close(w.gone)
	page := web.New(web.Options{API: w, Open: true, Answers: func(string) bool { return true }})
	server := httptest.NewServer(page)
	defer server.Close()
	for range machines {
		w.change()
	}
	w.runs(lasts) // warm-up: the first answers and indexes
	var alone, beside []pass
	var core float64
	for b.Loop() {
		before := w.runs(lasts)
		stop := pages(b, server.URL)
		w.runs(lasts / 2) // the initial state has been sent
		with := w.runs(lasts)
		stop()
		w.runs(leaves) // the watch of the pages is gone
		after := w.runs(lasts)
		alone, beside = append(append(alone, before.passes...), after.passes...), append(beside, with.passes...)
		core += with.core - (before.core+after.core)/2
	}
	took, used := func(p pass) time.Duration { return p.took }, func(p pass) time.Duration { return p.used }
	more := 100 * (percentile99(beside, used)/percentile99(alone, used) - 1)
	b.ReportMetric(more, "pass-cpu-p99-%-more")
	b.ReportMetric(percentile99(alone, took), "pass-p99-ms-alone")
	b.ReportMetric(percentile99(beside, took), "pass-p99-ms-beside")
	b.ReportMetric(percentile99(alone, used), "pass-cpu-p99-ms-alone")
	b.ReportMetric(percentile99(beside, used), "pass-cpu-p99-ms-beside")
	b.ReportMetric(core/float64(b.N), "cores-more")
}
