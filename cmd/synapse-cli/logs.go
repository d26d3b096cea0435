package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file implements `logs`, and merges the output of several ranks.

func (a *app) logsCommand() *cobra.Command {
	q := &api.ReadLogs{}
	tail, tailBytes, since := "", "", ""
	var labels []string
	c := &cobra.Command{
		Use:   "logs JOB [-f] [--rank N]...",
		Short: "show the output of a job",
		Long: "Shows standard output and standard error of a job's tasks. If there are several ranks, each line is\n" +
			"labelled with its rank. Lines of an array are labelled with the index of the element, such as [17].\n" +
			"If elements have several ranks, the label also has the rank, such as [17.3].\n\n" +
			"Nodes store the times of the output. A task that an earlier version of the agent started has no times:\n" +
			"--timestamps then prints -, and --since shows all its lines.",
		Example: "  synapse-cli logs -f JOB\n  synapse-cli logs --rank 0-3 --tail 20 JOB\n  synapse-cli logs --previous " +
			"JOB      # the attempt before the latest",
		Args: oneJob(&labels),
		RunE: func(_ *cobra.Command, args []string) error {
			if q.Follow && q.Previous {
				return exit.Hint("omit -f: an ended attempt writes no more output",
					"--follow and --previous cannot be combined")
			}
			if err := readTail(q, tail, tailBytes); err != nil {
				return err
			}
			var err error
			if a.timing.sinceMs, err = moment("since", since, a.style.NowMs); err != nil {
				return err
			}
			q.Times, a.timing.zone = a.timing.asked(), a.style.Zone
			return a.withJob(args, labels, func(ctx context.Context, c *client.Client, status *messages.JobStatus) error {
				return a.logs(ctx, c, q, status)
			})
		},
		ValidArgsFunction: a.completeJobs,
	}
	f := c.Flags()
	f.BoolVarP(&q.Follow, "follow", "f", false, "continue to show new output until the job ends")
	f.Var(rankList{&q.Ranks}, "rank", "show only these `ranks`, such as 0-3,7")
	labelFlag(c, &labels, "the unfinished job")
	f.BoolVar(&a.timing.print, "timestamps", false,
		"print the time of each line, which may be one second too early")
	f.StringVar(&since, "since", "", "show only lines since this `time`: 10m, 24h, 2026-11-01 or 2026-11-01T08:00:00Z")
	f.BoolVar(&a.prefixed, "prefix", false, "label each line with the name of the job and the rank, such as [train/0]")
	f.BoolVar(&q.Previous, "previous", false, "show the attempt before the latest")
	f.StringVar(&tail, "tail", "", "show only the last `N` lines of each rank's standard output and standard error")
	f.StringVar(&tailBytes, "tail-bytes", "", "show only the last part of each stream, of this `size`, such as 64Ki")
	return c
}

// readTail parses the flags for the end of an output.
func readTail(q *api.ReadLogs, lines, size string) error {
	if lines != "" && size != "" {
		return exit.Usage("--tail and --tail-bytes cannot be combined")
	}
	if lines != "" {
		n, err := strconv.ParseInt(lines, 10, 32)
		if err != nil || n < 1 {
			return exit.Hint("use --tail for a number of lines, --tail-bytes for a size",
				"--tail %q: must be a number of lines", lines)
		}
		q.TailLines = int32(n)
	}
	if size != "" {
		n, err := jobfile.ParseMemory(size)
		if err != nil {
			return flagProblem("tail-bytes", err)
		}
		q.TailBytes = n
	}
	return nil
}

func (a *app) logs(ctx context.Context, c *client.Client, q *api.ReadLogs, status *messages.JobStatus) error {
	r := status.GetRecord()
	if r.GetSpec().GetArray() != nil {
		return a.logsOfAll(ctx, c, q, status, a.lost, a.stdout, a.stdout)
	}
	if r.GetRevision() == 0 && r.GetSpec().GetElement() != nil && !over(status) { // only the array's record knows it
		a.say("%s: %s has not been submitted as a job yet: %s", a.name, r.GetId(), a.local(status.GetReason()))
		if !q.GetFollow() {
			return nil
		}
	}
	q.Job = r.GetId()
	p := a.printer(a.stdout, a.stdout, len(q.GetRanks()) != 1 && severalRanks(r.GetSpec()))
	p.prefix(r.GetSpec())
	err := p.read(ctx, c, q, a.lost)
	if err == nil && p.none() {
		a.sayNothing(status)
	}
	return err
}

// sayNothing prints how a job without output ended, unless it succeeded.
func (a *app) sayNothing(j *messages.JobStatus) {
	if over(j) && j.GetRecord().GetState() != messages.JobState_JOB_STATE_SUCCEEDED {
		a.say("%s: no output was written; %s", a.name, howItEnded(j))
	}
}

// printer prints the output of one job's tasks. errs receives stderr, and may be the same stream as out.
type printer struct {
	a         *app
	out, errs *merged
	element   string // element ID, if several elements are printed
}

func (a *app) printer(out, errs io.Writer, labels bool) *printer {
	p := &printer{a: a, out: newMerged(out, labels)}
	if p.errs = p.out; errs != out {
		p.errs = newMerged(errs, labels)
	}
	return p
}

// prefix adds the name of the job to the labels if --prefix is set. Each line then has a label. It also applies
// --timestamps and --since.
func (p *printer) prefix(spec *messages.JobSpec) {
	p.out.timing, p.errs.timing = p.a.timing, p.a.timing
	if !p.a.prefixed {
		return
	}
	for _, m := range []*merged{p.out, p.errs} {
		m.labels, m.job = true, spec.Called()
	}
}

// read prints the output until it ends.
func (p *printer) read(ctx context.Context, c *client.Client, q *api.ReadLogs, lost func(error)) error {
	err := c.Logs(ctx, q, lost, p.part)
	for _, m := range []*merged{p.out, p.errs} {
		if flushed := m.flush(); err == nil {
			err = flushed
		}
	}
	return err
}

func (p *printer) part(part *api.LogPart) error {
	switch {
	case part.GetNotice() != "":
		p.notice(part)
		return nil
	case part.GetStderr():
		return p.errs.part(part)
	}
	return p.out.part(part)
}

// none reports whether nothing was printed.
func (p *printer) none() bool { return p.out.none && p.errs.none }

// notice prints a text about an output, with its rank if it concerns one.
func (p *printer) notice(part *api.LogPart) {
	about := p.a.name
	if part.GetAttempt() != nil {
		about = fmt.Sprintf("rank %d", part.GetRank())
	}
	switch {
	case p.element == "":
		p.a.say("%s: %s", about, part.GetNotice())
	case part.GetAttempt() != nil: // elements that have not started are not reported
		p.a.say("%s: %s: %s", p.element, about, part.GetNotice())
	}
}

// severalRanks reports whether the lines of a job need labels. The split of a total is unknown before the
// placement, so such a job always has labels.
func severalRanks(spec *messages.JobSpec) bool {
	return spec.GetGang().GetTotal() != nil || spec.GetGang().GetReplicasMin() > 1
}

// merged prints the output of several ranks without mixing their lines. Each line has a label with its rank, and
// for an element of an array with its index. An incomplete line is kept until it is complete. The output of a job
// with a single rank is passed on unchanged.
type merged struct {
	w       io.Writer
	labels  bool
	index   string // of an element; empty: not an element
	job     string // name of the job, with --prefix
	none    bool   // no output so far
	pending map[origin][]byte
	order   []origin // order of pending
	timing  timing
	clocks  map[origin]*clock
}

// origin identifies the source of a line.
type origin struct {
	rank   int32
	stderr bool
}

// maxLine limits the stored part of an incomplete line.
const maxLine = 64 << 10

func newMerged(w io.Writer, labels bool) *merged {
	return &merged{w: w, labels: labels, none: true, pending: map[origin][]byte{}, clocks: map[origin]*clock{}}
}

func (m *merged) part(p *api.LogPart) error {
	m.none = m.none && len(p.GetData()) == 0
	if !m.labels && m.index == "" && !m.timing.asked() {
		_, err := m.w.Write(p.GetData())
		return err
	}
	from := origin{p.GetRank(), p.GetStderr()}
	held, known := m.pending[from]
	if !known {
		m.order = append(m.order, from)
		m.clocks[from] = &clock{}
	}
	m.clocks[from].note(p, len(held))
	held = append(held, p.GetData()...)
	end := bytes.LastIndexByte(held, '\n') + 1
	if end == 0 && len(held) > maxLine {
		held = append(held, '\n')
		end = len(held)
	}
	err := m.lines(from, held[:end])
	m.pending[from] = append(held[:0], held[end:]...)
	return err
}

// lines prints complete lines.
func (m *merged) lines(from origin, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	label := m.index
	if m.labels && label != "" {
		label += "."
	}
	if m.labels {
		label += strconv.Itoa(int(from.rank))
	}
	if m.job != "" {
		label = m.job + "/" + label
	}
	var b bytes.Buffer
	for line := range bytes.Lines(data) {
		stamp, shown := m.timing.stamped(m.clocks[from].line(len(line)))
		if !shown {
			continue
		}
		if label != "" {
			fmt.Fprintf(&b, "[%s] ", label)
		}
		b.WriteString(stamp)
		b.Write(line)
	}
	_, err := m.w.Write(b.Bytes())
	return err
}

// flush prints and ends incomplete lines.
func (m *merged) flush() error {
	for _, from := range m.order {
		if rest := m.pending[from]; len(rest) > 0 {
			if err := m.lines(from, append(rest, '\n')); err != nil {
				return err
			}
		}
		m.pending[from] = nil
	}
	return nil
}
