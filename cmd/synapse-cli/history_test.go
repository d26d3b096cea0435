package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file tests the requests and the output of `history`.

// historian is a fake scheduler with a number of finished jobs, two per page.
type historian struct {
	api.UnimplementedSynapseServer
	jobs int

	mu    sync.Mutex
	asked []*messages.History
}

func (h *historian) History(_ context.Context, q *messages.History) (*messages.HistoryReply, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, q)
	at := 0
	if q.After != "" {
		if _, err := fmt.Sscanf(q.After, "%d", &at); err != nil {
			return nil, err
		}
	}
	r := &messages.HistoryReply{Outcome: ok()}
	for ; at < h.jobs && len(r.Jobs) < min(2, int(q.Limit)); at++ {
		r.Jobs = append(r.Jobs, &messages.PastJob{
			Id: fmt.Sprint("j", at), Owner: []string{"alice", "bob"}[at%2], State: messages.JobState_JOB_STATE_SUCCEEDED,
			MilliGpuMs: 3_600_000_000, FinishedUnixMs: 1,
		})
	}
	if h.jobs == 7 && q.After == "" {
		r.Damaged = []string{"job j9: no leader wrote this"}
	}
	if at < h.jobs {
		r.Next = fmt.Sprint(at)
	}
	return r, nil
}

func (h *historian) calls() []*messages.History {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.asked)
}

func startHistorian(t *testing.T, jobs int) (*historian, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h, server := &historian{jobs: jobs}, grpc.NewServer()
	api.RegisterSynapseServer(server, h)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return h, listener.Addr().String()
}

func TestHistoryUsage(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"x", "unknown command"},
		{"-o yaml", "-o yaml: unknown format: use table, wide, json, csv, name"},
		{"--sum month", "--sum month: unknown key"},
		{"--sum owner --limit 5", "cannot be combined"},
		{"--sum owner -q", "--sum cannot be combined"},
		{"--sum owner -o name", "--sum cannot be combined"},
		{"--ranks", "add -o json"},
		{"--ranks -o csv", "add -o json"},
		{"--limit -1", "must not be negative"},
		{"--me --owner bob", "cannot be combined"},
		{"--state running", "--state running: unknown state"},
		{"--since yesterday", `--since "yesterday": not a time`},
		{"--since 2026-13-01", "write 24h"},
		{"--until 99999999d", ": not a time"},
		{"--since 2026-11-02 --until 2026-11-01", "is not later than"},
		{"--since 1h --until 2h", "is not later than"},
		{"--since 2026-11-02 --until 2026-11-02", "is not later than"},
		{"-l nonsense", "supports only key=value"},
	} {
		cli("127.0.0.1:1", append([]string{"history"}, strings.Fields(c.args)...)...).wants(t, exit.Misuse, "", c.want)
	}
	cli("127.0.0.1:1", "--retry", "0s", "history").wants(t, exit.Unavailable, "", "cannot reach the scheduler")
}

// TestHistoryAsks checks that the request contains exactly the values of the command line.
func TestHistoryAsks(t *testing.T) {
	h, address := startHistorian(t, 0)
	cli(address, "history", "--owner", "bob", "--queue", "q", "--name", "n", "--state", "failed,Timed-Out", "--state",
		"cancelled", "--since", "2026-11-01", "--until", "2026-11-02T00:00:00+02:00", "-l", "a=b,c=d", "-o", "json",
		"--ranks").wants(t, 0, `"items": []`, "")
	day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	want := `owner:"bob" queue:"q" name:"n" states:JOB_STATE_FAILED states:JOB_STATE_TIMED_OUT states:JOB_STATE_CANCELLED labels:{key:"a" value:"b"} labels:{key:"c" value:"d"} ` +
		fmt.Sprintf("since_unix_ms:%d until_unix_ms:%d limit:1000 ranks:true", day, day+22*3_600_000)
	if got := strings.Join(strings.Fields(h.calls()[0].String()), " "); got != want {
		t.Errorf("it asked\n%s\nwant\n%s", got, want)
	}
	before := time.Now().UnixMilli()
	cli(address, "history", "--me", "--since", "1d12h").wants(t, 0, "JOB", "no finished jobs")
	last := h.calls()[1]
	if ago := last.SinceUnixMs - (before - 36*3_600_000); last.Owner != messages.Anonymous || ago < 0 || ago > 60_000 ||
		last.UntilUnixMs != 0 || last.Limit != maxPast {
		t.Errorf("it asked %v", last)
	}
}

// TestHistoryNamesDamage checks that unreadable jobs are reported next to the others.
func TestHistoryNamesDamage(t *testing.T) {
	_, address := startHistorian(t, 7)
	const words = "skipped because its record is corrupted: job j9: no leader wrote this"
	cli(address, "history", "-q").wants(t, 0, "j6", words)
}

// TestHistoryTurnsPages checks that only the needed pages are read. A table has a default limit and reports it.
// Other formats are complete.
func TestHistoryTurnsPages(t *testing.T) {
	const jobs = 2*maxPast + 1
	_, address := startHistorian(t, jobs)
	for _, c := range []struct {
		args  string
		lines int
		err   string
	}{
		{"--no-headers", maxPast, "more jobs exist: use --limit 0 to show all"},
		{"--no-headers --limit 3", 3, ""},
		{"--no-headers --limit 0", jobs, ""},
		{"-o csv", jobs + 1, ""},
		{"-q", jobs, ""},
		{"-o name --limit 5", 5, ""},
		{"--parsable", jobs + 1, ""},
	} {
		r := cli(address, append([]string{"history"}, strings.Fields(c.args)...)...)
		if n := strings.Count(r.out, "\n"); r.code != 0 || n != c.lines || !strings.Contains(r.err, c.err) || c.err == "" &&
			r.err != "" {
			t.Errorf("%s: %d lines, and %q; want %d and %q", c.args, n, r.err, c.lines, c.err)
		}
	}
	var list struct{ Items []struct{ ID string } }
	if r := cli(address, "history", "-o", "json"); json.Unmarshal([]byte(r.out), &list) != nil ||
		len(list.Items) != jobs || list.Items[jobs-1].ID != fmt.Sprint("j", jobs-1) {
		t.Errorf("%d items", len(list.Items))
	}
	cli(address, "history", "--sum", "owner").wants(t, 0, "alice   101       0          0          0     101.00", "")
	cli(address, "history", "--sum", "day", "-o", "csv").wants(t,
		0, "1970-01-01,201,201,0,0,0,0,0.000,723600.000,0.000,0.000\n", "")
}
