package jobfile

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/renamed"
	"github.com/yi-json/synapse/messages/spelling"
	"github.com/yi-json/synapse/policy/share"
	placing "github.com/yi-json/synapse/topology"
)

// This file parses a queue file into policy.Queues. It uses the reader of job files, so that both report
// errors alike. Package policy validates the queue tree. This file adds the positions in the file to those
// errors.

// ParseQueues reads the queue file in data. If the file is invalid, the error is a Problems.
func ParseQueues(data []byte) (*share.Queues, error) {
	roots, problems := documents(data)
	if problems != nil {
		return nil, problems
	}
	if len(roots) > 1 {
		return nil, Problems{{roots[1].Line, roots[1].Column, "", "is a second document",
			"put all queues into one document"}}
	}
	r := &reader{file: queuesFile(), queues: &share.Queues{}, where: map[string]place{}}
	r.read(roots[0])
	if _, ok := r.where["@queues"]; !ok && r.problems == nil {
		r.refuse(roots[0], "queues", say("write [{name: research}]", "is missing"))
	}
	if r.problems == nil {
		for _, e := range r.queues.Check() {
			r.problems = append(r.problems, r.locateQueue(e))
		}
	}
	if r.problems != nil {
		return nil, r.problems[:min(len(r.problems), maxProblems)]
	}
	return r.queues, nil
}

// locateQueue finds the key that policy refuses. A value that is not in the file, such as a default of the
// parent queue, is reported at the nearest part that contains it.
func (r *reader) locateQueue(e *share.QueueError) *Problem {
	path := e.Key
	if e.Queue >= 0 {
		path = join(fmt.Sprintf("queues[%d]", e.Queue), e.Key)
	}
	p := &Problem{Path: path, Text: e.Text, Hint: e.Hint}
	if e.Words != nil {
		p.Hint = spelling.Meant(e.Word, e.Words)
	}
	for ; ; path = path[:max(strings.LastIndexByte(path, '.'), 0)] {
		if at, ok := r.where["@"+path]; ok || path == "" {
			p.Line, p.Column = at.line, at.column
			return p
		}
	}
}

// queuesFile returns the description of a queue file's keys.
func queuesFile() fileKind {
	word := func(string) {}
	return fileKind{"a file of queues", renamed.QueuesFile, "`apiVersion: synapse/v1` and `kind: Queues`", []section{
		{"", []key{
			{"apiVersion", "", oneOf("a supported version", []string{"synapse/v1"}, word)},
			{"kind", "", oneOf("the kind of this file", []string{"Queues"}, word)},
			{"revision", "", readRevision},
			{"default", "", queueName(func(r *reader) *string { return &r.queues.Default })},
			{"queues", "", readQueues},
			{"notAllowed", "", nil},
		}},
		{"queues[]", queueKeys()},
		{"queues[].timeLimit", []key{
			{"default", "", queueSpan(func(q *share.QueueSpec) **int64 { return &q.DefaultLimit })},
			{"max", "", queueSpan(func(q *share.QueueSpec) **int64 { return &q.MostLimit })},
		}},
		{"queues[].priority", []key{
			{"default", "", queuePriority(func(q *share.QueueSpec) **int32 { return &q.DefaultPriority })},
			{"max", "", queuePriority(func(q *share.QueueSpec) **int32 { return &q.MostPriority })},
		}},
		{"queues[].preemption", []key{
			{"byPriority", "", queueSwitch(func(q *share.QueueSpec) **bool { return &q.Preemption.ByPriority })},
			{"reclaim", "", queueSwitch(func(q *share.QueueSpec) **bool { return &q.Preemption.Reclaim })},
			{"shortest", "", queueSwitch(func(q *share.QueueSpec) **bool { return &q.Preemption.Shortest })},
			{"minRuntime", "", queueSpan(func(q *share.QueueSpec) **int64 { return &q.Preemption.MinRun })},
			{"maxGrace", "", queueSpan(func(q *share.QueueSpec) **int64 { return &q.Preemption.MostGrace })},
		}},
		{"queues[].idle", []key{
			{"after", "", queueSpan(func(q *share.QueueSpec) **int64 { return &q.Idle.After })},
			{"then", "", readIdleThen},
		}},
	}}
}

func queueKeys() []key {
	return []key{
		{"name", "", queueName(func(r *reader) *string { return &r.queue.Name })},
		{"parent", "", queueName(func(r *reader) *string { return &r.queue.Parent })},
		{"quota", "", queueAmounts(func(q *share.QueueSpec) *share.Amounts { return &q.Quota })},
		{"limit", "", queueAmounts(func(q *share.QueueSpec) *share.Amounts { return &q.Limit })},
		{"weight", "", queueNumber(func(q *share.QueueSpec) **int64 { return &q.Weight })},
		{"order", "", readOrder},
		{"timeLimit", "", readSection},
		{"nodeSelector", "", readSelector},
		{"perOwner", "", readPerOwner},
		{"priority", "", readSection},
		{"preemption", "", readSection},
		{"idle", "", readSection},
		{"owners", "", readOwners},
	}
}

func readRevision(r *reader, n *yaml.Node, path string) {
	if count, ok := r.number(n, path, 64); ok && count < 0 {
		r.refuse(n, path, say("copy it from `get queues -o yaml`, or omit it", "must not be negative"))
	} else if ok {
		r.queues.Revision = uint64(count)
	}
}

func readQueues(r *reader, n *yaml.Node, path string) {
	if n.Kind != yaml.SequenceNode {
		r.refuse(n, path, say("write [{name: research}]", "is %s and must be a list", kindOf(n)))
		return
	}
	for i, part := range n.Content {
		if r.full() {
			return
		}
		r.queue = &share.QueueSpec{}
		readSection(r, part, fmt.Sprintf("%s[%d]", path, i))
		r.queues.Queues = append(r.queues.Queues, *r.queue)
	}
}

// queueName reads the name of a queue.
func queueName(to func(*reader) *string) read {
	return func(r *reader, n *yaml.Node, path string) {
		if s, ok := r.name(n, path); ok {
			*to(r) = s
		}
	}
}

func queueNumber(to func(*share.QueueSpec) **int64) read {
	return func(r *reader, n *yaml.Node, path string) {
		if count, ok := r.number(n, path, 64); ok {
			*to(r.queue) = &count
		}
	}
}

func queuePriority(to func(*share.QueueSpec) **int32) read {
	return func(r *reader, n *yaml.Node, path string) {
		if count, ok := r.number(n, path, 32); ok {
			priority := int32(count)
			*to(r.queue) = &priority
		}
	}
}

func queueSwitch(to func(*share.QueueSpec) **bool) read {
	return func(r *reader, n *yaml.Node, path string) {
		on := r.boolean(n, path)
		*to(r.queue) = &on
	}
}

// queueSpan reads a duration, which policy counts in nanoseconds.
func queueSpan(to func(*share.QueueSpec) **int64) read {
	return func(r *reader, n *yaml.Node, path string) {
		s, ok := r.scalar(n, path, "a duration")
		if !ok {
			return
		}
		ms, err := ParseDuration(s)
		if err == nil && ms > messages.MaxDurationMs {
			err = say("", "%s is more than %s", quote(s), FormatDuration(messages.MaxDurationMs))
		}
		if err != nil {
			r.refuse(n, path, err.(*Problem))
			return
		}
		ns := ms * nsOfMs
		*to(r.queue) = &ns
	}
}

const nsOfMs = 1_000_000

// orders maps the words for the job orders of a queue.
var orders = map[string]share.Order{"expected": share.Expected, "fifo": share.FIFO, "fair": share.Fair}

func readOrder(r *reader, n *yaml.Node, path string) {
	oneOf("an order of jobs", []string{"expected", "fifo", "fair"}, func(word string) {
		order := orders[word]
		r.queue.Order = &order
	})(r, n, path)
}

// idleActions lists the words for what happens to idle jobs. The index of a word is its share.IdleAction.
var idleActions = []string{"report", "signal"}

func readIdleThen(r *reader, n *yaml.Node, path string) {
	oneOf("an action for idle jobs", idleActions, func(word string) {
		then := share.IdleAction(slices.Index(idleActions, word))
		r.queue.Idle.Then = &then
	})(r, n, path)
}

func readSelector(r *reader, n *yaml.Node, path string) {
	r.pairs(n, path, path, func(key, value string) {
		r.queue.Selector = append(r.queue.Selector, placing.Label{Key: key, Value: value})
	})
	slices.SortFunc(r.queue.Selector, func(a, b placing.Label) int { return strings.Compare(a.Key, b.Key) })
}

// queueAmounts reads amounts, each at most once.
func queueAmounts(to func(*share.QueueSpec) *share.Amounts) read {
	return func(r *reader, n *yaml.Node, path string) { r.amounts(n, path, to(r.queue), nil) }
}

func readPerOwner(r *reader, n *yaml.Node, path string) {
	o := &r.queue.Owner
	r.amounts(n, path, &o.Amounts, []counted{{"nodes", &o.Machines}, {"running", &o.Running}, {"waiting", &o.Waiting}})
}

// readOwners reads the owners that may use a queue. An empty list would exclude everyone except admins. It is
// refused, because a user who writes one usually intends to add names later.
func readOwners(r *reader, n *yaml.Node, path string) {
	const hint = "write [ann, \"group:ml\"], or omit it to allow all users"
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		r.refuse(n, path, say(hint, "is empty"))
		return
	}
	r.list(n, path, path, hint, func(part *yaml.Node, path, _ string) {
		if entry, ok := r.scalar(part, path, "a name, or group:NAME"); ok {
			r.where["@"+path] = placeOf(path, part)
			r.queue.Owners = append(r.queue.Owners, entry)
		}
	})
}

// counted is an amount whose name is not fixed.
type counted struct {
	name string
	to   **int64
}

// amounts reads {gpu: 64, h100: 8, cpu: 512, memory: 4Ti}. Every name that is not fixed is a GPU type,
// because this package does not know the types of a cluster.
func (r *reader) amounts(n *yaml.Node, path string, to *share.Amounts, others []counted) {
	if n.Kind != yaml.MappingNode {
		r.refuse(n, path, say("write {gpu: 64}", "is %s and must be a mapping of amounts", kindOf(n)))
		return
	}
	var all share.Amounts // amounts without a name in the file stay unset
	for i := 0; i+1 < len(n.Content) && !r.full(); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := join(path, quoteOdd(key.Value))
		r.where["@"+at] = placeOf(at, value)
		if o := slices.IndexFunc(others, func(c counted) bool { return c.name == key.Value }); o >= 0 {
			if count, ok := r.number(value, at, 64); ok {
				*others[o].to = &count
			}
			continue
		}
		if now, is := renamed.Key(r.file.table, at); is {
			r.refuse(key, at, say("use "+now, "is not a key of %s", r.file.name))
			continue
		}
		if amount, ok := r.amount(key, value, at, others); ok {
			all = append(all, share.Amount{Name: key.Value, Amount: amount})
		}
	}
	slices.SortFunc(all, func(a, b share.Amount) int { return strings.Compare(a.Name, b.Name) })
	*to = all
}

// amount reads one amount.
func (r *reader) amount(key, n *yaml.Node, path string, others []counted) (int64, bool) {
	parse := ParseGPU
	switch key.Value {
	case share.AmountCPU:
		parse = ParseCPU
	case share.AmountMemory:
		parse = ParseMemory
	case share.AmountGPU:
	default:
		words := []string{share.AmountGPU, share.AmountCPU, share.AmountMemory}
		for _, o := range others {
			words = append(words, o.name)
		}
		near := spelling.Nearest(key.Value, words)
		if near != "" || key.Value == "" || len(key.Value) > messages.MaxNameBytes {
			r.refuse(key, path, say(spelling.Meant(key.Value, words), "is neither an amount nor a GPU type"))
			return 0, false
		}
	}
	s, ok := r.scalar(n, path, "an amount")
	if !ok {
		return 0, false
	}
	amount, err := parse(s)
	if err != nil {
		r.refuse(n, path, err.(*Problem))
		return 0, false
	}
	return amount, true
}
