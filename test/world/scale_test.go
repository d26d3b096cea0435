//go:build world

package world

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/test/crowd"
)

// This file measures the page with very many nodes: in a browser, in the scheduler and in its readers. A small run
// shows that everything works. For the figures:
//
//	go test -tags world ./test/world -run PageAtScale -world.machines 10000 -v -timeout 30m
//
// Wall time says little on a busy host, so the CPU time is reported as well.

var machines = flag.Int("world.machines", 400, "how many machines TestPageAtScale plays; 10,000 for its figures")

// whole is the number of nodes from which on the figures are compared with their targets.
const whole = 10_000

// TestBeMachines is not a test: TestPageAtScale runs it as another process.
func TestBeMachines(t *testing.T) { crowd.Be(t, 32) }

// hall is a scheduler with very many nodes that change all the time.
type hall struct {
	*surf
	address string
	pid     int
	client  api.SynapseClient
}

// TestPageAtScale checks that the map of very many nodes, of which a hundred change each second, appears at once and
// moves smoothly. Ten readers of the stream must cost the scheduler little, and must not slow its passes.
func TestPageAtScale(t *testing.T) {
	bin, folder := programs(t)
	began, h := time.Now(), newHall(t, bin, folder)
	go h.changes(t.Context())
	runs, span := 1, 2*time.Second
	if *machines >= whole {
		runs, span = 5, 10*time.Second
	}
	var alone, read []float64
	var aloneLate, readLate []float64
	for range runs { // interleaved, because other load on the host varies
		cpu, late := h.spends(span)
		alone, aloneLate = append(alone, cpu), append(aloneLate, late)
		ctx, cancel := context.WithCancel(t.Context())
		for range 10 {
			h.reads(ctx)
		}
		h.spends(span / 2) // the existing data has been sent
		cpu, late = h.spends(span)
		cancel()
		read, readLate = append(read, cpu), append(readLate, late)
	}
	more := median(read) - median(alone)
	t.Logf("the scheduler: %.3f of a core alone, %.3f with ten readers: %.3f more; passes' p99 at most %.2f and %.2f ms",
		median(alone), median(read), more, 1000*median(aloneLate), 1000*median(readLate))
	h.browse("http://" + h.address + "/")
	var first, all, paints, frames, work, heap []float64
	for range runs {
		before := browserSpent(t)
		h.do(chromedp.Navigate("about:blank"), chromedp.Navigate("http://"+h.address+"/"))
		h.await(fmt.Sprintf(`document.querySelector("canvas")?.getAttribute("aria-label").includes("of " +
			(%d).toLocaleString("en") + " nodes") && performance.getEntriesByName("map").length`, *machines))
		paints = append(paints, float64((browserSpent(t) - before).Milliseconds()))
		first = append(first, js[float64](h.surf, `performance.getEntriesByName("map")[0].startTime`))
		all = append(all, js[float64](h.surf, `performance.now()`))
		f, cpu := h.moves(span)
		frames, work = append(frames, f), append(work, cpu)
		heap = append(heap, js[float64](h.surf, `performance.memory.usedJSHeapSize / 1e6`))
	}
	t.Logf(
		"the page: the map %.0f ms after the request, all %d machines after %.0f, for %.0f ms of the browser's processor "+
			"time; moved and zoomed %.1f frames/s, for %.1f ms of it each; heap %.0f MB",
		median(first), *machines, median(all), median(paints), median(frames), median(work), median(heap))
	h.keep(fmt.Sprintf("scale-%d", *machines))
	h.silent()
	var kept int64
	parts, _ := filepath.Glob(filepath.Join(folder, "data", "past", "*"))
	for _, part := range parts {
		if info, err := os.Stat(part); err == nil {
			kept += info.Size()
		}
	}
	t.Logf("the timeline took %d KB meanwhile, %s", kept>>10, time.Since(began).Round(time.Second))
	if *machines < whole {
		return
	}
	for what, wrong := range map[string]bool{ // on a shared host the CPU time counts
		"the first picture takes a second or more": median(first) >= 1000 && median(paints) >= 1000,
		"fewer than 30 frames a second":            median(frames) < 30 && median(work) > 1000./30,
		"the heap has 300 MB":                      median(heap) >= 300,
		"ten readers cost a tenth of a core":       more > 0.1,
	} {
		if wrong {
			t.Error(what)
		}
	}
}

// newHall starts everything. Half of the nodes are full for as long as the test runs.
func newHall(t *testing.T, bin, folder string) *hall {
	h := &hall{surf: &surf{t: t, cli: filepath.Join(bin, "synapse-cli")}, address: free(t)}
	h.variables = []string{"SYNAPSE_SERVER=" + h.address}
	h.pid = h.scheduler(filepath.Join(bin, "synapse-scheduler"), "--listen", h.address, "--data-dir",
		filepath.Join(folder, "data"), "--levels", "zone,rack").pid
	conn, err := grpc.NewClient(h.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	h.client = api.NewSynapseClient(conn)
	began := time.Now()
	crowd.Start(t, *machines, h.address)
	h.eventually("all machines are up", func() bool { return h.figure(`synapse_nodes\{phase="up"\}`) == float64(*machines) })
	t.Logf("only %d nodes are up after %s", *machines, time.Since(began).Round(time.Second))
	for i := range *machines / 2 / gangOf {
		h.begin(fmt.Sprintf("stays-%d", i))
	}
	return h
}

// eventually waits for a condition that takes long with very many nodes.
func (h *hall) eventually(what string, holds func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !holds(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatalf("timeout: %s did not happen", what)
		}
	}
}

const gangOf = 8

// begin submits a gang of whole nodes.
func (h *hall) begin(request string) string {
	reply, err := h.client.Submit(context.Background(), &messages.Submit{RequestId: request, Spec: &messages.JobSpec{
		Name: "gang", Image: "host", Command: []string{"true"},
		Gang: &messages.GangSpec{ReplicasMin: gangOf, ReplicasMax: gangOf},
		Each: &messages.Resources{MilliCpu: 1000, MemoryBytes: 1 << 30, MilliGpu: 8000},
	}})
	if err != nil {
		h.t.Errorf("submit: %v", err)
	}
	return reply.GetJob()
}

// changes starts and ends gangs, so that a hundred nodes change on the map each second.
func (h *hall) changes(ctx context.Context) {
	var live []string
	for i := 0; ctx.Err() == nil; i++ {
		live = append(live, h.begin(fmt.Sprintf("goes-%d", i)))
		if len(live) > 12 {
			if _, err := h.client.Cancel(ctx, &messages.Cancel{Job: live[0]}); err != nil && ctx.Err() == nil {
				h.t.Errorf("cancel: %v", err)
			}
			live = live[1:]
		}
		time.Sleep(2 * gangOf * time.Second / 100)
	}
}

// spends returns the scheduler's CPU use in cores over a span, and the time within which 99 of 100 passes end.
func (h *hall) spends(span time.Duration) (cores, late float64) {
	h.t.Helper()
	before, began, passes := spent(h.t, h.pid), time.Now(), h.passes()
	time.Sleep(span)
	cores = (spent(h.t, h.pid) - before).Seconds() / time.Since(began).Seconds()
	after := h.passes()
	for i := range after {
		after[i].count -= passes[i].count
	}
	for _, b := range after {
		if b.count >= 0.99*after[len(after)-1].count {
			return cores, b.most
		}
	}
	return cores, 0
}

// bucket counts the passes up to a duration.
type bucket struct{ most, count float64 }

var bucketLine = regexp.MustCompile(`(?m)^synapse_pass_seconds_bucket\{le="([^"]+)"\} (\S+)$`)

func (h *hall) passes() (all []bucket) {
	for _, m := range bucketLine.FindAllStringSubmatch(fetch(h.t, "http://"+h.address+"/metrics"), -1) {
		most, _ := strconv.ParseFloat(m[1], 64) // the last is +Inf
		count, _ := strconv.ParseFloat(m[2], 64)
		all = append(all, bucket{most, count})
	}
	return all
}

// figure returns a metric of the scheduler.
func (h *hall) figure(name string) float64 {
	m := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(fetch(h.t, "http://"+h.address+"/metrics"))
	if m == nil {
		return -1
	}
	n, _ := strconv.ParseFloat(m[1], 64)
	return n
}

// reads reads the stream as a page does, until its end.
func (h *hall) reads(ctx context.Context) {
	h.t.Helper()
	q, err := http.NewRequestWithContext(ctx, "GET", "http://"+h.address+"/stream", nil)
	if err != nil {
		h.t.Fatal(err)
	}
	answer, err := (&http.Client{Transport: &http.Transport{}}).Do(q)
	if err != nil {
		h.t.Fatal(err)
	}
	go func() {
		defer answer.Body.Close()
		_, _ = io.Copy(io.Discard, answer.Body)
	}()
}

// moves moves and zooms the map for a while, one step per frame. It returns the frames per second, and the browser's
// CPU time per frame in milliseconds.
func (h *hall) moves(span time.Duration) (frames, work float64) {
	h.t.Helper()
	js[any](h.surf, fmt.Sprintf(`window.moved = undefined; (() => {
		const canvas = document.querySelector("canvas"), began = performance.now(), r = canvas.getBoundingClientRect();
		let n = 0;
		const at = (type, x, y, more) => canvas.dispatchEvent(new (type === "wheel" ? WheelEvent : PointerEvent)(type, { bubbles: true,
			cancelable: true, clientX: r.x + x, clientY: r.y + y, pointerId: 1, buttons: 1, ...more }));
		canvas.setPointerCapture = () => 0;
		at("pointerdown", 300, 200);
		const step = (now) => {
			const t = (now - began) / 1000;
			at("pointermove", 300 + 200 * Math.sin(3 * t), 200 + 100 * Math.cos(2 * t));
			at("wheel", 600, 250, { deltaY: 60 * Math.sin(1.3 * t) });
			n++;
			if (now - began < %d) requestAnimationFrame(step);
			else window.moved = n / ((now - began) / 1000);
		};
		requestAnimationFrame(step);
	})(); 0`, span.Milliseconds()))
	before := browserSpent(h.t)
	h.await("window.moved")
	frames = js[float64](h.surf, "window.moved")
	return frames, float64((browserSpent(h.t) - before).Milliseconds()) / (frames * span.Seconds())
}

// spent returns the CPU time of a process so far.
func spent(t *testing.T, pid int) time.Duration {
	t.Helper()
	fields, err := statOf(pid)
	if err != nil {
		t.Fatal(err)
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond // the kernel's unit on all supported platforms
}

// statOf returns the fields of a process's stat after its name.
func statOf(pid int) ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+2:])), nil
}

// browserSpent returns the CPU time of all processes of the browser that this process has started.
func browserSpent(t *testing.T) (sum time.Duration) {
	t.Helper()
	parents := map[int]int{}
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range all {
		pid, _ := strconv.Atoi(filepath.Base(p))
		if fields, err := statOf(pid); err == nil {
			parents[pid], _ = strconv.Atoi(fields[1])
		}
	}
	for pid := range parents {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if !strings.HasPrefix(string(name), "chrom") {
			continue
		}
		for at := pid; at > 1; at = parents[at] {
			if at == os.Getpid() {
				sum += spent(t, pid)
			}
		}
	}
	return sum
}

func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}
