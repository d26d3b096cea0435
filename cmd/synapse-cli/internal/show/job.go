package show

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/messages"
)

// This file prints jobs: rows, objects, and the detailed description.

var jobColumns = []column[job]{
	{head: "JOB", cell: job.listed},
	{head: "NAME", cell: func(j job) string { return j.spec().Called() }},
	{head: "PHASE", cell: job.GetPhase, paint: func(j job) string { return phaseColour(j.GetPhase()) }},
	{head: "TASKS", drop: 4, right: true, cell: job.tasks},
	{head: "GPUS", right: true, cell: job.gpus},
	{head: "CPUS", wide: true, right: true, cell: func(j job) string {
		return milli(messages.Asked(j.spec(), (*messages.Resources).GetMilliCpu))
	}},
	{head: "MEMORY", wide: true, right: true, cell: func(j job) string {
		return size(messages.Asked(j.spec(), (*messages.Resources).GetMemoryBytes))
	}},
	{head: "OWNER", drop: 5, cell: func(j job) string { return orDash(j.GetRecord().Whose()) }},
	{head: "QUEUE", drop: 1, cell: func(j job) string { return orDash(j.spec().GetQueue()) }},
	{head: "PRIORITY", wide: true, right: true, cell: func(j job) string { return fmt.Sprint(j.spec().GetPriority()) }},
	{head: "ATTEMPTS", wide: true, right: true, cell: func(j job) string { return fmt.Sprint(j.GetRecord().GetRuns()) }},
	{head: "RUNTIME", drop: 3, right: true, cell: job.ran},
	{head: "AGE", drop: 2, right: true, cell: job.age},
	{head: "PROGRESS", drop: 6, rare: true, cell: job.progress},
	{head: "REASON", wrap: true, times: true, cell: job.why},
}

// job is the status of a job with the current time for its ages.
type job struct {
	*messages.JobStatus
	now int64
}

func (j job) id() string { return j.GetRecord().GetId() }

// listed returns the ID of a job; for an array, with its indices.
func (j job) listed() string {
	if a := j.spec().GetArray(); a != nil {
		return messages.ArrayWords(j.id(), a)
	}
	return j.id()
}

func (j job) spec() *messages.JobSpec { return j.GetRecord().GetSpec() }
func (j job) gpus() string            { return milli(messages.Asked(j.spec(), (*messages.Resources).GetMilliGpu)) }
func (j job) age() string             { return age(j.GetRecord().GetSubmittedUnixMs(), j.now) }
func (j job) tasks() string           { return messages.TasksOf(j.JobStatus) }
func (j job) ranMs() int64            { return messages.RanMs(j.JobStatus, j.now) }
func (j job) why() string             { return messages.WhyOf(j.JobStatus) }

// ran returns the run time of the tasks over all attempts, not only of the last one.
func (j job) ran() string {
	ms := j.ranMs()
	if ms < 0 {
		return "-"
	}
	return messages.Span(ms)
}

// Jobs prints a list of jobs.
func Jobs(w io.Writer, s Style, list []*messages.JobStatus) error {
	return several(w, s, "JobList", jobColumns, list,
		func(j *messages.JobStatus) string { return j.GetRecord().GetId() },
		func(j *messages.JobStatus) any { return jobObject(j, s.NowMs) },
		func(j *messages.JobStatus) job { return job{j, s.NowMs} })
}

// Starts prints a list of jobs with their expected starts.
func Starts(w io.Writer, s Style, list []*messages.JobStatus) error {
	return several(w, s, "JobList", startColumns, list,
		func(j *messages.JobStatus) string { return j.GetRecord().GetId() },
		func(j *messages.JobStatus) any { return jobObject(j, s.NowMs) },
		func(j *messages.JobStatus) job { return job{j, s.NowMs} })
}

// Job prints one job as an object, or as a table with one row.
func Job(w io.Writer, s Style, j *messages.JobStatus) error {
	if !s.names() && (s.Format == "json" || s.Format == "yaml" || s.isJSONPath()) {
		return document(w, s.Format, jobObject(j, s.NowMs))
	}
	return Jobs(w, s, []*messages.JobStatus{j})
}

// JobWhole prints one job as an object with all stored attempts.
func JobWhole(w io.Writer, s Style, j *messages.JobStatus, attempts []*messages.AttemptRecord) error {
	o := jobObject(j, s.NowMs)
	for _, a := range attempts {
		o.Status.Attempts = append(o.Status.Attempts, attemptObject(a))
	}
	return document(w, s.Format, o)
}

// JobFile prints a job file that would submit the same jobs.
func JobFile(w io.Writer, specs ...*messages.JobSpec) error {
	encoder := yaml.NewEncoder(w)
	encoder.SetIndent(2)
	for _, spec := range specs {
		if err := encoder.Encode(jobfile.Format(spec)); err != nil {
			return err
		}
	}
	return nil
}

// DescribeJob prints everything that is known about a job. attempts holds the stored attempts, oldest first.
func DescribeJob(w io.Writer, s Style, status *messages.JobStatus, attempts []*messages.AttemptRecord) error {
	j := job{status, s.NowMs}
	r, spec := j.GetRecord(), j.spec()
	p := page{w: w, s: s}
	phase := oneLine(j.GetPhase())
	if s.Colour {
		phase = painted(phase, phaseColour(phase))
	}
	p.line("Job", j.id())
	p.line("Name", spec.Called())
	p.painted("Phase", phase)
	p.timed("Reason", j.why())
	describeStart(&p, j)
	asks := Shape(spec)
	if r.GetMemoryByShare() {
		asks += " (memory by default)"
	}
	p.line("Requests", asks)
	p.line("Topology", topology(spec))
	p.line("Selector", labels(spec.GetNodeSelector()))
	p.line("Nodes", strings.Join(spec.GetNodes(), ", "))
	p.line("Excluded", strings.Join(spec.GetExclude(), ", "))
	describeProcess(&p, spec)
	if j.GetWithheld() {
		p.line("Withheld", "env, command and script (visible to the owner and admins)")
	}
	p.line("Owner", r.Whose())
	if r.GetGivenTo() != "" {
		p.line("Submitted by", r.GetOwner().GetName())
	}
	p.line("User", userOf(r))
	p.line("Queue", spec.GetQueue())
	p.line("Priority", number(int64(spec.GetPriority())))
	p.line("Labels", labels(spec.GetLabels()))
	p.timed("Submitted", when(r.GetSubmittedUnixMs(), s.NowMs))
	p.timed("Finished", when(r.GetFinishedUnixMs(), s.NowMs))
	p.line("Array", arrayWords(spec))
	p.line("After", afterWords(r))
	p.timed("Begin", ahead(spec.GetBeginUnixMs(), s.NowMs))
	p.timed("Deadline", ahead(spec.GetDeadlineUnixMs(), s.NowMs))
	p.line("Time limit", timeLimit(r))
	p.timed("Warned", warned(j))
	if spec.GetNotPreemptible() {
		p.line("Preemptible", "no: uses only the quota of its queue")
	}
	p.checkpoints(j)
	p.line("Preempts", victims(r.GetPromise().GetVictims()))
	if r.GetChanged() != nil {
		p.line("Changed by", messages.Doing(r.GetChanged()))
	}
	if r.GetHold() != nil {
		p.line("Held by", messages.Doing(r.GetHold()))
	}
	if r.GetCancel() != nil {
		p.line("Cancelled by", messages.Doing(r.GetCancel()))
	}
	p.line("Attempts", runs(r))
	if ms := j.ranMs(); ms >= 0 {
		p.line("Runtime", j.ran()+" in all")
	}
	if r.GetState().Terminal() {
		p.line("Exit code", fmt.Sprint(ExitCode(r)))
	}
	p.line("Unconfirmed", strings.Join(j.GetDebts(), ", "))
	describeAttempts(&p, s, j, attempts)
	return p.err
}

// describeAttempts prints the progress of a job, lists its earlier attempts, and describes the current one.
func describeAttempts(p *page, s Style, j job, attempts []*messages.AttemptRecord) {
	describeProgress(p, j.GetProgress())
	describeUse(p, j.GetUse(), messages.Asked(j.spec(), (*messages.Resources).GetMilliGpu) > 0)
	describeStall(p, j.GetStall())
	earlier := slices.DeleteFunc(slices.Clone(attempts), func(a *messages.AttemptRecord) bool {
		return a.GetRun() >= j.GetAttempt().GetRun()
	})
	if len(earlier) > 0 {
		p.section("Earlier attempts", "")
		p.table(func(w io.Writer) error {
			return table(w, Style{Width: s.Width, Zone: s.Zone, NowMs: s.NowMs}, attemptColumns, earlier)
		})
	}
	if a := j.GetAttempt(); a != nil {
		describeAttempt(p, s, a)
	}
}

// warned describes how the tasks are warned before their end, and whether they were, or were notified that they do
// nothing.
func warned(j job) string {
	w, told := j.spec().GetWarn(), j.JobStatus.GetWarned()
	text := ""
	if w != nil {
		text = fmt.Sprintf("by %s, %s before the end", jobfile.SignalName(w.GetSignal()), messages.Span(w.GetAheadMs()))
	}
	switch {
	case told.GetIdleMs() > 0:
		idle := fmt.Sprintf("notified %s: idle for %s", when(told.GetAtUnixMs(), j.now), messages.Span(told.GetIdleMs()))
		return strings.TrimPrefix(text+"; "+idle, "; ")
	case told != nil && w != nil:
		text += fmt.Sprintf("; sent %s: %s", when(told.GetAtUnixMs(), j.now),
			causeWord(told.GetCause()))
	}
	return text
}

// userOf describes as whom the tasks run on nodes whose agent is root.
func userOf(r *messages.JobRecord) string {
	switch user := r.GetSpec().GetUser(); {
	case r.GetUid() != 0 && user != "":
		return fmt.Sprintf("%s inside the containers; in directories of the nodes, uid %d, used only by this job", user,
			r.GetUid())
	case r.GetUid() != 0:
		return fmt.Sprintf("uid %d, used only by this job", r.GetUid())
	case r.GetUidToCome() && user == "":
		return "a uid used only by this job, assigned at its first start"
	}
	return r.GetSpec().GetUser()
}

var attemptColumns = []column[*messages.AttemptRecord]{
	{head: "ATTEMPT", right: true, cell: func(a *messages.AttemptRecord) string { return fmt.Sprint(a.GetRun()) }},
	{head: "STARTED", times: true, cell: func(a *messages.AttemptRecord) string {
		return orDash(stamp(a.GetStartedUnixMs()))
	}},
	{head: "RUNTIME", right: true, cell: func(a *messages.AttemptRecord) string {
		if a.GetStartedUnixMs() == 0 {
			return "-"
		}
		return age(a.GetStartedUnixMs(), a.GetEnd().GetAtUnixMs())
	}},
	{head: "IN-PLACE", rare: true, cell: func(a *messages.AttemptRecord) string { return inPlaceCell(a) }},
	{head: "CAUSE", times: true, cell: func(a *messages.AttemptRecord) string { return endWords(a.GetEnd()) }},
}

// describeProcess prints what each task runs, and in which image.
func describeProcess(p *page, spec *messages.JobSpec) {
	p.line("Image", spec.GetImage())
	p.line("Command", Command(spec.GetCommand()...))
	if t := spec.GetScript(); t != nil {
		line := Command(append([]string{t.GetName()}, t.GetArgs()...)...)
		p.line("Script", fmt.Sprintf("%s (%d bytes, sha256 %.12s)", line, t.GetSizeBytes(), t.GetDigest()))
	}
	p.line("Network", spec.GetNetwork().Word())
	p.line("Launcher", spec.GetLauncher().Word())
	if spec.GetRestart().GetNever() {
		p.line("Restarts", "never")
	}
	if r := spec.GetRestart(); r.GetInPlace() {
		line := fmt.Sprintf("in place, up to %d", r.GetLimit())
		if r.GetSpares() > 0 {
			line += fmt.Sprintf("; spare nodes: %d", r.GetSpares())
		}
		p.line("Restarts", line)
	}
}

func describeAttempt(p *page, s Style, a *messages.AttemptRecord) {
	p.section("Attempt", fmt.Sprint(a.GetRun()))
	p.timed("Committed", when(a.GetCommittedUnixMs(), s.NowMs))
	p.timed("Started", when(a.GetStartedUnixMs(), s.NowMs))
	p.line("In Place", inPlaceWords(a))
	p.line("Spares", strings.Join(spareNodes(a), ", "))
	p.timed("Estimated", foretold(a.GetTold(), a.GetCommittedUnixMs()))
	if r := a.GetRendezvous(); r != nil {
		p.line("Rendezvous", fmt.Sprintf("%s:%d", r.GetAddress(), r.GetPort()))
	}
	p.line("Preempted", victims(a.GetVictims()))
	if e := a.GetEnd(); e != nil {
		p.timed("Ended", when(e.GetAtUnixMs(), s.NowMs))
		p.timed("Cause", endWords(e))
	}
	describeVerdict(p, a.GetVerdict())
	if len(a.GetPlaces()) == 0 {
		return
	}
	p.section("Ranks", "")
	p.table(func(w io.Writer) error {
		return table(w, Style{Colour: s.Colour, Width: s.Width}, placeColumns, groups(a.GetPlaces()))
	})
}

// arrayWords returns the indices of an array, or the array of an element, or "" for other jobs.
func arrayWords(spec *messages.JobSpec) string {
	if e := spec.GetElement(); e != nil {
		return fmt.Sprintf("%s, index %d of %d elements", e.GetArray(), e.GetIndex(), e.GetCount())
	}
	return jobfile.FormatArray(spec.GetArray())
}

// afterWords returns the jobs on which a job depends, with the result of each.
func afterWords(r *messages.JobRecord) string {
	var all []string
	for i, text := range jobfile.FormatAfter(r.GetSpec().GetAfter()) {
		if state, known := r.KnownOf(r.GetSpec().GetAfter()[i].GetJob()); known {
			text += " (" + cmp.Or(messages.EndPhase(state), "over") + ")"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// endWords returns the cause of an end and its detail. The detail may begin with the cause: "requeued by alice".
func endWords(e *messages.End) string {
	how, detail := causeWord(e.GetCause()), e.GetDetail()
	switch {
	case detail == "":
		return how
	case strings.HasPrefix(detail, how+" "):
		return detail
	}
	return how + ": " + detail
}

// group holds consecutive ranks on one node with the same state, so that a gang of a thousand ranks fits on a
// screen.
type group struct {
	ranks []int32
	first *messages.Place
	gpus  int64
}

func groups(places []*messages.Place) []group {
	var all []group
	for _, p := range places {
		n := len(all)
		if n == 0 || all[n-1].first.GetNode() != p.GetNode() || fate(all[n-1].first) != fate(p) {
			all = append(all, group{first: p})
			n++
		}
		all[n-1].ranks = append(all[n-1].ranks, p.GetRank())
		all[n-1].gpus += p.GetGrant().GetAmount().GetMilliGpu()
	}
	return all
}

var placeColumns = []column[group]{
	{head: "RANKS", cell: func(g group) string { return ranks(g.ranks) }},
	{head: "NODE", cell: func(g group) string { return g.first.GetNode() }},
	{head: "GPUS", right: true, cell: func(g group) string { return milli(g.gpus) }},
	{head: "EXIT", cell: func(g group) string { return fate(g.first) }, paint: fateColour},
}

func fate(p *messages.Place) string {
	e := p.GetExit()
	var s string
	switch {
	case e == nil:
		return "-"
	case e.GetOom():
		s = "out of memory"
	case e.GetDisk():
		s = "disk"
	case e.GetKind() != messages.ExitKind_EXIT_KIND_EXITED:
		s = messages.Word(e.GetKind().String(), "EXIT_KIND_")
	case e.GetSignal() != 0:
		s = "signal " + jobfile.SignalName(e.GetSignal())
	default:
		s = fmt.Sprintf("code %d", e.GetCode())
	}
	if e.GetDetail() != "" {
		s += ": " + e.GetDetail()
	}
	return s
}

func fateColour(g group) string {
	switch e := g.first.GetExit(); {
	case e == nil:
		return ""
	case e.GetKind() == messages.ExitKind_EXIT_KIND_EXITED && e.GetCode() == 0 && e.GetSignal() == 0:
		return green
	}
	return red
}

func topology(spec *messages.JobSpec) string {
	t := spec.GetTopology()
	var parts []string
	if t.GetRequired() != "" {
		parts = append(parts, "within one "+t.GetRequired())
	}
	if t.GetPreferred() != "" {
		part := "best within one " + t.GetPreferred()
		if ms := t.GetPatienceMs(); ms > 0 {
			part += ", waits up to " + jobfile.FormatDuration(ms) + " for it"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

func runs(r *messages.JobRecord) string {
	s := fmt.Sprint(r.GetRuns())
	if r.GetFailures() > 0 {
		s += fmt.Sprintf(", %d failed (%s allowed)", r.GetFailures(),
			counted(int(r.GetSpec().GetRestart().GetLimit()), "restart"))
	}
	if r.GetInfraRestarts() > 0 {
		s += fmt.Sprintf(", %d ended for reasons outside the job", r.GetInfraRestarts())
	}
	if n := r.GetPreemptions(); n > 0 {
		s += fmt.Sprintf(", %d preempted", n)
	}
	return s
}

func limit(ms int64) string {
	if ms == 0 {
		return ""
	}
	return jobfile.FormatDuration(ms)
}

func number(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// Command returns a command line that a shell would parse into these arguments. Control characters are escaped,
// because the submitter of the job could otherwise control the reader's terminal.
func Command(args ...string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		quoted[i] = a
		switch {
		case strings.ContainsFunc(a, moves):
			letters := strconv.Quote(a)
			quoted[i] = "$'" + strings.NewReplacer(`\"`, `"`, "'", `\'`).Replace(letters[1:len(letters)-1]) + "'"
		case a == "" || strings.ContainsAny(a, " \t\n\"'\\$`&|;<>(){}[]!*?#~"):
			quoted[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

func moves(r rune) bool { return messages.Steers(r) }

func labels(list []*messages.Label) string {
	parts := make([]string, len(list))
	for i, l := range list {
		parts[i] = l.GetKey() + "=" + l.GetValue()
	}
	return strings.Join(parts, ", ")
}

// ExitCode returns a job's exit code in the convention of a shell. A cancelled job has failed, and a job beyond its
// time limit has timed out.
func ExitCode(r *messages.JobRecord) int {
	switch r.GetState() {
	case messages.JobState_JOB_STATE_SUCCEEDED:
		return 0
	case messages.JobState_JOB_STATE_TIMED_OUT:
		return 6
	case messages.JobState_JOB_STATE_FAILED:
		if code := int(r.GetExitCode()); code > 0 && code < 256 {
			return code
		}
	}
	return 1
}

// timeLimit returns the time limit of a job.
func timeLimit(r *messages.JobRecord) string {
	lasts := limit(r.GetSpec().GetTimeLimitMs())
	if r.GetLimitByDefault() {
		lasts += " (by default)"
	}
	return lasts
}
