package gateway

import (
	"bytes"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/topology"
)

// This file reads one output stream of one task: its pages, lines and end.

const (
	pageBytes = 256 << 10
	// maxLineBytes limits the length of a line that is sent in one part.
	maxLineBytes = 256 << 10
	// maxPartBytes limits the size of one part.
	maxPartBytes = 1 << 20
	// machinePatience limits how long a node may take to answer.
	machinePatience = 5 * time.Second
	// maxSearches limits the steps of the search for the end of an output.
	maxSearches = 64
	// maxTailPages limits how long the tail follows a task that writes faster than it is read.
	maxTailPages = 256
)

// output is a stream that is being read.
type output struct {
	r       *reader
	attempt *messages.Token
	rank    int32
	node    topology.NodeID
	stderr  bool

	offset int64 // of the next page
	times  []*messages.LogTime
	line   []byte    // start of an incomplete line
	exited bool      // the task has ended
	over   bool      // all was read
	missed bool      // a notice was sent, and no output has arrived since then
	silent time.Time // start of the wait for the rest of the output
}

// page is a pending request for a page.
type page struct {
	r      *reader
	task   *messages.TaskId
	offset int64
	limit  int64
	answer reply
	done   func()
}

func (o *output) ask(offset, limit int64) *page {
	p := &page{
		r: o.r, task: &messages.TaskId{Token: o.attempt, Rank: o.rank}, offset: offset, limit: limit,
		answer: make(reply, 1), done: func() {},
	}
	if o.r.g.o.Peers == nil {
		p.answer.take(&actor.DeadLetterResponse{})
		return p
	}
	to := o.r.g.o.Peers.Node(o.node)
	pid, done := o.r.g.open(p.answer)
	p.done = done
	o.r.g.system.Root.RequestWithCustomSender(actor.NewPID(to.Address, actors.NodePath),
		&messages.LogsTask{Id: p.task, Stderr: o.stderr, Offset: offset, LimitBytes: limit, Times: o.r.q.GetTimes()}, pid)
	return p
}

// wait waits for the answer. It returns false if no answer, or a wrong one, arrived in time.
func (p *page) wait(deadline <-chan time.Time) (*messages.TaskLogs, bool) {
	var got any
	select {
	case got = <-p.answer: // takes an available answer even after the deadline
	default:
		select {
		case got = <-p.answer:
		case <-deadline:
		case <-p.r.ctx.Done():
		case <-p.r.g.closed:
		}
	}
	l, ok := got.(*messages.TaskLogs)
	same := ok && l.GetId().GetRank() == p.task.Rank &&
		messages.FromToken(l.GetId().GetToken()) == messages.FromToken(p.task.Token)
	if !same || l.Offset < p.offset && len(l.Data) > 0 || int64(len(l.Data)) > p.limit {
		return nil, false
	}
	return l, true
}

// page requests the next page and waits. It skips a node that has just failed to answer, because each of its tasks
// would wait again.
func (o *output) page() (*messages.TaskLogs, bool) {
	if o.r.isDeaf(o) {
		return nil, false
	}
	p := o.ask(o.offset, pageBytes)
	defer p.done()
	return p.wait(o.r.g.o.Clock.After(machinePatience))
}

// take sends the lines of a page, and reports whether more output is available.
func (o *output) take(l *messages.TaskLogs) (more bool, err error) {
	o.missed, o.silent = false, time.Time{}
	if len(l.Data) == 0 {
		return false, nil
	}
	if lost := l.Offset - o.offset; lost > 0 {
		if err := o.flush(); err != nil {
			return false, err
		}
		text := fmt.Sprintf("%d bytes are missing: node %s keeps only the newest part of long output", lost, o.node)
		if err := o.notice(text); err != nil {
			return false, err
		}
	}
	o.noteTimes(l.Times)
	o.offset = l.Offset + int64(len(l.Data))
	whole := bytes.LastIndexByte(l.Data, '\n') + 1
	if whole == 0 && len(o.line)+len(l.Data) > maxLineBytes {
		whole = len(l.Data)
	}
	if whole > 0 {
		if err := o.part(append(o.line, l.Data[:whole]...), l.Offset+int64(whole)); err != nil {
			return false, err
		}
		o.line = nil
	}
	o.line = append(o.line, l.Data[whole:]...)
	return !l.End, nil
}

// flush sends an incomplete line.
func (o *output) flush() error {
	if len(o.line) == 0 {
		return nil
	}
	line := o.line
	o.line = nil
	return o.part(line, o.offset)
}

// part sends data that ends at the offset end, in parts that fit into a message.
func (o *output) part(data []byte, end int64) error {
	for len(data) > 0 {
		cut := len(data)
		if cut > maxPartBytes {
			cut = bytes.LastIndexByte(data[:maxPartBytes], '\n') + 1
			if cut == 0 {
				cut = maxPartBytes
			}
		}
		begin := end - int64(len(data))
		if err := o.r.send(&api.LogPart{
			Rank: o.rank, Attempt: o.attempt, Stderr: o.stderr, Data: data[:cut], Offset: begin + int64(cut),
			Times: o.timesOf(begin, begin+int64(cut)),
		}); err != nil {
			return err
		}
		data = data[cut:]
	}
	return nil
}

func (o *output) notice(text string) error {
	return o.r.send(&api.LogPart{Rank: o.rank, Attempt: o.attempt, Stderr: o.stderr, Notice: text})
}

// unheard marks a node as unresponsive for a while, and reports once per task that its output cannot be read.
func (o *output) unheard() error {
	if o.r.ctx.Err() != nil {
		return lapsed(o.r.ctx.Err())
	}
	select {
	case <-o.r.g.closed:
		return api.StatusOf(closing())
	default:
	}
	if !o.r.isDeaf(o) {
		o.r.deaf[o.node] = o.r.g.o.Clock.Now()
	}
	told := o.missed
	for _, other := range o.r.outputs {
		if other.node == o.node && other.rank == o.rank {
			told = told || other.missed
			other.missed = true
		}
	}
	if told {
		return nil
	}
	return o.notice("node " + string(o.node) + " does not answer: this output cannot be read now")
}

// givenUp reports whether the wait for the end of a task's output has reached its limit.
func (o *output) givenUp() bool {
	now := o.r.g.o.Clock.Now()
	if o.silent.IsZero() {
		o.silent = now
	}
	return now.Sub(o.silent) >= lastWait
}

// leave ends the reading of a stream, and reports once per task that its end is missing.
func (o *output) leave() error {
	told := false
	for _, other := range o.r.outputs {
		told = told || other.over && other.missed && other.rank == o.rank
	}
	o.over, o.missed = true, true
	if told {
		return nil
	}
	if err := o.flush(); err != nil {
		return err
	}
	text := "end of the output is missing: node " + string(o.node) + " has not answered for " + lastWait.String()
	return o.r.send(&api.LogPart{Rank: o.rank, Attempt: o.attempt, Notice: text, Missing: true})
}

// tail moves to the last bytes of a stream. The length is unknown, so tail tests whether a byte exists at an
// offset. It first doubles the step and then bisects, until the remaining range is about as large as the requested
// tail.
func (o *output) tail(bytesWanted int64) error {
	begin, ok, err := o.probe(0)
	if err != nil || !ok {
		return err
	}
	near := max(bytesWanted, pageBytes)
	last, beyond := begin, begin+near // there is a byte at last, and if bounded, none at beyond
	bounded := false
	for range maxSearches {
		if bounded && beyond-last <= near {
			break
		}
		middle := beyond
		if bounded {
			middle = last + (beyond-last)/2
		}
		at, ok, err := o.probe(middle)
		switch {
		case err != nil:
			return err
		case ok:
			last = at
		default:
			beyond, bounded = middle, true
		}
		if !bounded {
			beyond = last + 2*(last-begin)
			beyond = max(beyond, last+near)
		}
	}
	if lines := int(o.r.q.TailLines); lines > 0 {
		return o.readLines(last, begin, lines)
	}
	kept, cut, err := o.readTail(max(begin, last-bytesWanted), begin, bytesWanted)
	if at := bytes.IndexByte(kept, '\n'); cut && at >= 0 && at+1 < len(kept) {
		kept = kept[at+1:]
	}
	return o.tailed(kept, err)
}

// probe reports whether a byte exists at an offset, or after it if the earlier output was discarded.
func (o *output) probe(offset int64) (at int64, ok bool, err error) {
	if o.r.isDeaf(o) {
		o.over = !o.r.q.Follow
		return 0, false, o.unheard()
	}
	p := o.ask(offset, 1)
	defer p.done()
	got, answered := p.wait(o.r.g.o.Clock.After(machinePatience))
	if !answered {
		o.over = !o.r.q.Follow
		return 0, false, o.unheard()
	}
	return got.Offset, len(got.Data) > 0, nil
}

// readTail reads to the end and keeps the last bytes. cut reports whether earlier bytes exist.
func (o *output) readTail(from, begin, bytesWanted int64) (kept []byte, cut bool, err error) {
	cut = from > begin
	o.offset = from
	for range maxTailPages {
		got, answered := o.page()
		if !answered {
			return kept, cut, o.unheard()
		}
		if len(got.Data) == 0 {
			break
		}
		kept = append(kept, got.Data...)
		o.offset = got.Offset + int64(len(got.Data))
		if over := int64(len(kept)) - bytesWanted; over > 0 {
			kept, cut = kept[over:], true
		}
		if got.End {
			break
		}
	}
	return kept, cut, nil
}

// readLines searches for the last lines in growing parts of the end.
func (o *output) readLines(last, begin int64, lines int) error {
	for window := int64(pageBytes); ; window *= 8 {
		kept, cut, err := o.readTail(max(begin, last-window), begin, maxTailPages*pageBytes)
		at := lastLines(kept, lines)
		if err != nil || at > 0 || !cut || window >= maxTailPages*pageBytes {
			return o.tailed(kept[max(at, 0):], err)
		}
	}
}

// lastLines returns the start of the last lines, or 0 if the text has no more lines.
func lastLines(text []byte, lines int) int {
	at := len(bytes.TrimSuffix(text, []byte("\n")))
	for ; lines > 0 && at >= 0; lines-- {
		at = bytes.LastIndexByte(text[:at], '\n')
	}
	return at + 1
}

// tailed sends the tail of a stream. An incomplete line is completed by the next page, or flushed.
func (o *output) tailed(kept []byte, err error) error {
	whole := bytes.LastIndexByte(kept, '\n') + 1
	o.line = bytes.Clone(kept[whole:])
	if err != nil {
		return err
	}
	return o.part(kept[:whole], o.offset-int64(len(o.line)))
}
