package slurm

import "strings"

// This file owns the fields of Slurm's formats that no job here has, each with why. Who asks for one is refused by its
// name: an empty column would be taken for the truth.

// absent are fields that are refused. Each is written as it is asked for, with its letter of -o, where it has one,
// before a colon.
func absent(why, names string) (all []Field[*Entry]) {
	for name := range strings.FieldsSeq(names) {
		f := Field[*Entry]{Names: []string{name}, Head: why}
		if letter, rest, has := strings.Cut(name, ":"); has {
			f.Letter, f.Names = letter[0], []string{rest}
		}
		all = append(all, f)
	}
	return all
}

const (
	whySteps     = "steps are not kept, only jobs"
	whyNumbers   = "users are names here; their numbers and groups are each machine's"
	whyNice      = "--nice is part of the priority, which is shown"
	whyFiles     = "the script's files are known to it alone; synapse-cli logs has what it says"
	whyClusters  = "there is one cluster, and nothing is shared with others"
	whySharing   = "cores, GPUs and memory belong to one job, and a machine may have several"
	whyMachines  = "a job asks for cores, GPUs and memory, and not for how machines are built"
	whyOptions   = "no option that would set it is taken here"
	whyAccounts  = "no records of accounts stand behind it"
	whyUse       = "of what a job uses, only its largest task's memory is kept (MaxRSS)"
	whyScheduler = "the scheduler keeps no such time or text; synapse-cli explain says why a job waits"
	whyPast      = "it is not kept of jobs that are over; squeue shows it"
)

// notOfQueue are those of squeue.
func notOfQueue() (all []Field[*Entry]) {
	for why, names := range map[string]string{ //order: they are looked for by their names
		whySteps:   "StepID StepName StepState",
		whyNumbers: "U:UserID G:GroupID g:GroupName AssocID",
		whyNice:    "y:Nice",
		whyFiles:   "StdErr StdIn StdOut",
		whyClusters: `Cluster ClusterFeature Origin OriginRaw SiblingsActive SiblingsActiveRaw SiblingsViable SiblingsViableRaw
			HetJobID HetJobIDSet HetJobOffset PackJobID PackJobIDSet PackJobOffset`,
		whySharing: "h:OverSubscribe Shared",
		whyMachines: `s:SelectJobInfo BoardsPerNode SPerBoard NTPerBoard NTPerCore NTPerNode NTPerSocket CPUsPerTask
			cpus-per-task cpus-per-tres mem-per-tres tres-bind tres-freq tres-per-job tres-per-socket tres-per-step tres-per-task
			ReqSwitch Wait4Switch`,
		whyOptions: `BurstBuffer BurstBufferState Container ContainerID CPUFreq Deadline DelayBoot MaxCPUs MaxNodes MCSLabel
			MinTime Network Prefer Profile Reboot Requeue ResizeTime ResvPort ResvPorts admin_comment system_comment`,
		whyScheduler: "AccrueTime AllocSID DerivedEC EligibleTime LastSchedEval PreemptTime PreemptEligibleTime",
	} {
		all = append(all, absent(why, names)...)
	}
	return all
}

// notOfAccount are those of sacct.
func notOfAccount() (all []Field[*Entry]) {
	for why, names := range map[string]string{ //order: they are looked for by their names
		whySteps:    "DerivedExitCode Layout",
		whyNumbers:  "UID GID Group AssocID",
		whyFiles:    "StdErr StdIn StdOut SubmitLine",
		whyClusters: "Cluster",
		whyOptions: `AdminComment SystemComment BlockID Container Extra Flags McsLabel ReqCPUFreq ReqCPUFreqGov ReqCPUFreqMax
			ReqCPUFreqMin AllocGRES ReqGRES`,
		whyAccounts: "DBIndex SLUID QOSRAW QOSREQ ReservationId WCKeyID",
		whyUse: `AveCPU AveCPUFreq AveDiskRead AveDiskWrite AvePages AveRSS AveVMSize ConsumedEnergy ConsumedEnergyRaw
			MaxDiskRead MaxDiskReadNode MaxDiskReadTask MaxDiskWrite MaxDiskWriteNode MaxDiskWriteTask MaxPages MaxPagesNode
			MaxPagesTask MaxRSSNode MaxRSSTask MaxVMSize MaxVMSizeNode MaxVMSizeTask MinCPU MinCPUNode MinCPUTask SystemCPU
			TotalCPU UserCPU TRESUsageInAve TRESUsageInMax TRESUsageInMaxNode TRESUsageInMaxTask TRESUsageInMin
			TRESUsageInMinNode TRESUsageInMinTask TRESUsageInTot TRESUsageOutAve TRESUsageOutMax TRESUsageOutMaxNode
			TRESUsageOutMaxTask TRESUsageOutMin TRESUsageOutMinNode TRESUsageOutMinTask TRESUsageOutTot`,
		whyScheduler: "Eligible PlannedCPU PlannedCPURAW ResvCPU ResvCPURAW FailedNode",
		whyPast:      "Constraints WorkDir",
	} {
		all = append(all, absent(why, names)...)
	}
	return all
}
