package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/explain"
	"github.com/yi-json/synapse/server/api"
)

// This file answers single requests of a page: about one job, waiting jobs, queues, and the output of tasks.

// refuse answers an error with an HTTP status and a text for the user.
func (p *Page) refuse(w http.ResponseWriter, err error) {
	var asked *mistake
	if errors.As(err, &asked) {
		http.Error(w, asked.text, cmp.Or(asked.status, http.StatusBadRequest))
		return
	}
	code, words := p.o.Said(err)
	status, ok := map[messages.Code]int{
		messages.Code_CODE_INVALID: http.StatusBadRequest, messages.Code_CODE_NOT_FOUND: http.StatusNotFound,
		messages.Code_CODE_NOT_ALLOWED: http.StatusForbidden, messages.Code_CODE_CONFLICT: http.StatusConflict,
		messages.Code_CODE_INFEASIBLE: http.StatusUnprocessableEntity,
	}[code]
	if !ok {
		status = http.StatusBadGateway
	}
	http.Error(w, words, status)
}

// words returns the text of an error.
func (p *Page) words(err error) string {
	_, words := p.o.Said(err)
	return words
}

// mistake is the error of a request that the page itself refuses, mostly one that no page of this program makes.
type mistake struct {
	text   string
	status int // 0: a malformed request
}

func (m *mistake) Error() string { return m.text }

// user is the user of a page and the shown cluster.
type user struct {
	Cluster string          `json:"cluster"`
	Version string          `json:"version"`
	Levels  []string        `json:"levels"`
	Name    string          `json:"name"`
	Role    string          `json:"role,omitempty"`
	Program string          `json:"program"`
	All     bool            `json:"all,omitempty"`    // all actions are permitted
	Leaves  bool            `json:"leaves,omitempty"` // the user can log out
	Submits bool            `json:"submits,omitempty"`
	May     map[string]bool `json:"may"` // false: only on the user's own jobs
}

func (p *Page) me(r *http.Request) (any, error) {
	who, err := p.who(r.Context(), asked(r))
	if err != nil {
		return nil, err
	}
	who.Leaves = guestOf(r).Leave != nil
	return who, nil
}

func (p *Page) who(ctx context.Context, on api.SynapseClient) (*user, error) {
	who, err := on.WhoAmI(ctx, &api.WhoAmI{})
	if err != nil {
		return nil, err
	}
	which, err := on.Cluster(ctx, &api.Cluster{})
	if err != nil {
		return nil, err
	}
	u := &user{
		Cluster: which.GetClusterId(), Version: which.GetVersion(), Levels: which.GetLevels(), Name: who.GetName(),
		Role: who.GetRole(), Program: p.o.Program, All: who.GetCluster() == "", May: map[string]bool{},
	}
	for _, right := range who.GetRights() {
		u.May[right.GetName()] = !right.GetOwn()
	}
	u.Submits = p.barSubmit(who) == nil
	return u, nil
}

// idOf returns a name in a request.
func idOf(r *http.Request, key string) (string, error) {
	id := r.URL.Query().Get(key)
	if id == "" {
		return "", &mistake{text: key + " is missing"}
	}
	return id, nil
}

// detail holds everything that is shown of one job.
type detail struct {
	Row     jobRow       `json:"row"`
	Asks    []amount     `json:"asks"`
	Ran     int64        `json:"ran"` // -1: nothing has run
	Runs    []attemptRow `json:"attempts"`
	Ranks   []rank       `json:"ranks"` // at most maxRanks, from the requested one on
	Of      int          `json:"of"`    // number of all ranks
	Start   *start       `json:"start,omitempty"`
	Debts   []string     `json:"debts,omitempty"`
	Limit   int64        `json:"limit,omitempty"`
	Warned  *warned      `json:"warning,omitempty"` // of the running attempt
	Used    int64        `json:"used,omitempty"`    // by all attempts: thousandths of a GPU times milliseconds
	Lost    int64        `json:"lost,omitempty"`
	Done    *done        `json:"progress,omitempty"`
	Use     *use         `json:"use,omitempty"`
	Machine []string     `json:"machines,omitempty"` // permitted nodes
}

// warned is a warning that the tasks of a job have received.
type warned struct {
	Cause string `json:"cause"`
	At    int64  `json:"at"`
	Ends  int64  `json:"ends"`
}

func (p *Page) job(r *http.Request) (any, error) {
	id, err := idOf(r, "id")
	if err != nil {
		return nil, err
	}
	from, err := strconv.Atoi(cmp.Or(r.URL.Query().Get("from"), "0"))
	if err != nil || from < 0 {
		return nil, &mistake{text: "from is not a number"}
	}
	return detailOf(r.Context(), asked(r), id, from)
}

// detailOf reads a job, with its ranks from one on.
func detailOf(ctx context.Context, on api.SynapseClient, id string, from int) (*detail, error) {
	reply, err := on.GetJob(ctx, &messages.GetJob{Job: id, Attempts: true})
	if err != nil {
		return nil, err
	}
	j, now := reply.GetJob(), time.Now().UnixMilli()
	answer := &detail{
		Row: rowOf(j), Asks: amountsOf(j.GetRecord().GetSpec()), Ran: messages.RanMs(j, now),
		Ranks: ranksOf(j.GetAttempt(), from), Of: len(j.GetAttempt().GetPlaces()), Debts: j.GetDebts(),
		Limit: j.GetRecord().GetSpec().GetTimeLimitMs(), Machine: j.GetRecord().GetSpec().GetNodes(), Start: startOf(j),
	}
	attempts := reply.GetAttempts()
	if latest := j.GetAttempt(); latest != nil && !slices.ContainsFunc(attempts, func(a *messages.AttemptRecord) bool {
		return a.GetRun() == latest.GetRun()
	}) {
		attempts = append(slices.Clone(attempts), latest)
	}
	for _, a := range attempts {
		run := runOf(a)
		run.Used, run.Lost = gpuTime(j.GetRecord().GetSpec(), a, now)
		answer.Used, answer.Lost = answer.Used+run.Used, answer.Lost+run.Lost
		answer.Runs = append(answer.Runs, run)
	}
	answer.Done, answer.Use = doneOf(j.GetProgress()), useOf(j.GetUse())
	switch w := j.GetWarned(); {
	case w.GetIdleMs() > 0:
		answer.Warned = &warned{"idle for " + messages.Span(w.IdleMs), w.GetAtUnixMs(), 0}
	case w != nil:
		answer.Warned = &warned{messages.Word(w.GetCause().String(), "CAUSE_"), w.GetAtUnixMs(), w.GetEndsUnixMs()}
	}
	return answer, nil
}

// amount is a requested resource: per task, or of all tasks.
type amount struct {
	What  string `json:"what"`
	Each  int64  `json:"each,omitempty"`
	Total int64  `json:"total"`
}

func amountsOf(spec *messages.JobSpec) (all []amount) {
	for _, of := range []struct {
		what string
		get  func(*messages.Resources) int64
	}{
		{cmp.Or(spec.GetGpuType(), "GPUs"), (*messages.Resources).GetMilliGpu},
		{"CPUs", (*messages.Resources).GetMilliCpu},
		{"memory", (*messages.Resources).GetMemoryBytes},
	} {
		if n := messages.Asked(spec, of.get); n > 0 {
			all = append(all, amount{of.what, of.get(spec.GetEach()), n})
		}
	}
	return all
}

func startOf(j *messages.JobStatus) *start {
	t := j.GetProspect()
	if t == nil {
		return nil
	}
	return &start{
		Job: j.GetRecord().GetId(), Basis: messages.Word(t.GetBasis().String(), "BASIS_"), At: t.GetAtUnixMs(),
		Latest: t.GetLatestUnixMs(), Likely: t.GetLikelyUnixMs(), Why: t.GetWhy(), Kept: t.GetKept(),
		Until: t.GetKeptUntilUnixMs(), Ahead: t.GetAhead(), AheadMs: t.GetAheadMs(),
		Words: t.Words(time.Now().UnixMilli()),
	}
}

// explained holds the facts about why a job waits: the rows of the command line, each line with its cells.
type explained struct {
	Title string         `json:"title"`
	Rows  []explainedRow `json:"rows"`
}

type explainedRow struct {
	Label string     `json:"label"`
	Lines [][]string `json:"lines"`
}

// explain returns why a job waits.
func (p *Page) explain(r *http.Request) (any, error) {
	id, err := idOf(r, "id")
	if err != nil {
		return nil, err
	}
	reply, err := asked(r).ExplainJob(r.Context(), &messages.ExplainJob{Job: id})
	if err != nil {
		return nil, err
	}
	if reply.GetExplanation() == nil { // the Mirror is of an older version
		return explained{reply.GetText(), []explainedRow{}}, nil
	}
	sheet := explain.Of(reply.GetExplanation())
	all := explained{sheet.Title, []explainedRow{}}
	for _, row := range sheet.Rows {
		all.Rows = append(all.Rows, explainedRow(row))
	}
	return all, nil
}

// queue is a configured queue.
type queue struct {
	Name   string           `json:"name"`
	Parent string           `json:"parent,omitempty"`
	Quota  map[string]int64 `json:"quota,omitempty"`
	Limit  map[string]int64 `json:"limit,omitempty"`
	Owners []string         `json:"owners,omitempty"`
	Barred bool             `json:"barred,omitempty"` // for the user of the page
}

// usage holds the use and the waiting jobs of a queue and its descendants.
type usage struct {
	Queue   string `json:"queue"`
	Use     int64  `json:"use"` // GPUs in thousandths
	Asked   int64  `json:"asked"`
	Running int64  `json:"running"`
	Waiting int64  `json:"waiting"`
	Held    int64  `json:"held"`
	Oldest  int64  `json:"oldest,omitempty"`
}

// described holds all configured queues, and the usage of all queues with jobs.
type described struct {
	Revision uint64  `json:"revision"`
	Default  string  `json:"default,omitempty"`
	Queues   []queue `json:"queues"`
	Usage    []usage `json:"usage,omitempty"`
}

func (p *Page) queues(r *http.Request) (any, error) {
	reply, err := asked(r).GetQueues(r.Context(), &messages.GetQueues{})
	if err != nil {
		return nil, err
	}
	return queuesOf(reply), nil
}

func queuesOf(reply *messages.GetQueuesReply) *described {
	amounts := func(list []*messages.Amount) map[string]int64 {
		all := map[string]int64{}
		for _, a := range list {
			all[a.GetName()] = a.GetAmount()
		}
		return all
	}
	all := &described{Revision: reply.GetRevision(), Default: reply.GetQueues().GetDefault(), Queues: []queue{}}
	for _, q := range reply.GetQueues().GetQueues() {
		all.Queues = append(all.Queues, queue{
			q.GetName(), q.GetParent(), amounts(q.GetQuota()), amounts(q.GetLimit()), q.GetOwners(),
			slices.Contains(reply.GetBarred(), q.GetName()),
		})
	}
	for _, u := range reply.GetUsage() {
		all.Usage = append(all.Usage, usage{
			Queue: u.GetQueue(), Use: u.GetInUse().GetMilliGpu(), Asked: u.GetWanted().GetMilliGpu(), Running: u.GetRunning(),
			Waiting: u.GetWaiting(), Held: u.GetHeld(), Oldest: u.GetOldestUnixMs(),
		})
	}
	return all
}

// logs sends the output of a task as text, and follows it on request.
func (p *Page) logs(w http.ResponseWriter, r *http.Request) {
	id, err := idOf(r, "id")
	rank, wrong := strconv.ParseInt(cmp.Or(r.URL.Query().Get("rank"), "0"), 10, 32)
	if err == nil && wrong != nil {
		err = &mistake{text: "rank is not a number"}
	}
	if err != nil {
		p.refuse(w, err)
		return
	}
	if !p.take() {
		http.Error(w, "too many pages are open: close one", http.StatusTooManyRequests)
		return
	}
	defer p.give()
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // as for the stream
	from, err := asked(r).ReadLogs(r.Context(), &api.ReadLogs{Job: id, Ranks: []int32{int32(rank)},
		Follow: r.URL.Query().Get("follow") != "", TailLines: tailLines})
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	for begun := false; ; begun = true {
		var part *api.LogPart
		if err == nil {
			part, err = from.Recv()
		}
		switch {
		case err == io.EOF:
			return
		case err != nil && !begun:
			p.refuse(w, err)
			return
		case err != nil:
			_, _ = fmt.Fprintf(w, "\n[%s]\n", p.words(err)) // the last text of this answer
			return
		}
		text := part.GetData()
		if notice := part.GetNotice(); notice != "" {
			text = fmt.Appendf(nil, "[%s]\n", notice)
		}
		_ = out.SetWriteDeadline(time.Now().Add(p.patience))
		if _, err := w.Write(text); err != nil || out.Flush() != nil {
			return
		}
	}
}

// tailLines is the number of lines with which a page starts.
const tailLines = 1_000
