// One valid message of each type. The other tests change one thing in a valid message and expect a refusal.
package messages

// The parts of the valid messages.
var (
	goodIncarnation = &Incarnation{BootId: "5f2c0b6e-8d6a", StartedNs: 7}
	goodOrder       = &Order{
		Epoch: 2, Token: &Token{Epoch: 1, Counter: 3}, Job: "j-1", Node: "n17.example", Incarnation: goodIncarnation,
	}
	goodOrigin = &Origin{
		Token: &Token{Epoch: 1, Counter: 3}, Job: "j-1", Node: "n17.example", MachineId: "m1", Incarnation: goodIncarnation,
	}
	goodMembers = []*Member{{Rank: 0, Amount: &Resources{MilliGpu: 1000}}, {Rank: 1, Amount: &Resources{MilliCpu: 1}}}
	goodGrant   = &Grant{
		Amount: &Resources{MilliGpu: 1500}, Gpus: []*GpuShare{{GpuId: "a", Milli: 1000}, {GpuId: "b", Milli: 500}},
	}
	goodExit = &Exit{Rank: 0, Kind: ExitKind_EXIT_KIND_EXITED, Code: 137, Signal: 9,
		Evidence: &Evidence{Xids: []int32{79}, Output: []string{"KeyError: 'x'"}}}
	goodLedger = &LedgerReport{Total: &Resources{MilliGpu: 2000}, Free: &Resources{MilliGpu: 500},
		FreeGpus: []*GpuShare{{GpuId: "b", Milli: 500}},
		Slices: []*SliceReport{
			{
				Token: &Token{Epoch: 1, Counter: 3}, Job: "j-1", State: SliceState_SLICE_STATE_STARTED, Grants: []*Grant{goodGrant},
			},
		}}
	goodMeeting = &Rendezvous{
		Address: "10.0.0.1", Port: 20000, Peers: []*Peer{{Rank: 0, Node: "n1"}, {Rank: 1, Node: "n2"}},
	}
	goodAnnouncement = &Announcement{Total: &Resources{MilliCpu: 1, MilliGpu: 2000}, Gpus: []*Gpu{{Id: "a"}, {Id: "b"}},
		Place: []*Label{{Key: "zone", Value: "a"}, {Key: "rack", Value: "r1"}}, Address: "10.0.0.1", PortFirst: 20000,
		PortLast: 20999}
	goodCaller = &Principal{Name: "anonymous"}
	goodTask   = &TaskId{Token: &Token{Epoch: 1, Counter: 3}, Rank: 1}
	okay       = &Outcome{Code: Code_CODE_OK}
	goodPlace  = &Place{Node: "n1", MachineId: "m1", Grant: goodGrant}
)

// goodMessages returns one valid message of each type.
func goodMessages() []validator {
	rank1 := &Exit{Rank: 1, Kind: ExitKind_EXIT_KIND_EXITED}
	// Two allocations of one leader.
	two := &LedgerReport{Total: &Resources{}, Free: &Resources{}, Slices: []*SliceReport{
		{Token: &Token{Epoch: 1, Counter: 3}, Job: "j-1", State: SliceState_SLICE_STATE_OVER},
		{Token: &Token{Epoch: 1, Counter: 4}, Job: "j-2", State: SliceState_SLICE_STATE_OVER}}}
	return []validator{
		&Reserve{Order: goodOrder, Members: goodMembers, TtlMs: 1}, &Reserved{
			Origin: goodOrigin, Grants: []*Grant{goodGrant}, RendezvousPort: 1,
		},
		&Refused{Origin: goodOrigin, Reason: RefusalReason_REFUSAL_REASON_SHORTAGE, Ledger: goodLedger},
		&Abort{Order: goodOrder}, &Aborted{Origin: goodOrigin}, &Commit{
			Order: goodOrder, Spec: goodSpec(), Members: goodMembers,
		},
		&Committed{Origin: goodOrigin}, &Prepared{Origin: goodOrigin}, &Expired{Origin: goodOrigin},
		&Start{Order: goodOrder, Rendezvous: goodMeeting, JobName: "llama", Run: 1}, &Started{Origin: goodOrigin},
		&Start{Order: goodOrder, Rendezvous: &Rendezvous{Address: "10.0.0.1", Port: 20000}, Run: 1,
			Roster: &Roster{Digest: 7, SizeBytes: 9, OffsetBytes: 8, Data: []byte{1}}},
		&Lacking{Origin: goodOrigin, Digest: 7, HaveBytes: 9},
		&Warn{Order: goodOrder, Number: 1, Cause: Cause_CAUSE_TIME_LIMIT, LeftMs: 1, Of: 7},
		&Warn{Order: goodOrder, Number: 2, IdleMs: 5}, &Warned{Origin: goodOrigin, Number: 1},
		&Stop{Order: goodOrder, Cause: Cause_CAUSE_CANCELLED, Signal: 15, GraceMs: 1},
		&Exited{Origin: goodOrigin, Exits: []*Exit{goodExit}}, &Ended{Origin: goodOrigin}, &Forget{Order: goodOrder},

		&Lead{Epoch: 1, ClusterId: "c1"}, &Welcome{Epoch: 1, Incarnation: goodIncarnation},
		&HeartbeatAck{Epoch: 1, Incarnation: goodIncarnation, Examine: 7},
		&Hello{Origin: &Origin{Node: "n1", MachineId: "m1", Incarnation: goodIncarnation}, Epoch: 1,
			Announcement: goodAnnouncement, Ledger: goodLedger},
		&Hello{Origin: goodOrigin, Epoch: 1, Announcement: goodAnnouncement, ClusterId: "c1"},
		&LedgerRecord{Epoch: 1, ClusterId: "c1"},
		&Rejected{Epoch: 1, Reason: RejectReason_REJECT_REASON_MALFORMED}, &Heartbeat{Origin: goodOrigin, Epoch: 1},
		&Heartbeat{Origin: goodOrigin, Epoch: 1, Progress: []*AttemptProgress{{Token: &Token{Epoch: 1}, Job: "j-1",
			Quiet: []*RankState{{Rank: 1, QuietNs: 7}}}}},
		&Report{Origin: goodOrigin, Epoch: 1, Ledger: goodLedger}, &Report{Origin: goodOrigin, Epoch: 1, Ledger: two},

		goodSpec(), &Submit{Principal: goodCaller, Spec: goodSpec()}, &Cancel{Principal: goodCaller, Job: "j-1"},
		&Hold{Principal: goodCaller, Job: "j-1"},
		&Requeue{Principal: goodCaller, Job: "j-1", Run: 2, Hold: true}, &RequeueReply{Outcome: okay, Job: "j-1", Run: 2},
		&DryRun{Principal: goodCaller, Spec: goodSpec()}, &DryRunReply{Outcome: okay, Waits: "needs 8 GPUs"},
		&Update{Principal: goodCaller, Job: "j-1", SetPriority: true, Priority: 5},
		&UpdateReply{Outcome: okay, Job: "j-1", Priority: 5},
		&ChangeNode{Principal: goodCaller, Node: "n1", Verb: NodeVerb_NODE_VERB_DRAIN, Reason: "new fans", DeadlineMs: 1},
		&GetJob{Principal: goodCaller, Job: "j"}, &ExplainJob{Principal: goodCaller, Job: "j"},
		&ExplainJob{Principal: goodCaller, Spec: goodSpec()},
		&ListJobs{Principal: goodCaller, Phases: []string{"running"}},
		&ListNodes{Principal: goodCaller, Limit: 7}, &SubmitReply{Outcome: okay, Job: "j-1"},
		&CancelReply{Outcome: okay, Job: "j-1"},
		&HoldReply{Outcome: &Outcome{Code: Code_CODE_NOT_FOUND, Text: "no such job"}},
		&ChangeNodeReply{Outcome: okay, Node: "n1"},
		&GetJobReply{Outcome: okay, Job: &JobStatus{Record: &JobRecord{Id: "j-1"}, Phase: "running"}},
		&ExplainJobReply{Outcome: okay},
		&History{
			Principal: goodCaller, States: []JobState{JobState_JOB_STATE_FAILED}, SinceUnixMs: 1, UntilUnixMs: 2, After: "5/j1",
		},
		&HistoryReply{
			Outcome: okay, Jobs: []*PastJob{
				{Id: "j1", State: JobState_JOB_STATE_FAILED, Attempts: []*PastAttempt{{Token: goodOrder.Token, Members: 1}}},
			},
		},
		&ListJobsReply{Outcome: okay}, &ListNodesReply{
			Outcome: okay, Nodes: []*NodeStatus{{Record: &NodeRecord{Id: "n1"}, Phase: "up"}},
		},
		&Watch{Principal: goodCaller, Jobs: true, Ids: []string{"j-1"}}, &Unwatch{},
		&Event{Seq: 1, Group: 3, Reason: "needs 8 GPUs"}, &Event{
			Seq: 1, Job: &JobStatus{Record: &JobRecord{Id: "j-1"}, Phase: "running"},
		},

		&JobRecord{Id: "j-1", Revision: 1, WrittenBy: &Token{Epoch: 1}, Spec: &JobSpec{}, State: JobState_JOB_STATE_QUEUED},
		&JobRecord{
			Id: "j-1", Revision: 1, WrittenBy: &Token{Epoch: 1}, Spec: &JobSpec{}, State: JobState_JOB_STATE_QUEUED,
			Promise: &Promise{
				Order: 1, Run: 1, LeftMs: 5, Kept: []*Kept{{Node: "n1", MachineId: "m1", Amount: &Resources{MilliGpu: 8000}}},
			},
		},
		&AttemptRecord{Job: "j-1", Token: &Token{Epoch: 1}, Run: 1, Places: []*Place{goodPlace}},
		&PolicyRecord{
			WrittenBy: &Token{Epoch: 1}, Cells: []*Cell{{Level: 1, Count: 1}, {Level: 2, Count: 1}},
			Uses:    []*QueueUse{{Queue: "nlp", MilliGpuMs: 1}},
			GpuTime: &GpuTime{Rows: []*GpuTimeRow{{Kind: 1, Amounts: []*GpuAmount{{Class: 1, MilliGpuMs: 1}}}}},
		},
		&PassRecord{
			Id: "a1", Hash: make([]byte, PassHashBytes), Role: "viewer", Name: "ann", By: "ada", MadeUnixMs: 1, UntilUnixMs: 2,
		},
		&QueuesRecord{WrittenBy: &Token{Epoch: 1}, Revision: 1, Queues: goodQueues()},
		&ApplyQueues{Principal: goodCaller, Queues: goodQueues(), Revision: 3}, &ApplyQueuesReply{Outcome: okay, Revision: 4},
		&GetEfficiency{Principal: goodCaller, Kind: 2}, &GetEfficiencyReply{Outcome: okay},
		&GetQueues{Principal: goodCaller}, &GetQueuesReply{Outcome: okay},
		&NodeRecord{Id: "n1", Revision: 1, WrittenBy: &Token{Epoch: 1}}, &LedgerRecord{Epoch: 0},

		&PrepareTask{Id: goodTask, Job: "j-1", Spec: goodSpec(), Grant: goodGrant}, &TaskPrepared{Id: goodTask},
		&StartTask{Id: goodTask, Job: "j-1", Spec: goodSpec(), Grant: goodGrant, Rendezvous: goodMeeting},
		&TaskStarted{Id: goodTask},
		&TaskGone{Id: goodTask, Exit: rank1}, &AdoptTask{Id: goodTask}, &SignalTask{Id: goodTask, Signal: 9},
		&StopTask{Id: goodTask}, &WarnTask{Id: goodTask, Signal: 10}, &TaskWarned{Id: goodTask},
		&TaskSaved{Id: goodTask, Saved: &RankSaved{Rank: 1, Request: 7, Steps: []int64{12}}},
		&RankSaved{Request: 7, Exited: true}, &Saved{Step: 12, Request: 7, RanMs: 5},
		&MissedSave{Request: 7, Late: true, Acknowledged: 1, Required: 2, Rank: 1},
		&Checkpoint{Principal: goodCaller, Job: "j"}, &CheckpointReply{Outcome: OK(), Job: "j", Request: 7},
		&StatsTask{Id: goodTask}, &TaskStats{Id: goodTask}, &LogsTask{Id: goodTask, LimitBytes: 1}, &TaskLogs{Id: goodTask},
		&TaskProgress{Id: goodTask, Step: 1, Metrics: []*Metric{{Name: "loss", Value: "2.1"}}},
		&ExecTask{Id: goodTask, Job: "j-1", Epoch: 1, Session: "s"}, &ExecRefused{Id: goodTask, Session: "s", Text: "no"},
		&ForgetTask{Id: goodTask}, &ListTasks{}, &TaskList{Tasks: []*TaskEntry{{Id: goodTask, Exit: rank1}}},
		&UidsInUse{Uids: []uint32{2_000_000}}, &KeepTasks{}, &GpuFaulted{GpuId: "a"}, &GpuRecovered{GpuId: "a"},
		&CheckMachine{Occasion: CheckOccasion_CHECK_OCCASION_FAILURE},
		&MachineChecked{Health: &MachineHealth{Unwell: "gpus: a row"}},
	}
}

// goodQueues returns two queues, one of which sets every field.
func goodQueues() *Queues {
	number, priority, yes := int64(5), int32(7), true
	return &Queues{Default: "research", Queues: []*QueueSpec{{Name: "research"}, {
		Name: "nlp", Parent: "research", Quota: []*Amount{{Name: "gpu", Amount: 8000}},
		Limit: []*Amount{{Name: "gpu", Amount: 9000}, {Name: "h100", Amount: 8000}}, Weight: 2,
		Order: QueueOrder_QUEUE_ORDER_FAIR, DefaultLimitMs: &number, MostLimitMs: &number,
		Selector: []*Label{{Key: "pool", Value: "a"}}, DefaultPriority: &priority, MostPriority: &priority,
		OwnerAmounts: []*Amount{{Name: "memory", Amount: 1 << 40}}, OwnerMachines: &number, OwnerRunning: &number,
		OwnerWaiting: &number, ByPriority: &yes, Reclaim: &yes, Shortest: &yes, MinRunMs: &number, MostGraceMs: &number,
		Owners: []string{"ann", "group:ml"}, IdleAfterMs: &number, IdleThen: IdleAction_IDLE_ACTION_SIGNAL,
	}}}
}
