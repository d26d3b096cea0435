package show

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/queues"
	"github.com/yi-json/synapse/policy/share"
)

// This file prints configured queues: their quotas, and the usage of their jobs including descendants.

// branch is one queue.
type branch struct {
	spec   *share.QueueSpec // nil: the queue is closed
	name   string
	parent *branch
	barred bool // for the caller
	usage  *messages.QueueUsage
	share  int64 // share of borrowed resources among its siblings, in thousandths
	now    int64
}

var branchColumns = []column[*branch]{
	{head: "QUEUE", cell: func(b *branch) string { return orDash(b.name) }},
	{head: "QUOTA", right: true, cell: func(b *branch) string { return b.quota() }},
	{head: "USE", right: true, cell: func(b *branch) string { return milli(b.usage.GetInUse().GetMilliGpu()) }},
	{head: "SHARE", right: true, cell: func(b *branch) string { return b.part() }},
	{head: "BORROWED", right: true, cell: func(b *branch) string { return b.borrowed() }},
	{head: "WAITING", right: true, cell: func(b *branch) string { return fmt.Sprint(b.usage.GetWaiting()) }},
	{head: "LIMIT", wide: true, right: true, cell: func(b *branch) string { return b.amounts(limitOf) }},
	{head: "RUNNING", wide: true, right: true, cell: func(b *branch) string { return fmt.Sprint(b.usage.GetRunning()) }},
	{head: "HELD", wide: true, right: true, cell: func(b *branch) string { return fmt.Sprint(b.usage.GetHeld()) }},
	{head: "LONGEST WAIT", wide: true, right: true, cell: func(b *branch) string {
		return age(b.usage.GetOldestUnixMs(), b.now)
	}},
}

// mayUse is the column that is printed if the caller may not use some queue.
var mayUse = column[*branch]{head: "ALLOWED", cell: func(b *branch) string {
	switch {
	case b.spec == nil:
		return "-"
	case b.barred:
		return "no"
	}
	return "yes"
}}

func quotaOf(q *share.QueueSpec) share.Amounts { return q.Quota }
func limitOf(q *share.QueueSpec) share.Amounts { return q.Limit }

func (b *branch) quota() string {
	if b.spec == nil {
		return "closed"
	}
	return b.amounts(quotaOf)
}

// amounts formats the amounts of a queue. If GPUs are the only kind, it omits their name.
func (b *branch) amounts(of func(*share.QueueSpec) share.Amounts) string {
	if b.spec == nil {
		return "-"
	}
	list := of(b.spec)
	if n, ok := list.Of(share.AmountGPU); ok {
		return milli(n)
	}
	var words []string
	for _, a := range list {
		words = append(words, a.Name+" "+amountWord(a))
	}
	return orDash(strings.Join(words, ", "))
}

func amountWord(a share.Amount) string {
	if a.Name == share.AmountMemory {
		return size(a.Amount)
	}
	return milli(a.Amount)
}

func (b *branch) part() string {
	if b.spec == nil {
		return "-"
	}
	return fmt.Sprintf("%d%%", (b.share+5)/10)
}

func (b *branch) borrowed() string {
	if b.spec == nil {
		return milli(b.usage.GetInUse().GetMilliGpu())
	}
	quota, ok := b.spec.Quota.Of(share.AmountGPU)
	if !ok {
		return "-"
	}
	return milli(max(b.usage.GetInUse().GetMilliGpu()-quota, 0))
}

// branches returns the queues in the order of the configuration, and then the closed ones.
func branches(tree *share.Queues, reply *messages.GetQueuesReply, nowMs int64) []*branch {
	named := map[string]*branch{}
	var all []*branch
	add := func(name string, spec *share.QueueSpec) *branch {
		b := &branch{name: name, spec: spec, now: nowMs, barred: slices.Contains(reply.GetBarred(), name)}
		named[name] = b
		all = append(all, b)
		return b
	}
	for i := range tree.Queues {
		add(tree.Queues[i].Name, &tree.Queues[i])
	}
	for _, b := range all {
		b.parent = named[b.spec.Parent]
	}
	weigh(all)
	for _, u := range reply.GetUsage() {
		b := named[u.GetQueue()]
		if b == nil {
			b = add(u.GetQueue(), nil)
		}
		b.usage = u
	}
	return all
}

// weigh computes the share of borrowed resources that each queue gets among its siblings. A queue without a weight
// inherits its parent's.
func weigh(all []*branch) {
	weight := func(b *branch) int64 {
		for ; b != nil; b = b.parent {
			if b.spec.Weight != nil {
				return *b.spec.Weight
			}
		}
		return 1
	}
	sums := map[*branch]int64{}
	for _, b := range all {
		sums[b.parent] += weight(b)
	}
	for _, b := range all {
		b.share = weight(b) * 1000 / sums[b.parent]
	}
}

// Tree prints configured queues with their usage. The JSON and YAML formats are files that can be applied again.
func Tree(w io.Writer, s Style, reply *messages.GetQueuesReply) error {
	tree := queues.From(reply.GetQueues(), reply.GetRevision())
	file := jobfile.FormatQueues(tree)
	file.Barred = reply.GetBarred()
	switch {
	case s.Format == "json" || s.isJSONPath():
		return document(w, s.Format, file)
	case s.isTemplate():
		return customTable(w, s, each(file.Queues, func(q jobfile.QueueFile) any { return q }))
	case s.Format == "yaml":
		text, err := yaml.Marshal(file)
		if err == nil {
			_, err = w.Write(text)
		}
		return err
	}
	all := branches(tree, reply, s.NowMs)
	if s.names() {
		return ids(w, all, func(b *branch) string { return orDash(b.name) })
	}
	columns := slices.Clone(branchColumns)
	if len(file.Barred) > 0 {
		columns = append(columns, mayUse)
	}
	return table(w, s, columns, all)
}

// DescribeQueue prints everything that is known about one queue.
func DescribeQueue(w io.Writer, s Style, name string, reply *messages.GetQueuesReply) error {
	tree := queues.From(reply.GetQueues(), reply.GetRevision())
	all := branches(tree, reply, s.NowMs)
	at := slices.IndexFunc(all, func(b *branch) bool { return b.name == name })
	if at < 0 {
		return fmt.Errorf("unknown queue %q", name)
	}
	b := all[at]
	p := &page{w: w, s: s}
	p.line("Queue", b.name)
	if b.spec == nil {
		p.line("Closed", "the queue accepts no new jobs; its queued jobs can start without a quota")
	} else {
		p.spec(b, tree)
	}
	p.line("Share", b.part()+" of the resources that the queue and its siblings borrow")
	p.line("Use", b.uses())
	p.line("Jobs", fmt.Sprintf("%d running, %d waiting, %d held", b.usage.GetRunning(), b.usage.GetWaiting(),
		b.usage.GetHeld()))
	if at := b.usage.GetOldestUnixMs(); at > 0 {
		p.line("Longest wait", age(at, s.NowMs))
	}
	by := cmp.Or(reply.GetApplied().GetBy().GetName(), "nobody")
	p.timed("Applied", strings.TrimSuffix(fmt.Sprintf("revision %d, by %s, %s", reply.GetRevision(), by,
		when(reply.GetApplied().GetAtUnixMs(), s.NowMs)), ", "))
	return p.err
}

// uses formats the usage of a queue including its descendants.
func (b *branch) uses() string {
	u := b.usage.GetInUse()
	return fmt.Sprintf("%s %s, %s %s, %s %s", share.AmountGPU, milli(u.GetMilliGpu()), share.AmountCPU,
		milli(u.GetMilliCpu()), share.AmountMemory, size(u.GetMemoryBytes()))
}

// spec prints the configuration of a queue, key by key.
func (p *page) spec(b *branch, tree *share.Queues) {
	if tree.Default == b.name {
		p.line("Default", "used by jobs without a queue")
	}
	one := jobfile.FormatQueues(&share.Queues{Queues: []share.QueueSpec{*b.spec}}).Queues[0]
	var node yaml.Node
	if p.err = cmp.Or(p.err, node.Encode(one)); p.err != nil {
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i].Value, node.Content[i+1]
		if key == "name" || key == "owners" {
			continue
		}
		text, err := yaml.Marshal(value)
		p.err = cmp.Or(p.err, err)
		p.line(strings.ToUpper(key[:1])+key[1:], string(text))
	}
	p.line("Owners", b.owners())
	if b.barred {
		p.line("Allowed", "no: you are not in one of these lists")
	}
}

// owners returns who may use a queue: its own list, and the lists of all its ancestors, which also apply.
func (b *branch) owners() string {
	text := "all users"
	if len(b.spec.Owners) > 0 {
		text = strings.Join(b.spec.Owners, ", ")
	}
	for above := b.parent; above != nil; above = above.parent {
		if len(above.spec.Owners) > 0 {
			text += "\nmust also be owners of " + above.name + ": " + strings.Join(above.spec.Owners, ", ")
		}
	}
	return text
}
