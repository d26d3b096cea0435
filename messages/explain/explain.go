// Package explain formats the facts about why a job waits: a title, and one row per kind of fact. The command line, the
// web UI and the text of the API show the same rows.
package explain

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file formats the title, and the rows about the job's needs and the use of the nodes.

// Sheet holds the facts as text: a title and rows.
type Sheet struct {
	Title string
	Rows  []Row
}

// Row holds the facts of one kind. Each line has at least one cell.
type Row struct {
	Label string
	Lines [][]string
}

// The labels of the rows, in their order.
const (
	needsRow       = "Needs"
	freeRow        = "Free"
	inUseRow       = "In use"
	unavailableRow = "Unavailable"
	reservedRow    = "Reserved"
	startRow       = "Start"
	queueRow       = "Queue"
	limitsRow      = "Limits"
	dependsRow     = "Dependencies"
	lastRow        = "Last attempt"
	changeRow      = "To start now"
)

// linesMost limits the number of lines of a list.
const linesMost = 8

// Of formats an explanation. It omits rows without facts.
func Of(e *messages.Explanation) Sheet {
	p := Sheet{Title: title(e)}
	add := func(label string, lines ...[]string) {
		if len(lines) > 0 {
			p.Rows = append(p.Rows, Row{label, lines})
		}
	}
	add(needsRow, needs(e)...)
	add(freeRow, free(e)...)
	if !e.GetNever() {
		add(inUseRow, inUse(e)...)
	}
	add(unavailableRow, unavailable(e)...)
	add(reservedRow, reserved(e)...)
	add(startRow, start(e)...)
	add(queueRow, queue(e)...)
	add(limitsRow, texts(e.GetLimit(), e.GetQuota())...)
	add(dependsRow, dependencies(e)...)
	add(lastRow, texts(e.GetFailure())...)
	add(changeRow, changes(e)...)
	return p
}

// Status returns the explanation of a job of which only the status is known.
func Status(job *messages.JobStatus, shortID string) *messages.Explanation {
	r := job.GetRecord()
	return &messages.Explanation{
		Job:   &messages.JobName{Id: r.GetId(), ShortId: shortID, Name: r.GetSpec().Called(), Owner: r.Whose()},
		Phase: job.GetPhase(), Reason: cmp.Or(job.GetReason(), r.GetOutcome()), ReasonCode: job.GetReasonCode(),
	}
}

// texts returns one line for each text that is not empty.
func texts(all ...string) (lines [][]string) {
	for _, text := range all {
		if text != "" {
			lines = append(lines, []string{text})
		}
	}
	return lines
}

// title returns the name of the job, its state and the reason.
func title(e *messages.Explanation) string {
	name, why := called(e.GetJob()), reason(e)
	switch phase := e.GetPhase(); {
	case e.GetNever():
		return strings.TrimSpace(name + " can never start on this cluster: " + why)
	case phase == "" && why == "":
		return strings.TrimSpace(name + " would start now")
	case phase == "":
		return strings.TrimSpace(name + " would wait: " + why)
	case strings.HasPrefix(strings.ToLower(why), phase):
		return name + " " + verb(phase) + strings.ToLower(why[:1]) + why[1:]
	case why == "" || why == phase:
		return name + " " + verb(phase) + strings.ReplaceAll(phase, "-", " ")
	default:
		return name + " " + verb(phase) + strings.ReplaceAll(phase, "-", " ") + ": " + why
	}
}

// verb returns the words that precede a phase in a sentence.
func verb(phase string) string {
	switch phase {
	case messages.PhaseSucceeded, messages.PhaseFailed, messages.PhaseTimedOut:
		return "has "
	case messages.PhaseCancelled:
		return "was "
	}
	return "is "
}

// reason returns the reason without its code. The code is for lists of jobs.
func reason(e *messages.Explanation) string {
	code := messages.WaitCodeOf(e.GetReasonCode())
	why := messages.Reason{Code: code, Text: e.GetReason()}.Why()
	switch code {
	case messages.WaitNone, messages.WaitPrepare, messages.WaitLaunch:
		return e.GetReason()
	case messages.WaitBeginTime:
		return "begins at " + why
	case messages.WaitDependency:
		return "waits for " + why
	case messages.WaitBackoff:
		return "backs off after " + why
	}
	return why
}

// called returns the name of a job and its short ID.
func called(j *messages.JobName) string {
	if j.GetShortId() == "" {
		return j.GetName()
	}
	return messages.ShortName(j.GetShortId(), j.GetName(), "")
}

// named returns the name of a job, its short ID and its owner.
func named(j *messages.JobName) string {
	return messages.ShortName(j.GetShortId(), j.GetName(), j.GetOwner())
}

// cells returns the name of a job, and its short ID and owner in parentheses.
func cells(j *messages.JobName) (name, about string) {
	all := named(j)
	if at := strings.LastIndex(all, " ("); at >= 0 {
		return all[:at], all[at+1:]
	}
	return all, ""
}

// list joins texts: a, b and c.
func list(all []string) string {
	if n := len(all) - 1; n > 0 {
		return strings.Join(all[:n], ", ") + " and " + all[n]
	}
	return strings.Join(all, "")
}

// counted formats a number of things.
func counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.FormatInt(n, 10) + " " + noun + "s"
}

// needs formats what the job requests, and the part that no node has.
func needs(e *messages.Explanation) [][]string {
	d := e.GetNeeds()
	if d == nil {
		return nil
	}
	text := resourceOf(d.GetTotal()).text(d.GetTotal())
	if d.GetGpuType() != "" {
		text += " of type " + d.GetGpuType()
	}
	if d.GetTasks() > 1 {
		text += " (" + counted(int64(d.GetTasks()-d.GetSpares()), "task")
		if d.GetSpares() > 0 {
			text += " and " + counted(int64(d.GetSpares()), "spare")
		}
		text += " of " + resourceOf(d.GetEach()).text(d.GetEach()) + ")"
	}
	for _, of := range []struct {
		is   bool
		text string
	}{
		{d.GetWholeNodes(), "whole nodes"},
		{d.GetSeparateNodes() && d.GetSpares() == 0, "each task on a separate node"},
		{d.GetSpares() > 0, "each on a separate node"},
		{d.GetLevel() != "" && d.GetPreferred(), "prefers one " + d.GetLevel()},
		{d.GetLevel() != "" && !d.GetPreferred(), "within one " + d.GetLevel()},
		{d.GetUser() != "", "as user " + d.GetUser()},
		{d.GetNamedNodes(), "on named nodes"},
		{d.GetExcludedNodes(), "without excluded nodes"},
		{d.GetFailedNodes(), "without nodes where it failed"},
		{d.GetDrainingNodes(), "without nodes that drain before it would end"},
	} {
		if of.is {
			text += ", " + of.text
		}
	}
	unmet := strings.TrimPrefix(e.GetSpace().GetUnmet(), "user: ")
	if strings.Contains(e.GetReason(), unmet) {
		unmet = ""
	}
	return texts(text, unmet)
}

// free formats the free resources of the best domain, and why the job cannot use all of them.
func free(e *messages.Explanation) [][]string {
	s := e.GetSpace()
	of := resourceOf(s.GetTotal())
	if s.GetTotal() == nil || of.get(s.GetTotal()) == 0 {
		return nil
	}
	text := of.number(s.GetFree()) + " of " + of.text(s.GetTotal())
	switch {
	case s.GetLevel() != "":
		text += " in " + s.GetDomain() + ", the best " + s.GetLevel()
	case e.GetNeeds().GetNamedNodes():
		text += " on the named nodes"
	}
	lines := texts(text)
	if has, can := of.get(s.GetFree()), of.get(s.GetUsable()); can < has {
		most := "only " + of.number(s.GetUsable())
		if can == 0 {
			most = "none"
		}
		lines = append(lines, []string{most + " of that can be used: " + rest(e)})
	}
	for _, lack := range []struct {
		n    int32
		what string
	}{{s.GetNodesWithoutCpus(), "too few CPUs"}, {s.GetNodesWithoutMemory(), "too little memory"}} {
		if lack.n > 0 {
			lines = append(lines, []string{strconv.Itoa(int(lack.n)) + " of " + counted(int64(s.GetNodes()), "node") +
				" there: " + lack.what + " free"})
		}
	}
	return lines
}

// rest formats why the job cannot use all free resources.
func rest(e *messages.Explanation) string {
	s := e.GetSpace()
	switch {
	case s.GetNearest() == "" && e.GetNeeds().GetSeparateNodes():
		return "a node runs at most one task"
	case s.GetNearest() == "":
		return "no node has enough for a task"
	}
	var asked, has []string
	for k := range kinds {
		if k.get(s.GetNearestAsked()) > 0 {
			asked, has = append(asked, k.text(s.GetNearestAsked())), append(has, k.number(s.GetNearestHas()))
		}
	}
	each := "a task"
	if e.GetNeeds().GetEach() == nil {
		each = "each GPU"
		if resourceOf(e.GetNeeds().GetTotal()) != gpus {
			each = "each core"
		}
	}
	return each + " needs " + list(asked) + ", " + s.GetNearest() + " has " + list(has)
}

// inUse lists the jobs that use the resource that is short.
func inUse(e *messages.Explanation) (lines [][]string) {
	of, shown := resourceOf(e.GetNeeds().GetTotal()), 0
	for _, h := range e.GetInUse()[:min(len(e.GetInUse()), linesMost)] {
		name, about := cells(h.GetJob())
		lines = append(lines, []string{of.text(h.GetAmount()), name, about, ends(e, h)})
		shown++
	}
	return append(lines, further(len(e.GetInUse())-shown+int(e.GetMoreInUse()), "job")...)
}

// ends formats the time when a job ends, and how that time is known.
func ends(e *messages.Explanation, h *messages.Holding) string {
	switch {
	case h.GetEndsUnixMs() > 0:
		return "ends by " + moment(e, h.GetEndsUnixMs(), "time limit")
	case h.GetEnds() == NoLimit:
		return "no time limit"
	}
	return "end unknown"
}

// The texts for how the end of a job is known.
const (
	ByLimit = "time-limit"
	NoLimit = "no-limit"
	Unknown = "unknown"
)

// moment formats the time of an end, and in parentheses the time until then.
func moment(e *messages.Explanation, ms int64, more string) string {
	ms = messages.WholeMinute(ms)
	about := ""
	if left := ms - e.GetAtUnixMs(); left > 0 {
		about = "in " + messages.Span(left)
	}
	if more != "" {
		about = strings.TrimPrefix(about+", "+more, ", ")
	}
	if about != "" {
		about = " (" + about + ")"
	}
	return messages.Moment(ms, e.GetAtUnixMs()) + about
}

// further formats the number of items that are not shown.
func further(n int, noun string) [][]string {
	if n <= 0 {
		return nil
	}
	if n > 1 {
		noun += "s"
	}
	return [][]string{{"and " + strconv.Itoa(n) + " more " + noun}}
}

// unavailable lists the nodes that the job cannot use, and the reasons.
func unavailable(e *messages.Explanation) (lines [][]string) {
	all := e.GetUnavailable()
	for _, n := range all[:min(len(all), linesMost)] {
		lines = append(lines, []string{n.GetNode(), n.GetReason()})
	}
	return append(lines, further(len(all)-len(lines)+int(e.GetMoreUnavailable()), "node")...)
}

// reserved formats the reservations for other jobs and for this job.
func reserved(e *messages.Explanation) [][]string {
	of, all := resourceOf(e.GetNeeds().GetTotal()), e.GetReserved()
	var others []string
	if !e.GetNever() {
		for _, h := range all[:min(len(all), linesMost)] {
			others = append(others, of.text(h.GetAmount())+" for "+named(h.GetJob()))
		}
		if more := len(all) - len(others) + int(e.GetMoreReserved()); more > 0 {
			others = append(others, strconv.Itoa(more)+" more")
		}
	}
	return texts(list(others), e.GetStart().Reserved(linesMost, e.GetAtUnixMs()))
}

// resource is a kind of resource.
type resource int

const (
	gpus resource = iota
	cpus
	memory
	kinds
)

// resourceOf returns the resource in which an amount is shown: GPUs if there are any, else cores, else memory.
func resourceOf(r *messages.Resources) resource {
	switch {
	case r.GetMilliGpu() > 0:
		return gpus
	case r.GetMilliCpu() > 0:
		return cpus
	}
	return memory
}

func (k resource) get(r *messages.Resources) int64 {
	return [kinds]int64{r.GetMilliGpu(), r.GetMilliCpu(), r.GetMemoryBytes()}[k]
}

// number formats the amount of this resource.
func (k resource) number(r *messages.Resources) string {
	if k == memory {
		return topology.BytesText(r.GetMemoryBytes())
	}
	return topology.CountText(k.get(r))
}

// text formats the amount with its unit.
func (k resource) text(r *messages.Resources) string {
	noun := [kinds]string{" GPUs", " cores", ""}[k]
	if k != memory && k.get(r) == topology.WholeGPU {
		noun = strings.TrimSuffix(noun, "s")
	}
	return k.number(r) + noun
}
