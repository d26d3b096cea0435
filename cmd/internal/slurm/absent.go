package slurm

import "strings"

// This file lists the fields of Slurm's formats that jobs here do not have. Clients request them together with
// others, so each is an empty column.

// absent returns fields by their names. The letter for -o is before a colon.
func absent(names string) (all []Field[*Entry]) {
	for name := range strings.FieldsSeq(names) {
		f := Field[*Entry]{Names: []string{name}}
		if letter, rest, has := strings.Cut(name, ":"); has {
			f.Letter, f.Names = letter[0], []string{rest}
		}
		f.Head = strings.ToUpper(f.Names[0])
		all = append(all, f)
	}
	return all
}

// notOfQueue lists the fields of squeue.
const notOfQueue = `
	StepID StepName StepState U:UserID G:GroupID g:GroupName AssocID y:Nice StdErr StdIn StdOut Cluster
	ClusterFeature Origin OriginRaw SiblingsActive SiblingsActiveRaw SiblingsViable SiblingsViableRaw HetJobID
	HetJobIDSet HetJobOffset PackJobID PackJobIDSet PackJobOffset h:OverSubscribe Shared s:SelectJobInfo
	BoardsPerNode SPerBoard NTPerBoard NTPerCore NTPerNode NTPerSocket CPUsPerTask cpus-per-task cpus-per-tres
	mem-per-tres tres-bind tres-freq tres-per-job tres-per-socket tres-per-step tres-per-task ReqSwitch
	Wait4Switch BurstBuffer BurstBufferState Container ContainerID CPUFreq DelayBoot MaxCPUs MaxNodes
	MCSLabel MinTime Network Prefer Profile Reboot ResizeTime ResvPort ResvPorts admin_comment
	system_comment AccrueTime AllocSID DerivedEC EligibleTime LastSchedEval PreemptTime PreemptEligibleTime`

// notOfAccount lists the fields of sacct.
const notOfAccount = `
	DerivedExitCode Layout UID GID Group AssocID StdErr StdIn StdOut SubmitLine Cluster AdminComment SystemComment
	BlockID Container Extra Flags McsLabel ReqCPUFreq ReqCPUFreqGov ReqCPUFreqMax ReqCPUFreqMin AllocGRES ReqGRES
	DBIndex SLUID QOSRAW QOSREQ ReservationId WCKeyID AveCPU AveCPUFreq AveDiskRead AveDiskWrite AvePages AveRSS
	AveVMSize ConsumedEnergy ConsumedEnergyRaw MaxDiskRead MaxDiskReadNode MaxDiskReadTask MaxDiskWrite
	MaxDiskWriteNode MaxDiskWriteTask MaxPages MaxPagesNode MaxPagesTask MaxRSSNode MaxRSSTask MaxVMSize
	MaxVMSizeNode MaxVMSizeTask MinCPU MinCPUNode MinCPUTask SystemCPU TotalCPU UserCPU TRESUsageInAve
	TRESUsageInMax TRESUsageInMaxNode TRESUsageInMaxTask TRESUsageInMin TRESUsageInMinNode TRESUsageInMinTask
	TRESUsageInTot TRESUsageOutAve TRESUsageOutMax TRESUsageOutMaxNode TRESUsageOutMaxTask TRESUsageOutMin
	TRESUsageOutMinNode TRESUsageOutMinTask TRESUsageOutTot Eligible PlannedCPU PlannedCPURAW ResvCPU ResvCPURAW
	FailedNode Constraints WorkDir`
