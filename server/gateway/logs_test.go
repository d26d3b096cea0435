package gateway

// This file tests reading the output of tasks.

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/clock"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/test/able/pace"
)

// linesOf returns lines of a part: "rank: line", with ! for stderr, and notices in brackets.
func linesOf(p *api.LogPart) (lines []string) {
	mark := ""
	if p.Stderr {
		mark = "!"
	}
	if p.Notice != "" {
		return []string{fmt.Sprintf("%d%s [%s]", p.Rank, mark, p.Notice)}
	}
	for line := range strings.Lines(string(p.Data)) {
		lines = append(lines, fmt.Sprintf("%d%s %s", p.Rank, mark, strings.ReplaceAll(line, "\n", "$")))
	}
	return lines
}

// reads reads to the end.
func (d *servedGateway) reads(q *api.ReadLogs) (string, error) {
	d.tb.Helper()
	stream, err := d.SynapseClient.ReadLogs(timely(d.tb), q)
	if err != nil {
		d.tb.Fatal(err)
	}
	var all []string
	for {
		p, err := stream.Recv()
		if err == io.EOF {
			return strings.Join(all, "\n"), nil
		}
		if err != nil {
			return strings.Join(all, "\n"), err
		}
		all = append(all, linesOf(p)...)
	}
}

func (d *servedGateway) wants(q *api.ReadLogs, want ...string) {
	d.tb.Helper()
	if got, err := d.reads(q); err != nil || got != strings.Join(want, "\n") {
		d.tb.Errorf("%v read:\n%s\n%v\nand not:\n%s", q, got, err, strings.Join(want, "\n"))
	}
}

// quick is a clock that runs twenty times as fast, with pauses of one hundredth: 200 ms becomes 2 ms. Nodes have
// quickPatience to answer, which is long enough on a busy host.
type quick struct{}

const quickPatience = 1500 * time.Millisecond

func (quick) Now() time.Time { return time.Unix(0, 20*time.Now().UnixNano()) }
func (quick) After(d time.Duration) <-chan time.Time {
	if d == machinePatience {
		return time.After(quickPatience)
	}
	return time.After(d / 100)
}

// gang starts a gang on two nodes with two ranks each. Without a clock in o it uses the quick clock, on which nodes
// of a very busy host may seem unresponsive. A test that reads all output therefore uses the real clock. A test
// with an unresponsive node runs in parallel, because it mostly waits.
func gang(t *testing.T, o Options) (
	d *servedGateway, r *room, job string, byRank func(rank int32, stderr bool, text string), machines []*launcher,
) {
	r = newRoom(t)
	s, memory := r.lead()
	if o.Store == nil {
		o.Store = memory
	}
	if o.Clock == nil {
		o.Clock = quick{}
	}
	d = r.door(s, o)
	machines = []*launcher{r.join("n1", s), r.join("n2", s)}
	eventually(t, "both are up", func() bool { return d.nodes() == 2 })
	spec := gpuJob("gang", 4, 4)
	spec.Restart = &messages.RestartSpec{Limit: 1}
	job = d.submit(spec)
	eventually(t, "it runs", func() bool { return d.phase(job) == "running" })
	got, err := d.SynapseClient.GetJob(timely(t), &messages.GetJob{Job: job})
	if err != nil {
		t.Fatal(err)
	}
	at := map[int32]*launcher{}
	for _, p := range got.Job.Attempt.Places {
		at[p.Rank] = map[string]*launcher{"n1": machines[0], "n2": machines[1]}[p.Node]
	}
	return d, r, job, func(rank int32, stderr bool, text string) { at[rank].writes(rank, stderr, text) }, machines
}

func TestReadLogs(t *testing.T) {
	d, _, job, write, _ := gang(t, Options{Clock: clock.Real{}})
	d.wants(&api.ReadLogs{Job: job})
	write(0, false, "a\nb\n")
	write(0, true, "oops\n")
	write(2, false, "c\nno end")
	write(3, false, "\xff\xfe\n")
	d.wants(&api.ReadLogs{Job: job}, "0 a$", "0 b$", "0! oops$", "2 c$", "2 no end", "3 \xff\xfe$")
	d.wants(&api.ReadLogs{Job: "job-", Ranks: []int32{2}}, "2 c$", "2 no end")
	for _, c := range []struct {
		q     *api.ReadLogs
		code  messages.Code
		grpc  codes.Code
		words string
	}{
		{&api.ReadLogs{}, messages.Code_CODE_INVALID, codes.InvalidArgument, "job: is missing"},
		{&api.ReadLogs{Job: job, Ranks: []int32{-1}}, messages.Code_CODE_INVALID, codes.InvalidArgument, "ranks[0]"},
		{&api.ReadLogs{Job: job, Ranks: []int32{1, 1}}, messages.Code_CODE_INVALID, codes.InvalidArgument,
			"ranks[1]: 1 is a duplicate"},
		{&api.ReadLogs{Job: job, TailBytes: -1}, messages.Code_CODE_INVALID, codes.InvalidArgument, "tail_bytes"},
		{&api.ReadLogs{Job: job, TailBytes: 1 << 40}, messages.Code_CODE_INVALID, codes.InvalidArgument, "tail_bytes"},
		{&api.ReadLogs{Job: job, Follow: true, Previous: true}, messages.Code_CODE_INVALID, codes.InvalidArgument, "follow"},
		{&api.ReadLogs{Job: "nothing"}, messages.Code_CODE_NOT_FOUND, codes.NotFound, "unknown job"},
		{&api.ReadLogs{Job: job, Ranks: []int32{4}}, messages.Code_CODE_NOT_FOUND, codes.NotFound, "ranks 0 to 3"},
		{&api.ReadLogs{Job: job, Previous: true}, messages.Code_CODE_NOT_FOUND, codes.NotFound, "no earlier attempt"},
	} {
		_, err := d.reads(c.q)
		refused(t, err, c.code, c.grpc, c.words)
	}
	queued := d.submit(gpuJob("later", 1, 8))
	d.wants(&api.ReadLogs{Job: queued}, "0 [job has not started yet: it is queued]")
}

// TestReadLogsInPages checks that output of any size arrives completely, in order, and with complete lines.
func TestReadLogsInPages(t *testing.T) {
	d, _, job, write, _ := gang(t, Options{Clock: clock.Real{}})
	var text strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&text, "line %d%s\n", i, strings.Repeat("x", i%40))
	}
	long := strings.Repeat("y", 3*maxLineBytes) + "\n"
	write(1, false, text.String()+long)
	read := func(q *api.ReadLogs) string {
		t.Helper()
		stream, err := d.SynapseClient.ReadLogs(timely(t), q)
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		for {
			p, err := stream.Recv()
			if err == io.EOF {
				return all.String()
			}
			if err != nil {
				t.Fatal(err)
			}
			if p.Notice != "" {
				t.Fatalf("after %d bytes: %s", all.Len(), p.Notice)
			}
			if !strings.HasSuffix(string(p.Data), "\n") && !strings.HasSuffix(string(p.Data), "yyyy") {
				t.Errorf("a part ends within a line: …%q", p.Data[max(0, len(p.Data)-20):])
			}
			all.Write(p.Data)
		}
	}
	whole := text.String() + long
	if got := read(&api.ReadLogs{Job: job}); got != whole {
		t.Errorf("%d bytes were written, %d read", len(whole), len(got))
	}
	for _, n := range []int{1, 100, 10_000, pageBytes - 1, pageBytes, pageBytes + 1, maxLineBytes * 3, 2 << 20, 16 << 20} {
		want := whole[max(0, len(whole)-n):]
		if n < len(whole) && n > len(long) {
			want = want[strings.IndexByte(want, '\n')+1:]
		}
		if got := read(&api.ReadLogs{Job: job, TailBytes: int64(n)}); got != want {
			t.Errorf("the last %d bytes: %d were read, %d wanted", n, len(got), len(want))
		}
	}
}

func TestReadLogsTellsWhatIsGone(t *testing.T) {
	t.Parallel()
	d, r, job, write, machines := gang(t, Options{})
	write(0, false, "0123456789\nnew\n")
	for _, l := range machines {
		l.mu.Lock()
		if s := l.logs[logOf(0, false)]; s != nil {
			s.gone = 11
		}
		l.mu.Unlock()
	}
	got, err := d.reads(&api.ReadLogs{Job: job, Ranks: []int32{0}})
	if err != nil || !strings.HasPrefix(got, "0 [11 bytes are missing: node n") || !strings.HasSuffix(got, "\n0 new$") {
		t.Errorf("%s, %v", got, err)
	}
	d.wants(&api.ReadLogs{Job: job, Ranks: []int32{0}, TailBytes: 100}, "0 new$")
	write(3, false, "still here\n")
	lost, kept := "n1", "still here"
	if machines[0].logs[logOf(3, false)] != nil {
		lost = "n2"
	}
	r.cut("node-" + lost)
	for _, q := range []*api.ReadLogs{{Job: job}, {Job: job, TailBytes: 100}} {
		begin := time.Now()
		got, err = d.reads(q)
		if err != nil || strings.Count(got, "node "+lost+" does not answer") != 2 || !strings.Contains(got, kept) {
			t.Errorf("%s, %v", got, err)
		}
		if took := time.Since(begin); took > 3*quickPatience+pace.Of(time.Second) { // 4 for a wait per stream
			t.Errorf("one machine that does not answer cost %v", took)
		}
	}
}

// follower reads a growing log and stores the output so far.
type follower struct {
	mu    sync.Mutex
	lines []string
	err   error
	ended bool
}

func (d *servedGateway) following(ctx context.Context, q *api.ReadLogs) *follower {
	d.tb.Helper()
	stream, err := d.SynapseClient.ReadLogs(ctx, q)
	if err != nil {
		d.tb.Fatal(err)
	}
	f := &follower{}
	go func() {
		for {
			p, err := stream.Recv()
			f.mu.Lock()
			if err != nil {
				f.err, f.ended = err, true
				f.mu.Unlock()
				return
			}
			f.lines = append(f.lines, linesOf(p)...)
			f.mu.Unlock()
		}
	}()
	return f
}

func (f *follower) has(line string) func() bool {
	return func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, l := range f.lines {
			if l == line {
				return true
			}
		}
		return false
	}
}

func (f *follower) over() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended
}

func TestFollow(t *testing.T) {
	d, _, job, write, machines := gang(t, Options{})
	write(0, false, "old\nfirst\n")
	f := d.following(timely(t), &api.ReadLogs{Job: job, Follow: true})
	tail := d.following(timely(t), &api.ReadLogs{Job: job, Follow: true, TailBytes: 6, Ranks: []int32{0}})
	eventually(t, "what there was", f.has("0 first$"))
	eventually(t, "the last of what there was", tail.has("0 first$"))
	write(3, true, "more\npart")
	eventually(t, "what comes", f.has("3! more$"))
	eventually(t, "a line that is not ended", f.has("3! part"))
	for _, l := range machines {
		l.exits(1, true) // the gang fails and starts a second attempt
	}
	eventually(t, "the second attempt runs", func() bool {
		got, err := d.SynapseClient.GetJob(timely(t), &messages.GetJob{Job: job})
		return err == nil && got.Job.Phase == "running" && got.Job.Record.Runs == 2
	})
	for _, l := range machines {
		l.writes(1, false, "again\n")
	}
	eventually(t, "the next attempt's", f.has("1 again$"))
	if f.over() || tail.over() {
		t.Error("the end came before the job's")
	}
	for _, l := range machines {
		l.writes(2, false, "last words")
		l.exits(0, false)
	}
	eventually(t, "the end", f.over)
	eventually(t, "the other end", tail.over)
	if f.err != io.EOF || !f.has("2 last words")() || f.has("0 old$")() != true || tail.has("0 old$")() ||
		tail.err != io.EOF {
		t.Errorf("%v %v, %v %v", f.lines, f.err, tail.lines, tail.err)
	}
	// The output of the first attempt is requested with Previous.
	got, err := d.reads(&api.ReadLogs{Job: job, Previous: true, Ranks: []int32{2}})
	if err != nil || got != "2 last words" { // the fake nodes keep one output for all attempts
		t.Errorf("of the attempt before: %q, %v", got, err)
	}
	d.o.Store = nil
	_, err = d.reads(&api.ReadLogs{Job: job, Previous: true})
	refused(t, err, messages.Code_CODE_UNAVAILABLE, codes.Unavailable, "output of earlier attempts is not stored")
}

func TestFollowLosesAMachine(t *testing.T) {
	t.Parallel()
	d, r, job, write, machines := gang(t, Options{})
	write(0, false, "zero\n")
	write(3, false, "three\n")
	ctx, cancel := context.WithCancel(timely(t))
	f := d.following(ctx, &api.ReadLogs{Job: job, Follow: true})
	eventually(t, "both", func() bool { return f.has("0 zero$")() && f.has("3 three$")() })
	lost, left := machines[0], int32(3)
	if lost.logs[logOf(0, false)] == nil {
		left = 0
	}
	system := r.systems["node-n1"]
	r.cut("node-n1")
	notices := func() (n int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, l := range f.lines {
			if strings.Contains(l, "node n1 does not answer") {
				n++
			}
		}
		return n
	}
	eventually(t, "a notice for each rank", func() bool { return notices() == 2 })
	write(left, false, "goes on\n")
	eventually(t, "what the other machine's write", f.has(fmt.Sprintf("%d goes on$", left)))
	write(3-left, false, "was away\n")
	r.mu.Lock()
	r.systems["node-n1"] = system
	r.mu.Unlock()
	eventually(t, "what was written meanwhile", f.has(fmt.Sprintf("%d was away$", 3-left)))
	if n := notices(); n != 2 {
		t.Errorf("%d notices for 2 ranks", n)
	}
	cancel()
	eventually(t, "the end", f.over)
	if status.Code(f.err) != codes.Canceled {
		t.Errorf("the reader ended with %v", f.err)
	}
	eventually(t, "no stream is counted as open", func() bool { return d.streams.Load() == 0 })
}

// TestFollowEndsWithTheJob checks that a follower of a finished job does not wait forever for a lost node.
func TestFollowEndsWithTheJob(t *testing.T) {
	t.Parallel()
	d, r, job, write, machines := gang(t, Options{})
	write(0, false, "zero\n")
	write(3, false, "three\n")
	for _, l := range machines {
		l.exits(0, false)
	}
	eventually(t, "the job is over", func() bool { return d.phase(job) == "succeeded" })
	r.cut("node-n1")
	got, err := d.reads(&api.ReadLogs{Job: job, Follow: true})
	away := strings.Count(got, "node n1 does not answer")
	if err != nil || away != 2 || strings.Contains(got, "zero") == strings.Contains(got, "three") {
		t.Errorf("%s, %v", got, err)
	}
	d.o.Peers = nil // a process without connections to nodes reports this too
	got, err = d.reads(&api.ReadLogs{Job: job})
	if err != nil || strings.Count(got, "does not answer") != 4 {
		t.Errorf("%s, %v", got, err)
	}
}
