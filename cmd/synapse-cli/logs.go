package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/cluster/api"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/client"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/jobfile"
	"github.com/yi-json/synapse/messages"
)

// This file owns `logs`, and how the output of many ranks is merged.

func (a *app) logsCommand() *cobra.Command {
	q := &api.ReadLogs{}
	tail, tailBytes := "", ""
	var labels []string
	c := &cobra.Command{
		Use:   "logs JOB [-f] [--rank N]...",
		Short: "show what a job's tasks wrote",
		Long:  "Shows what a job's tasks wrote, their errors with it. Lines of several ranks are labelled with the rank.",
		Example: "  synapse-cli logs -f JOB\n  synapse-cli logs --rank 0-3 --tail 20 JOB\n  synapse-cli logs --previous " +
			"JOB      # of the attempt before the latest",
		Args: oneJob(&labels),
		RunE: func(_ *cobra.Command, args []string) error {
			if q.Follow && q.Previous {
				return usageHint("an attempt that is over writes nothing more: leave -f out",
					"--follow and --previous cannot be combined")
			}
			if err := readTail(q, tail, tailBytes); err != nil {
				return err
			}
			return a.withJob(args, labels, func(ctx context.Context, c *client.Client, status *messages.JobStatus) error {
				return a.logs(ctx, c, q, status)
			})
		},
		ValidArgsFunction: a.completeJobs,
	}
	f := c.Flags()
	f.BoolVarP(&q.Follow, "follow", "f", false, "go on until the job is over")
	f.Var(rankList{&q.Ranks}, "rank", "only these `ranks`, as in 0-3,7")
	labelFlag(c, &labels, "the job that lives")
	f.BoolVar(&q.Previous, "previous", false, "of the attempt before the latest")
	f.StringVar(&tail, "tail", "", "only the last so many `lines` of each rank's output, and of its errors")
	f.StringVar(&tailBytes, "tail-bytes", "", "only the end of each, as in 64Ki")
	return c
}

// readTail takes the flags for the end of an output.
func readTail(q *api.ReadLogs, lines, size string) error {
	if lines != "" && size != "" {
		return usage("--tail and --tail-bytes cannot be combined")
	}
	if lines != "" {
		n, err := strconv.ParseInt(lines, 10, 32)
		if err != nil || n < 1 {
			return usageHint("--tail counts lines; --tail-bytes takes an amount", "--tail %q: is not a number of lines", lines)
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
	if status.GetRecord().GetSpec().GetArray() != nil {
		return a.logsOfAll(ctx, c, q, status.GetRecord().GetId())
	}
	q.Job = status.GetRecord().GetId()
	out := newMerged(a.stdout, len(q.GetRanks()) != 1 && severalRanks(status.GetRecord().GetSpec()))
	err := c.Logs(ctx, q, a.lost, func(p *api.LogPart) error {
		if p.GetNotice() != "" {
			a.notice(p)
			return nil
		}
		return out.part(p)
	})
	if flushed := out.flush(); err == nil {
		err = flushed
	}
	if r := status.GetRecord(); err == nil && out.none && over(status) &&
		r.GetState() != messages.JobState_JOB_STATE_SUCCEEDED {
		a.say("%s: nothing was written; %s", a.name, howItEnded(status))
	}
	return err
}

// logsOfAll prints the output of an array's elements, one after the other, each behind its id.
func (a *app) logsOfAll(ctx context.Context, c *client.Client, q *api.ReadLogs, array string) error {
	if q.GetFollow() {
		return usageHint("name one of its elements, as in `logs -f "+array+"_0`",
			"job %s is an array, of several outputs", array)
	}
	elements, err := c.Jobs(ctx, &messages.ListJobs{Array: array})
	if err != nil {
		return err
	}
	slices.SortFunc(elements, func(x, y *messages.JobStatus) int {
		return cmp.Compare(x.GetRecord().GetSpec().GetElement().GetIndex(), y.GetRecord().GetSpec().GetElement().GetIndex())
	})
	f := failures{a: a}
	for _, e := range elements {
		a.say("==> %s <==", e.GetRecord().GetId())
		each := proto.Clone(q).(*api.ReadLogs)
		f.note(a.logs(ctx, c, each, e))
	}
	return f.first
}

// notice prints a notice about an output, with its rank where it is about one.
func (a *app) notice(p *api.LogPart) {
	if p.GetAttempt() == nil {
		a.say("%s: %s", a.name, p.GetNotice())
		return
	}
	a.say("rank %d: %s", p.GetRank(), p.GetNotice())
}

// severalRanks reports whether a job's lines need labels. How a total is split is
// not known before it is placed, so its lines have them always.
func severalRanks(spec *messages.JobSpec) bool {
	return spec.GetGang().GetTotal() != nil || spec.GetGang().GetReplicasMin() > 1
}

// merged writes the output of several ranks without mixing their lines, each
// behind its rank. The beginning of an unfinished line is kept until its end comes. The output of a single rank is
// passed on as it is.
type merged struct {
	w       io.Writer
	labels  bool
	none    bool // nothing has come so far
	pending map[origin][]byte
	order   []origin // of what is pending
}

// origin is where a line comes from.
type origin struct {
	rank   int32
	stderr bool
}

// maxLine bounds what is kept of a line without an end.
const maxLine = 64 << 10

func newMerged(w io.Writer, labels bool) *merged {
	return &merged{w: w, labels: labels, none: true, pending: map[origin][]byte{}}
}

func (m *merged) part(p *api.LogPart) error {
	m.none = m.none && len(p.GetData()) == 0
	if !m.labels {
		_, err := m.w.Write(p.GetData())
		return err
	}
	from := origin{p.GetRank(), p.GetStderr()}
	held, known := m.pending[from]
	if !known {
		m.order = append(m.order, from)
	}
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

// lines writes whole lines.
func (m *merged) lines(from origin, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	var b bytes.Buffer
	for line := range bytes.Lines(data) {
		fmt.Fprintf(&b, "[%d] ", from.rank)
		b.Write(line)
	}
	_, err := m.w.Write(b.Bytes())
	return err
}

// flush writes unfinished lines, and ends them.
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
