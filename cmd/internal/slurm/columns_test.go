package slurm

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file checks that each field of Slurm's formats is shown or is an empty column. The fields are those of
// squeue and sacct 20.02 to 23.11, from their sources.

func shownJob() *messages.JobStatus {
	token := &messages.Token{Epoch: 1, Counter: 1}
	return &messages.JobStatus{
		Phase: messages.PhaseRunning, Tasks: 2,
		Record: &messages.JobRecord{
			Id: "jsweep_7", State: messages.JobState_JOB_STATE_ACTIVE, Runs: 3, SubmittedUnixMs: at(0),
			Owner: &messages.Principal{Name: "ann"},
			Spec: &messages.JobSpec{
				Name: "train", Queue: "gpus", Priority: 500_000, TimeLimitMs: 7_200_000, DiskBytes: 5 << 20, Workdir: "/home/ann",
				Labels:  []*messages.Label{{Key: "account", Value: "lab"}},
				Gang:    &messages.GangSpec{ReplicasMin: 2, ReplicasMax: 2, Apart: true},
				Each:    &messages.Resources{MilliCpu: 4000, MemoryBytes: 8 << 30, MilliGpu: 2000},
				Nodes:   []string{"n1", "n2", "n3"},
				Exclude: []string{"n9"}, NodeSelector: []*messages.Label{{Key: "pool", Value: "a"}},
				After:   []*messages.After{{Job: "jfirst"}},
				Script:  &messages.Script{Name: "train.sh"},
				Element: &messages.Element{Array: "jsweep", Index: 7},
			},
		},
		Attempt: &messages.AttemptRecord{Token: token, StartedUnixMs: at(600), Places: []*messages.Place{
			{Rank: 0, Node: "n1"}, {Rank: 1, Node: "n2"},
		}},
	}
}

// at returns the time this many seconds after the submit.
func at(seconds int64) int64 { return 1_700_000_000_000 + seconds*1000 }

func clock(seconds int64) string { return time.UnixMilli(at(seconds)).Format("2006-01-02T15:04:05") }

// notShown is the expected value of a field that is an empty column.
const notShown = "notShown"

func TestQueueLetters(t *testing.T) {
	own, array, first := messages.NumericID("jsweep_7"), messages.NumericID("jsweep"), messages.NumericID("jfirst")
	want := map[byte]string{
		'a': "lab", 'A': own, 'b': "gres/gpu:2", 'B': "n1", 'c': "4", 'C': "8", 'd': "5M", 'D': "2", 'e': clock(7800),
		'E': "afterok:" + first, 'f': "pool=a", 'F': array, 'g': notShown, 'G': notShown, 'h': notShown, 'H': "*",
		'i': array + "_7", 'I': "*", 'j': "train", 'J': "*", 'k': "jsweep_7", 'K': "7", 'l': "2:00:00", 'L': "1:40:00",
		'm': "8G", 'M': "20:00", 'n': "n[1-3]", 'N': "n[1-2]", 'o': "train.sh", 'O': "0", 'p': "0.75000000000000",
		'P': "gpus",
		'q': "normal", 'Q': "500000", 'r': "None", 'R': "n[1-2]", 's': notShown, 'S': clock(600), 't': "R", 'T': "RUNNING",
		'u': "ann", 'U': notShown, 'v': "(null)", 'V': clock(0), 'w': "(null)", 'W': "(null)", 'x': "n9", 'X': "N/A",
		'y': notShown, 'Y': "(null)", 'z': "*:*:*", 'Z': "/home/ann",
	}
	e := Of(shownJob(), at(1800))
	for letter := byte('A'); letter <= 'z'; letter++ {
		value, known := want[letter]
		_, columns, err := Percent("%"+string(letter), QueueFields())
		r := (*Refusal)(nil)
		switch {
		case !known:
			if !errors.As(err, &r) || !strings.Contains(r.Text, "%"+string(letter)) {
				t.Errorf("%%%c, which Slurm does not have: %v", letter, err)
			}
		case value == notShown:
			if err != nil || columns[0].Of(e) != "" || columns[0].Name == "" {
				t.Errorf("%%%c: %v, %v", letter, columns, err)
			}
		case err != nil || columns[0].Of(e) != value:
			t.Errorf("%%%c is %q, and not %q: %v", letter, columns[0].Of(e), value, err)
		}
	}
	if _, columns, err := Percent("%all", QueueFields()); err != nil || len(columns) != len(want)-6 {
		t.Errorf("%%all shows %d columns: %v", len(columns), err)
	}
}

func TestQueueNames(t *testing.T) {
	own, array, first := messages.NumericID("jsweep_7"), messages.NumericID("jsweep"), messages.NumericID("jfirst")
	named(t, ":", QueueFields(), Of(shownJob(), at(1800)), map[string]string{
		"Account": "lab", "AllocNodes": "n[1-2]", "ArrayJobID": array, "ArrayTaskID": "7", "BatchFlag": "1",
		"BatchHost": "n1",
		"Command":   "train.sh", "Comment": "jsweep_7", "Contiguous": "0", "Deadline": "N/A", "Cores": "*", "CoreSpec": "N/A",
		"Dependency": "afterok:" + first, "EndTime": clock(7800), "ExcNodes": "n9", "exit_code": "0:0", "Feature": "pool=a",
		"JobArrayID": array + "_7", "JobID": own, "Licenses": "(null)", "MinCPUs": "4", "MinMemory": "8G", "MinTmpDisk": "5M",
		"Name": "train", "NodeList": "n[1-2]", "Nodes": "2", "NumCPUs": "8", "NumNodes": "2", "NumTasks": "2",
		"Partition": "gpus", "PendingTime": "600", "Priority": "0.75000000000000", "PriorityLong": "500000", "QOS": "normal",
		"Reason": "None", "ReasonList": "n[1-2]", "ReqNodes": "n[1-3]", "Requeue": "1",
		"Reservation": "(null)", "RestartCnt": "2",
		"SchedNodes": "(null)", "SCT": "*:*:*", "Sockets": "*", "StartTime": clock(600), "State": "RUNNING",
		"StateCompact": "R", "SubmitTime": clock(0), "Threads": "*", "TimeLeft": "1:40:00", "TimeLimit": "2:00:00",
		"TimeUsed": "20:00", "tres-alloc": "billing=8,cpu=8,gres/gpu=4,mem=16G,node=2",
		"tres": "billing=8,cpu=8,gres/gpu=4,mem=16G,node=2", "tres-per-node": "gres/gpu:2", "gres": "gres/gpu:2",
		"UserName": "ann", "WCKey": "(null)", "WorkDir": "/home/ann",
	}, `AccrueTime admin_comment AllocSID AssocID BoardsPerNode BurstBuffer BurstBufferState Cluster ClusterFeature Container
		ContainerID cpus-per-task cpus-per-tres CPUsPerTask CPUFreq DelayBoot DerivedEC EligibleTime GroupID GroupName
		HetJobID HetJobIDSet HetJobOffset LastSchedEval MaxCPUs MaxNodes MCSLabel mem-per-tres MinTime Network Nice NTPerBoard
		NTPerCore NTPerNode NTPerSocket Origin OriginRaw OverSubscribe PreemptTime Prefer Profile Reboot ReqSwitch
		ResizeTime ResvPort SelectJobInfo Shared SiblingsActive SiblingsActiveRaw SiblingsViable SiblingsViableRaw SPerBoard
		StdErr StdIn StdOut StepID StepName StepState system_comment tres-bind tres-freq tres-per-job tres-per-socket
		tres-per-step tres-per-task UserID Wait4Switch`)
}

func TestAccountNames(t *testing.T) {
	own, array := messages.NumericID("jsweep_7"), messages.NumericID("jsweep")
	past := Past(&messages.PastJob{
		Id: "jsweep_7", Name: "train", Owner: "ann", Queue: "gpus", Priority: 5, State: messages.JobState_JOB_STATE_FAILED,
		ExitCode: 9, Reason: "rank 1 failed", SubmittedUnixMs: at(0), StartedUnixMs: at(600), FinishedUnixMs: at(4200),
		Runs: 1, TimeLimitMs: 7_200_000, Labels: []*messages.Label{{Key: "account", Value: "lab"}},
		Gang: &messages.GangSpec{ReplicasMin: 2}, Each: &messages.Resources{MilliCpu: 4000, MemoryBytes: 8 << 30,
			MilliGpu: 2000},
		Attempts: []*messages.PastAttempt{{StartedUnixMs: at(600), EndedUnixMs: at(4200), Members: 2,
			Nodes: []string{"n1", "n2"}, PeakMemoryBytes: 3 << 30, ExitCode: 9}},
	})
	tres := "billing=8,cpu=8,gres/gpu=4,mem=16G,node=2"
	named(t, "%", AccountFields(), past, map[string]string{
		"Account": "lab", "AllocCPUS": "8", "AllocNodes": "2", "AllocTRES": tres, "Comment": "jsweep_7",
		"CPUTime": "08:00:00", "CPUTimeRAW": "28800", "Elapsed": "01:00:00", "ElapsedRaw": "3600", "End": clock(4200),
		"ExitCode": "9:0", "JobID": array + "_7", "JobIDRaw": own, "JobName": "train", "Licenses": "", "MaxRSS": "3145728K",
		"NCPUS": "8", "NNodes": "2", "NodeList": "n[1-2]", "NTasks": "2", "Partition": "gpus", "Planned": "00:10:00",
		"Priority": "5", "QOS": "normal", "Reason": "None", "ReqCPUS": "8", "ReqMem": "16G", "ReqNodes": "2", "ReqTRES": tres,
		"Reservation": "", "Reserved": "00:10:00", "Restarts": "0", "Start": clock(600), "State": "FAILED",
		"Submit": clock(0), "Suspended": "00:00:00", "Timelimit": "02:00:00", "TimelimitRaw": "120", "User": "ann",
		"WCKey": "",
	}, `AdminComment AllocGRES AssocID AveCPU AveCPUFreq AveDiskRead AveDiskWrite AvePages AveRSS AveVMSize BlockID Cluster
		Constraints ConsumedEnergy ConsumedEnergyRaw Container DBIndex DerivedExitCode Eligible Extra FailedNode Flags GID Group
		Layout MaxDiskRead MaxDiskReadNode MaxDiskReadTask MaxDiskWrite MaxDiskWriteNode MaxDiskWriteTask MaxPages MaxPagesNode
		MaxPagesTask MaxRSSNode MaxRSSTask MaxVMSize MaxVMSizeNode MaxVMSizeTask McsLabel MinCPU MinCPUNode MinCPUTask PlannedCPU
		PlannedCPURAW QOSRAW QOSREQ ReqCPUFreq ReqCPUFreqGov ReqCPUFreqMax ReqCPUFreqMin ReqGRES ReservationId ResvCPU
		ResvCPURAW StdErr StdIn StdOut SubmitLine SystemComment SystemCPU TotalCPU TRESUsageInAve TRESUsageInMax
		TRESUsageInMaxNode TRESUsageInMaxTask TRESUsageInMin TRESUsageInMinNode TRESUsageInMinTask TRESUsageInTot
		TRESUsageOutAve TRESUsageOutMax TRESUsageOutMaxNode TRESUsageOutMaxTask TRESUsageOutMin TRESUsageOutMinNode
		TRESUsageOutMinTask TRESUsageOutTot UID UserCPU WCKeyID WorkDir`)
}

// named compares the value of each named field, and checks that the fields marked notShown are empty columns.
func named(t *testing.T, mark string, fields []Field[*Entry], e *Entry, want map[string]string, not string) {
	t.Helper()
	for name, value := range want {
		columns, err := Named(strings.ToLower(name), mark, 20, fields)
		if err != nil || columns[0].Of(e) != value {
			t.Errorf("%s is not %q: %v, %v", name, value, columns, err)
		}
	}
	for name := range strings.FieldsSeq(not) {
		if columns, err := Named(name, mark, 20, fields); err != nil || columns[0].Of(e) != "" || columns[0].Name == "" {
			t.Errorf("%s: %v, %v", name, columns, err)
		}
	}
	for _, f := range fields {
		for _, name := range f.Names {
			if _, shown := want[name]; shown != (f.Of != nil) {
				t.Errorf("%s is shown or empty, and the other in this table", name)
			}
		}
	}
	if all, err := Named("ALL", mark, 20, fields); err != nil || len(all) > len(want) || len(all) < len(want)-5 {
		t.Errorf("all of them are %d: %v", len(all), err)
	}
	if _, err := Named("Nonsense", mark, 20, fields); err == nil {
		t.Error("a field that Slurm does not have is taken")
	}
}

// TestReasonOfEveryCode checks Slurm's word for each reason code. A hold names who may release the job. A job that
// waits for resources behind others has Slurm's word for that.
func TestReasonOfEveryCode(t *testing.T) {
	of := func(code messages.WaitCode, edit func(*messages.JobStatus)) string {
		j := &messages.JobStatus{Phase: messages.PhaseQueued, Record: &messages.JobRecord{
			Owner: &messages.Principal{Name: "ann"}, Spec: &messages.JobSpec{},
		}}
		j.Because(code.Because("x"))
		if edit != nil {
			edit(j)
		}
		return reason(j)
	}
	for code := messages.WaitNone + 1; code < messages.WaitCodes; code++ {
		if got, want := of(code, nil), messages.WaitReasons[code].Slurm; got != want {
			t.Errorf("%s is %s, want %s", code, got, want)
		}
	}
	held := func(by string) func(*messages.JobStatus) {
		return func(j *messages.JobStatus) { j.Record.Hold = &messages.Deed{By: &messages.Principal{Name: by}} }
	}
	ahead := func(j *messages.JobStatus) { j.Prospect = &messages.Prospect{Ahead: 3} }
	for want, got := range map[string]string{
		"JobHeldUser": of(messages.WaitHeld, held("ann")), "JobHeldAdmin": of(messages.WaitHeld, held("root")),
		"Priority": of(messages.WaitTopology, ahead), "BeginTime": of(messages.WaitBeginTime, ahead),
		"None":      of(messages.WaitResources, func(j *messages.JobStatus) { j.Phase = messages.PhaseRunning }),
		"Resources": of(messages.WaitResources, func(j *messages.JobStatus) { j.ReasonCode = "new" }),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
