package slurm

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/cmd/internal/sbatch"
	"github.com/yi-json/synapse/messages"
)

// This file defines the fields of jobs for squeue and sacct.

// The default formats of squeue and squeue --long.
const (
	QueueFormat  = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
	QueueLong    = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
	QueueStarts  = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
	AccountUsual = "JobID,JobName%10,Partition%10,Account%10,AllocCPUS%10,State%10,ExitCode%8"
	AccountBrief = "JobID,State%10,ExitCode%8"
	AccountLong  = everything
)

// QueueFields returns the fields of squeue.
func QueueFields() []Field[*Entry] {
	return append([]Field[*Entry]{
		{'i', []string{"JobArrayID"}, "JOBID", func(e *Entry) string { return e.ID }},
		{'A', []string{"JobID"}, "JOBID", (*Entry).raw},
		{'F', []string{"ArrayJobID"}, "ARRAY_JOB_ID", (*Entry).base},
		{'K', []string{"ArrayTaskID"}, "ARRAY_TASK_ID", func(e *Entry) string { return e.Element }},
		{'P', []string{"Partition"}, "PARTITION", func(e *Entry) string { return cmp.Or(e.Partition, "(none)") }},
		{'j', []string{"Name"}, "NAME", func(e *Entry) string { return e.Name }},
		{'u', []string{"UserName"}, "USER", func(e *Entry) string { return e.User }},
		{'a', []string{"Account"}, "ACCOUNT", func(e *Entry) string { return cmp.Or(e.Account, "(null)") }},
		{'t', []string{"StateCompact"}, "ST", func(e *Entry) string { return Short(e.State) }},
		{'T', []string{"State"}, "STATE", func(e *Entry) string { return e.State }},
		{'M', []string{"TimeUsed"}, "TIME", func(e *Entry) string { return Clock(e.ElapsedMs) }},
		{'l', []string{"TimeLimit"}, "TIME_LIMIT", func(e *Entry) string { return limit(e.LimitMs, Clock) }},
		{'L', []string{"TimeLeft"}, "TIME_LEFT", func(e *Entry) string {
			if e.LimitMs == 0 {
				return "UNLIMITED"
			}
			return Clock(max(e.LimitMs-e.ElapsedMs, 0))
		}},
		{'D', []string{"NumNodes", "Nodes"}, "NODES", func(e *Entry) string { return sbatch.Decimal(e.Nodes) }},
		{'C', []string{"NumCPUs"}, "CPUS", func(e *Entry) string { return sbatch.Decimal(e.CPUs) }},
		{'c', []string{"MinCPUs"}, "MIN_CPUS", func(e *Entry) string { return sbatch.Decimal(e.CPUs / max(e.Nodes, 1)) }},
		{'d', []string{"MinTmpDisk"}, "MIN_TMP_DISK", func(e *Entry) string { return mebibytes(e.Disk) }},
		{'m', []string{"MinMemory"}, "MIN_MEMORY", func(e *Entry) string { return mebibytes(e.Memory / max(e.Nodes, 1)) }},
		{'b', []string{"tres-per-node", "gres"}, "TRES_PER_NODE", func(e *Entry) string {
			if e.GPUs == 0 {
				return "N/A"
			}
			return fmt.Sprintf("gres/gpu:%d", e.GPUs/max(e.Nodes, 1))
		}},
		{'N', []string{"NodeList", "AllocNodes"}, "NODELIST", func(e *Entry) string { return Hostlist(e.Machines) }},
		{'R', []string{"ReasonList"}, "NODELIST(REASON)", func(e *Entry) string {
			switch {
			case len(e.Machines) > 0:
				return Hostlist(e.Machines)
			case e.Reason == launchFailure:
				return "(" + e.Reason + ": " + e.Cause + ")"
			case e.OverdueMs > 0:
				return "(" + e.Reason + ", start overdue " + messages.Span(e.OverdueMs) + ")"
			}
			return "(" + e.Reason + ")"
		}},
		{'r', []string{"Reason"}, "REASON", func(e *Entry) string { return e.Reason }},
		{'B', []string{"BatchHost"}, "EXEC_HOST", func(e *Entry) string {
			return cmp.Or(strings.Join(e.Machines[:min(1, len(e.Machines))], ""), "n/a")
		}},
		{'S', []string{"StartTime"}, "START_TIME", func(e *Entry) string { return moment(e.began(), "N/A") }},
		{'e', []string{"EndTime"}, "END_TIME", func(e *Entry) string { return moment(e.ends(), "N/A") }},
		{'V', []string{"SubmitTime"}, "SUBMIT_TIME", func(e *Entry) string { return moment(e.SubmitMs, "N/A") }},
		{'Y', []string{"SchedNodes"}, "SCHEDNODES", func(e *Entry) string { return cmp.Or(Hostlist(e.Kept), "(null)") }},
		{'Q', []string{"PriorityLong"}, "PRIORITY", func(e *Entry) string { return sbatch.Decimal(int64(e.Priority)) }},
		{'p', []string{"Priority"}, "PRIORITY", func(e *Entry) string {
			const most = messages.MaxPriority // for priorities between 0 and 1
			return strconv.FormatFloat(float64(int64(e.Priority)+most)/(2*most), 'f', 14, 64)
		}},
		{'q', []string{"QOS"}, "QOS", func(e *Entry) string { return e.QOS }},
		{'E', []string{"Dependency"}, "DEPENDENCY", func(e *Entry) string { return cmp.Or(e.Dependency, "(null)") }},
		{'f', []string{"Feature"}, "FEATURES", func(e *Entry) string { return cmp.Or(e.Features, "(null)") }},
		{'n', []string{"ReqNodes"}, "REQ_NODES", func(e *Entry) string { return Hostlist(e.Requested) }},
		{'x', []string{"ExcNodes"}, "EXC_NODES", func(e *Entry) string { return Hostlist(e.Excluded) }},
		{'Z', []string{"WorkDir"}, "WORK_DIR", func(e *Entry) string { return e.Workdir }},
		{'o', []string{"Command"}, "COMMAND", func(e *Entry) string { return e.Command }},
	}, append(unasked(), absent(notOfQueue)...)...)
}

// unasked returns the fields of squeue that are the same for most jobs, or have no letter.
func unasked() []Field[*Entry] {
	unset := func(text string) func(*Entry) string { return func(*Entry) string { return text } } // no job can set it
	return []Field[*Entry]{
		{'k', []string{"Comment"}, "COMMENT", func(e *Entry) string { return cmp.Or(e.Comment, e.Job) }},
		{'v', []string{"Reservation"}, "RESERVATION", unset("(null)")},
		{'w', []string{"WCKey"}, "WCKEY", func(e *Entry) string { return cmp.Or(e.WCKey, "(null)") }},
		{'W', []string{"Licenses"}, "LICENSES", unset("(null)")},
		{'O', []string{"Contiguous"}, "CONTIGUOUS", unset("0")},
		{'X', []string{"CoreSpec"}, "CORE_SPEC", unset("N/A")},
		{'H', []string{"Sockets"}, "SOCKETS_PER_NODE", unset("*")},
		{'I', []string{"Cores"}, "CORES_PER_SOCKET", unset("*")},
		{'J', []string{"Threads"}, "THREADS_PER_CORE", unset("*")},
		{'z', []string{"SCT"}, "S:C:T", unset("*:*:*")},
		{0, []string{"NumTasks"}, "TASKS", func(e *Entry) string { return sbatch.Decimal(e.Tasks) }},
		{0, []string{"RestartCnt"}, "RESTART_COUNT", func(e *Entry) string { return sbatch.Decimal(int64(e.Restarts)) }},
		{0, []string{"BatchFlag"}, "BATCH_FLAG", func(e *Entry) string { return strconv.Itoa(bit(e.Script)) }},
		{0, []string{"Requeue"}, "REQUEUE", func(e *Entry) string { return strconv.Itoa(bit(!e.Never)) }},
		{0, []string{"exit_code"}, "EXIT_CODE", (*Entry).exitCode},
		{0, []string{"Deadline"}, "DEADLINE", func(e *Entry) string { return moment(e.DeadlineMs, "N/A") }},
		{0, []string{"PendingTime"}, "PENDING_TIME", func(e *Entry) string { return sbatch.Decimal(e.WaitedMs / 1000) }},
		{0, []string{"tres-alloc", "tres"}, "TRES_ALLOC", (*Entry).allocated},
	}
}

// raw returns the number of this job; for an element, its own number.
func (e *Entry) raw() string { return messages.NumericID(e.Job) }

// base returns the number of the array of an element, or of the job itself.
func (e *Entry) base() string {
	if e.ArrayID == "N/A" {
		return e.raw()
	}
	return e.ArrayID
}

func (e *Entry) exitCode() string { return fmt.Sprintf("%d:%d", e.Exit, e.Signal) }

// allocated returns the resources of a job that has been placed.
func (e *Entry) allocated() string {
	if e.given(1) == 0 {
		return ""
	}
	return e.tres()
}

// AccountFields returns the fields of sacct.
func AccountFields() []Field[*Entry] {
	at := func(name string, of func(*Entry) string) Field[*Entry] {
		return Field[*Entry]{Names: []string{name}, Head: name, Of: of}
	}
	unset := func(*Entry) string { return "" } // no job can set it
	return append([]Field[*Entry]{
		at("JobID", func(e *Entry) string { return e.ID }),
		at("JobIDRaw", (*Entry).raw),
		at("JobName", func(e *Entry) string { return e.Name }),
		at("User", func(e *Entry) string { return e.User }),
		at("Partition", func(e *Entry) string { return e.Partition }),
		at("Account", func(e *Entry) string { return e.Account }),
		at("QOS", func(e *Entry) string { return e.QOS }),
		at("AllocCPUS", func(e *Entry) string { return sbatch.Decimal(e.given(e.CPUs)) }),
		at("NCPUS", func(e *Entry) string { return sbatch.Decimal(e.given(e.CPUs)) }),
		at("ReqCPUS", func(e *Entry) string { return sbatch.Decimal(e.CPUs) }),
		at("ReqMem", func(e *Entry) string { return mebibytes(e.Memory) }),
		at("MaxRSS", func(e *Entry) string {
			if e.Peak == 0 {
				return ""
			}
			return sbatch.Decimal(e.Peak>>10) + "K"
		}),
		at("NTasks", func(e *Entry) string { return sbatch.Decimal(e.Tasks) }),
		at("NNodes", func(e *Entry) string { return sbatch.Decimal(e.Nodes) }),
		at("AllocNodes", func(e *Entry) string { return sbatch.Decimal(e.given(e.Nodes)) }),
		at("NodeList", func(e *Entry) string { return cmp.Or(Hostlist(e.Machines), "None assigned") }),
		at("State", func(e *Entry) string { return e.State }),
		at("ExitCode", (*Entry).exitCode),
		at("Reason", func(e *Entry) string { return e.Reason }),
		at("Submit", func(e *Entry) string { return moment(e.SubmitMs, "Unknown") }),
		at("Start", func(e *Entry) string { return moment(e.StartMs, "Unknown") }),
		at("End", func(e *Entry) string { return moment(e.EndMs, "Unknown") }),
		at("Elapsed", func(e *Entry) string { return wide(e.ElapsedMs) }),
		at("ElapsedRaw", func(e *Entry) string { return sbatch.Decimal(e.ElapsedMs / 1000) }),
		at("CPUTime", func(e *Entry) string { return wide(e.given(e.CPUs) * e.ElapsedMs) }),
		at("CPUTimeRAW", func(e *Entry) string { return sbatch.Decimal(e.given(e.CPUs) * e.ElapsedMs / 1000) }),
		at("Timelimit", func(e *Entry) string { return limit(e.LimitMs, wide) }),
		at("TimelimitRaw", func(e *Entry) string {
			if e.LimitMs == 0 {
				return "UNLIMITED"
			}
			return sbatch.Decimal(e.LimitMs / 60_000)
		}),
		at("Priority", func(e *Entry) string { return sbatch.Decimal(int64(e.Priority)) }),
		at("Restarts", func(e *Entry) string { return sbatch.Decimal(int64(e.Restarts)) }),
		at("ReqTRES", func(e *Entry) string { return e.tres() }),
		at("AllocTRES", (*Entry).allocated),
		at("ReqNodes", func(e *Entry) string { return sbatch.Decimal(e.Nodes) }),
		at("Planned", func(e *Entry) string { return wide(e.WaitedMs) }),
		at("Reserved", func(e *Entry) string { return wide(e.WaitedMs) }), // its name before 21.08
		at("Comment", func(e *Entry) string { return cmp.Or(e.Comment, e.Job) }),
		at("Suspended", func(*Entry) string { return wide(0) }),
		at("Licenses", unset), at("Reservation", unset),
		at("WCKey", func(e *Entry) string { return e.WCKey }),
	}, absent(notOfAccount)...)
}

// given returns an amount if the job has been placed.
func (e *Entry) given(n int64) int64 {
	if e.StartMs == 0 {
		return 0
	}
	return n
}

func (e *Entry) tres() string {
	text := fmt.Sprintf("billing=%d,cpu=%d", e.CPUs, e.CPUs)
	if e.GPUs > 0 {
		text += fmt.Sprintf(",gres/gpu=%d", e.GPUs)
	}
	if e.Memory > 0 {
		text += ",mem=" + mebibytes(e.Memory)
	}
	return text + ",node=" + sbatch.Decimal(e.Nodes)
}

// began returns the start or the expected start.
func (e *Entry) began() int64 {
	if e.StartMs > 0 {
		return e.StartMs
	}
	return e.ForetoldMs
}

// ends returns the end or the latest end.
func (e *Entry) ends() int64 {
	switch {
	case e.EndMs > 0:
		return e.EndMs
	case e.StartMs > 0 && e.LimitMs > 0:
		return e.StartMs + e.LimitMs
	}
	return 0
}
