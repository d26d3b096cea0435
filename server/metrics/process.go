package metrics

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/yi-json/synapse/cluster/host"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/renamed"
)

// This file exports the metrics of every process: counters of its actors, durations, and queue lengths.

var (
	build = New(Gauge, "synapse_build_info",
		"always 1; the label version has the version of the program", "version")
	drops = New(Counter, "synapse_link_dropped_total",
		"dropped messages between scheduler and nodes, by cause", "cause")
	carried = New(Counter, "synapse_link_messages_total",
		"messages between scheduler and nodes, by direction", "direction")
	refusals = New(Counter, "synapse_refusals_total",
		"refused or unanswered requests of the scheduler to nodes, by cause", "cause")
	limits = New(Counter, "synapse_limit_refusals_total",
		"jobs refused by a limit of their owner, by limit; the limit uids counts jobs that had to wait for a "+
			"uid", "limit")
	restarted = New(Counter, "synapse_restarts_in_place_total",
		"restarts in place, by class of the failure", "class")
	swapped = New(Counter, "synapse_swapped_nodes_total",
		"nodes that others replaced in restarts in place")
	failures = New(Counter, "synapse_failures_total",
		"failed attempts, by class of the verdict and by cause, when the end was recorded; evidence that arrives later is "+
			"not counted", "class", "cause")
	batches = New(Counter, "synapse_journal_batches_total",
		"transactions that the store has on disk")
	changes = New(Counter, "synapse_journal_changes_total",
		"changes in the transactions that the store has on disk")
	asked = New(Counter, "synapse_checkpoint_requests_total",
		"requests to gangs to save a checkpoint, by reason", "reason")
	answered = New(Counter, "synapse_checkpoint_results_total",
		"results of requests to save: acknowledged by all required ranks, late at the deadline, ended before the "+
			"deadline for another reason, or withdrawn", "result")
	ignored = New(Counter, "synapse_checkpoint_acknowledgements_ignored_total",
		"acknowledgements that did not count, by cause: for another request, or for a lower step than "+
			"the last acknowledged one", "cause")
	unsaved = New(Counter, "synapse_checkpoint_lost_seconds_total",
		"run time of gangs with `checkpoint` requests that was lost because it was after the last acknowledged "+
			"checkpoint, by the result of the last request", "result")
	doubts = New(Counter, "synapse_journal_retries_total",
		"transactions that were repeated because their result was unknown")
	events = New(Counter, "synapse_events_total",
		"other events, by their name in the code", "event")
	boxes = New(Gauge, "synapse_mailbox_messages",
		"messages in the mailboxes of actors, by kind of actor", "kind")

	phases = New(Histogram, "synapse_attempt_phase_seconds",
		"duration of each completed phase of attempts: reserving, "+
			"deciding (the write of the decision), committing, preparing, starting", "phase")
	restarts = New(Histogram, "synapse_restart_in_place_seconds",
		"duration of restarts in place, by step: stopping (from the recorded end to the decision), starting (until all "+
			"tasks run), all", "step")
	writes = New(Histogram, "synapse_journal_write_seconds",
		"duration of a transaction, from the request until it is on disk")
	silence = New(Histogram, "synapse_heartbeat_gap_seconds",
		"time between two messages of a node; 5 s is normal")
	passes = New(Histogram, "synapse_pass_seconds",
		"duration of one scheduling pass over the queue")
	waits = New(Histogram, "synapse_job_wait_seconds",
		"time from the submit of a job to the allocation of an attempt")
	tasks = New(Histogram, "synapse_task_phase_seconds",
		"duration of the preparation (image and root file system) "+
			"and the start of containers", "phase")
	missed = New(Histogram, "synapse_start_estimate_error_seconds",
		"difference between the first estimate of a start and the "+
			"actual start; side is late or early", "side")
)

// dropped lists the counters of messages that were lost on a link.
var dropped = map[string]bool{
	"no_link": true, "full": true, "unsayable": true, "system": true, "malformed": true, "unknown": true,
	"forbidden": true,
	"forged":    true, "invalid": true, "dead_letters": true, "panicked": true,
}

// plain maps the counters that have their own family.
var plain = map[string]*Family{"journal.batches": batches, "journal.changes": changes, "journal.doubts": doubts,
	"restart.swapped": swapped}

// spans lists the distributions that have a family, by the start of their names. The rest of a name is the label.
var spans = []struct {
	begins string
	family *Family
}{
	{"coordinator.", phases}, {"journal.write", writes}, {"rack.silence", silence}, {"scheduler.pass", passes},
	{"job.wait", waits}, {"promise.", missed}, {"task.", tasks}, {"restart.in-place.", restarts},
}

// Process exports the metrics of a process and its actors.
type Process struct {
	Host    *host.Host
	Version string
	Leads   bool // it may lead, so leaders' counters are exported from the start
}

// These counters and distributions are exported before the first event, so that their rate is 0 instead of missing:
// of every process, of a process that may lead, and of a node.
var (
	countsOfAll     = names("link.", "full", "invalid", "malformed", "no_link", "received", "sent", "unknown", "unsayable")
	countsOfLeaders = slices.Concat(
		names("journal.", "batches", "changes", "doubts"), names("link.", "dead_letters", "forbidden", "forged"),
		names("refused.", "silence", "shortage", "over", "disk", "closed", "gpu type", "malformed"),
		names("limit.", "waiting", "bytes", "uids", "submits"),
		names("", "host.panics", "scheduler.damaged", "scheduler.quarantined"),
	)
	countsOfRestarts = append(names("restart.class.", "user", "out-of-memory", "unknown", "timeout", "node", "gpu"),
		"restart.swapped")
	countsOfFailures = names("verdict.", "user.member failed", "out-of-memory.member failed", "unknown.member failed",
		"node.machine lost", "gpu.gpu fault")
	countsOfSaves = slices.Concat(
		names("checkpoint.asked.", "preempted", "requeued", "drained", "time_limit", "user"),
		names("checkpoint.result.", "acknowledged", "late", "ended", "withdrawn"),
		names("checkpoint.ignored.", "other_request", "lower_step"),
		names("checkpoint.lost_ms.", "acknowledged", "late", "ended", "unasked"),
	)
	spansOfLeaders = slices.Concat(
		names("coordinator.",
			messages.PhaseReserving, messages.PhaseDeciding, "committing", "preparing", messages.PhaseStarting),
		names("restart.in-place.", messages.PhaseStopping, messages.PhaseStarting, "all"),
		names("", "journal.write", "rack.silence", "scheduler.pass", "job.wait", "promise.early", "promise.late"),
	)
	spansOfMachines = names("task.", "preparing", messages.PhaseStarting)
)

func names(begin string, ends ...string) (all []string) {
	for _, end := range ends {
		all = append(all, begin+end)
	}
	return all
}

// Families returns all families of this source.
func (Process) Families() []*Family {
	return []*Family{
		build, drops, carried, refusals, limits, batches, changes, doubts, asked, answered, ignored, unsaved, events,
		failures, boxes, phases, restarts, restarted, writes, silence, passes, waits, missed, tasks,
	}
}

// Write writes the series.
func (s Process) Write(p Page) {
	p.Put(build, 1, s.Version)
	counts, taken := s.Host.Counts(), s.Host.Spans()
	zeroCounts, zeroSpans := countsOfAll, spansOfMachines
	if s.Leads {
		zeroCounts, zeroSpans = slices.Concat(countsOfAll, countsOfLeaders, countsOfSaves, countsOfRestarts,
			countsOfFailures), spansOfLeaders
	}
	for _, name := range zeroCounts {
		counts[name] += 0
	}
	for _, name := range zeroSpans {
		if !slices.ContainsFunc(taken, func(one host.Span) bool { return one.Name == name }) {
			taken = append(taken, host.Span{Name: name, Within: make([]uint64, len(host.Bounds))})
		}
	}
	for name, n := range counts { //order: each series is independent
		family, labels := seriesOf(name)
		p.Put(family, valueOf(family, n), labels...)
	}
	for _, d := range s.Host.Depths() {
		p.Put(boxes, float64(d.Waiting), string(d.Kind))
	}
	for _, one := range taken {
		p.span(one)
	}
}

// seriesOf returns the family and the labels of a counter of the host.
func seriesOf(name string) (*Family, []string) {
	if f := plain[name]; f != nil {
		return f, nil
	}
	room, what, _ := strings.Cut(name, ".")
	switch {
	case room == "link" && dropped[what]:
		return drops, []string{what}
	case room == "link" && (what == "sent" || what == "received"):
		return carried, []string{what}
	case room == "refused":
		return refusals, []string{renamed.SeriesWord(refusals.Name, what)}
	case room == "limit":
		return limits, []string{what}
	case room == "verdict":
		class, cause, _ := strings.Cut(what, ".")
		return failures, []string{class, cause}
	case room == "restart":
		_, class, _ := strings.Cut(what, ".")
		return restarted, []string{class}
	case room == "checkpoint":
		kind, label, _ := strings.Cut(what, ".")
		return saves[kind], []string{label}
	}
	return events, []string{name}
}

// saves maps the counters of requests to save to their families.
var saves = map[string]*Family{"asked": asked, "result": answered, "ignored": ignored, "lost_ms": unsaved}

// valueOf returns the value of a counter in the unit of its family.
func valueOf(f *Family, n int64) float64 {
	if f == unsaved {
		return float64(n) / 1000
	}
	return float64(n)
}

// span writes one distribution, if it has a family.
func (p Page) span(one host.Span) {
	for _, s := range spans {
		label, fits := strings.CutPrefix(one.Name, s.begins)
		if !fits {
			continue
		}
		within := map[float64]uint64{}
		for i, bound := range host.Bounds {
			within[bound.Seconds()] = one.Within[i]
		}
		var labels []string
		if len(s.family.Labels) > 0 {
			labels = []string{label}
		}
		p.to <- prometheus.MustNewConstHistogram(s.family.desc, one.Count, one.Sum.Seconds(), within, labels...)
		return
	}
}
