package show

import (
	"fmt"
	"io"
	"strings"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/renamed"
)

// This file prints nodes.

// node is the status of a node with the current time for its ages.
type node struct {
	*messages.NodeStatus
	now int64
}

var nodeColumns = []column[node]{
	{head: "NODE", cell: node.id},
	{head: "STATE", cell: node.state, paint: func(n node) string {
		if n.GetPhase() == "up" && n.GetClosed() != "" {
			return yellow
		}
		return phaseColour(n.GetPhase())
	}},
	{head: "DOMAIN", cell: node.place},
	{head: "GPUS", right: true, cell: func(n node) string { return n.used(milli, (*messages.Resources).GetMilliGpu) }},
	{head: "CPUS", right: true, cell: func(n node) string { return n.used(milli, (*messages.Resources).GetMilliCpu) }},
	{head: "MEMORY", right: true, cell: func(n node) string { return n.used(size, (*messages.Resources).GetMemoryBytes) }},
	{head: "ALLOCS", right: true, cell: func(n node) string { return fmt.Sprint(len(n.GetLedger().GetSlices())) }},
	{head: "GPU TYPE", wide: true, cell: func(n node) string { return orDash(gpuTypes(n.announced().GetGpus())) }},
	{head: "ADDRESS", wide: true, cell: func(n node) string { return orDash(n.announced().GetAddress()) }},
	{head: "LAST SEEN", wide: true, right: true, cell: func(n node) string {
		return messages.Span(max(n.GetHeardMsAgo(), 0))
	}},
	{head: "AGENT", wide: true, cell: func(n node) string { return orDash(n.announced().GetAgentVersion()) }},
	{head: "LABELS", wide: true, cell: func(n node) string { return orDash(labels(n.announced().GetLabels())) }},
	{head: "REASON", times: true, cell: node.remarks},
}

func (n node) id() string                        { return n.GetRecord().GetId() }
func (n node) announced() *messages.Announcement { return n.GetRecord().GetAnnouncement() }
func (n node) state() string {
	return renamed.Word(renamed.NodeState, messages.ConditionOf(n.NodeStatus))
}

func (n node) place() string {
	var parts []string
	for _, l := range n.announced().GetPlace() {
		parts = append(parts, l.GetValue())
	}
	return orDash(strings.Join(parts, "/"))
}

// used formats a used amount and its total.
func (n node) used(format func(int64) string, of func(*messages.Resources) int64) string {
	total := n.GetLedger().GetTotal()
	if total == nil {
		return "?/" + format(of(n.announced().GetTotal()))
	}
	return format(of(total)-of(n.GetLedger().GetFree())) + "/" + format(of(total))
}

func (n node) why() string {
	parts := []string{n.GetClosed()}
	r := n.GetRecord()
	for _, by := range []struct {
		what string
		deed *messages.Deed
	}{{"drained by ", r.GetDrained()}, {"cordoned by ", r.GetCordoned()}} {
		if by.deed != nil && !strings.HasPrefix(n.GetClosed(), by.what) {
			parts = append(parts, by.what+messages.Doing(by.deed)) // the node may have another problem too
		}
	}
	if r.GetClosing() != nil {
		parts = append(parts, "becomes unschedulable at "+ahead(r.GetClosesUnixMs(), n.now)+", by "+
			messages.Doing(r.GetClosing()))
	}
	if left := r.GetDrainDeadlineUnixMs() - n.now; n.state() == "draining" && n.now > 0 && left > 0 {
		parts = append(parts, "running gangs move in "+messages.Span(left))
	}
	if t := n.GetLedger().GetTrouble(); t != "" && !strings.Contains(n.GetClosed(), t) {
		parts = append(parts, t)
	}
	if u := n.GetLedger().GetUnwell(); u != "" && !strings.Contains(n.GetClosed(), u) {
		parts = append(parts, "unhealthy but schedulable, because checks fail on too many similar nodes: "+u)
	}
	if lost := len(n.GetLedger().GetWithdrawnGpus()); lost > 0 {
		parts = append(parts, fmt.Sprintf("%d of its GPUs withdrawn", lost))
	}
	if words := messages.SuspicionWords(n.GetSuspicion()); words != "" && n.GetSuspicion().GetBackedOffUntilUnixMs() == 0 {
		parts = append(parts, words)
	}
	switch debts := len(n.GetDebts()); {
	case debts == 1:
		parts = append(parts, "1 unconfirmed allocation")
	case debts > 1:
		parts = append(parts, fmt.Sprintf("%d unconfirmed allocations", debts))
	}
	if parts[0] == "" {
		parts = parts[1:]
	}
	return strings.Join(parts, "; ")
}

// accounts describes the accounts for jobs that name a user, or returns "" if the node has not reported them.
func (n node) accounts() string {
	u := n.GetUsers()
	if u == nil {
		return ""
	}
	many := func(count int32, names []string, one, several string) string {
		text := fmt.Sprintf("%d %s", count, several)
		if count == 1 {
			text = "1 " + one
		}
		if len(names) > 0 {
			text += ": " + strings.Join(names, ", ")
		}
		if len(names) > 0 && int(count) > len(names) {
			text += ", …"
		}
		return text
	}
	rule := "the account with the owner's name (--user me), of " + many(u.GetOwnCount(), u.GetOwn(), "account", "accounts")
	switch {
	case u.GetAny():
		rule = "any account that a job names, if its uid is at least users.from (1000) and the agent is root"
	case u.GetMore():
		rule = "the account with the owner's name (--user me), of more accounts than are listed"
	case u.GetOwnCount() == 0:
		rule = "no account: each job has a separate uid"
	}
	if u.GetMappedCount() == 0 {
		return rule
	}
	var names []string
	for _, m := range u.GetMapped() {
		names = append(names, m.GetOwner()+" as "+m.GetAccount())
	}
	return rule + "\nusers.owners: " + many(u.GetMappedCount(), names, "owner", "owners")
}

// remarks returns why the node is unschedulable, and the operator's note.
func (n node) remarks() string {
	why, note := n.why(), n.GetRecord().GetNote()
	switch {
	case note == nil:
		return why
	case why == "":
		return "note by " + messages.Doing(note)
	}
	return why + "; note by " + messages.Doing(note)
}

// gpuTypes lists each type once with its number: 8 h100.
func gpuTypes(gpus []*messages.Gpu) string {
	var kinds []string
	count := map[string]int{}
	for _, g := range gpus {
		kind := orDash(g.GetType())
		if count[kind]++; count[kind] == 1 {
			kinds = append(kinds, kind)
		}
	}
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%d %s", count[kind], kind)
	}
	return strings.Join(kinds, ", ")
}

// Nodes prints a list of nodes.
func Nodes(w io.Writer, s Style, list []*messages.NodeStatus) error {
	return several(w, s, "NodeList", nodeColumns, list,
		func(n *messages.NodeStatus) string { return n.GetRecord().GetId() },
		func(n *messages.NodeStatus) any { return nodeObject(n) },
		func(n *messages.NodeStatus) node { return node{n, s.NowMs} })
}

// Node prints one node as an object, or as a table with one row.
func Node(w io.Writer, s Style, n *messages.NodeStatus) error {
	if !s.names() && (s.Format == "json" || s.Format == "yaml" || s.isJSONPath()) {
		return document(w, s.Format, nodeObject(n))
	}
	return Nodes(w, s, []*messages.NodeStatus{n})
}

// sliceColumns lists the columns of the allocations on a node.
var sliceColumns = []column[*messages.SliceReport]{
	{head: "JOB", cell: (*messages.SliceReport).GetJob},
	{head: "STATE", cell: func(l *messages.SliceReport) string {
		return holdingWord(l.GetState())
	}},
	{head: "RANKS", cell: func(l *messages.SliceReport) string {
		var list []int32
		for _, g := range l.GetGrants() {
			list = append(list, g.GetRank())
		}
		return ranks(list)
	}},
	{head: "GPUS", cell: func(l *messages.SliceReport) string {
		var names []string
		for _, g := range l.GetGrants() {
			for _, share := range g.GetGpus() {
				name := share.GetGpuId()
				if share.GetMilli() < 1000 {
					name += " (" + milli(share.GetMilli()) + ")"
				}
				names = append(names, name)
			}
		}
		return orDash(strings.Join(names, ", "))
	}},
}

// DescribeNode prints everything that is known about a node.
func DescribeNode(w io.Writer, s Style, status *messages.NodeStatus) error {
	n := node{status, s.NowMs}
	r, a := n.GetRecord(), n.announced()
	p := page{w: w, s: s}
	state := oneLine(n.state())
	if s.Colour {
		state = painted(state, phaseColour(n.GetPhase()))
	}
	p.line("Node", n.id())
	p.painted("State", state)
	p.timed("Reason", n.why())
	p.line("Topology", labels(a.GetPlace()))
	p.line("Labels", labels(a.GetLabels()))
	p.line("Address", a.GetAddress())
	p.line("Agent", a.GetAgentVersion())
	p.line("Users", n.accounts())
	p.timed("Joined", when(r.GetJoinedUnixMs(), s.NowMs))
	p.line("Last seen", messages.Span(max(n.GetHeardMsAgo(), 0))+" ago")
	for _, d := range []struct {
		name string
		deed *messages.Deed
	}{{"Cordoned by", r.GetCordoned()}, {"Drained by", r.GetDrained()}, {"Backoff by", r.GetBenched()},
		{"Removed by", r.GetRemoved()},
		{"Note by", r.GetNote()}} {
		if d.deed != nil {
			p.line(d.name, messages.Doing(d.deed))
		}
	}
	if r.GetClosing() != nil {
		p.timed("Drain starts", ahead(r.GetClosesUnixMs(), s.NowMs)+", by "+messages.Doing(r.GetClosing()))
	}
	if r.GetDrained() != nil && r.GetDrainDeadlineUnixMs() > 0 {
		p.timed("Drain ends", stamp(r.GetDrainDeadlineUnixMs()))
	}
	describeSuspicion(&p, s, n.GetSuspicion())
	p.section("In use", "")
	p.line("GPUs", n.used(milli, (*messages.Resources).GetMilliGpu))
	p.line("CPUs", n.used(milli, (*messages.Resources).GetMilliCpu))
	p.line("Memory", n.used(size, (*messages.Resources).GetMemoryBytes))
	p.line("GPU types", gpuTypes(a.GetGpus()))
	p.line("Withdrawn", strings.Join(n.GetLedger().GetWithdrawnGpus(), ", "))
	if list := n.GetLedger().GetSlices(); len(list) > 0 {
		p.section("Allocations", "")
		p.table(func(w io.Writer) error { return table(w, Style{Width: s.Width}, sliceColumns, list) })
	}
	return p.err
}
