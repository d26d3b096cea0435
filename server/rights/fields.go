package rights

// This file defines which fields of an answer each role sees.

// shown lists the fields of all messages in answers. open fields are visible to everyone who may make the call,
// private fields require ReadPrivate on the job, and ids require ReadIDs. A hash of a job's env is private, because
// its values could be guessed from the hash.
var shown = []struct{ message, open, private, ids string }{
	{"SubmitReply", "outcome job", "", ""},
	{"ScriptText", "text", "", ""},
	{"Secrets", "secrets", "", ""},
	{"Secret", "name env value", "", ""},
	{"DryRunReply", "outcome waits ahead nodes free_unix_ms", "", ""},
	{"CancelReply", "outcome job", "", ""},
	{"HoldReply", "outcome job release", "", ""},
	{"RequeueReply", "outcome job run", "", ""},
	{"OwnJobReply", "outcome job", "", ""},
	{"CheckpointReply", "outcome job request", "", ""},
	{"UpdateReply", "outcome job priority time_limit_ms time_is_up begin_unix_ms given_to array_most " +
		"deadline_unix_ms", "", ""},
	{"ChangeNodeReply", "outcome node", "", ""},
	{"ApplyQueuesReply", "outcome revision unchanged closed", "", ""},
	{"GetQueuesReply", "outcome revision queues applied usage barred", "", ""},
	{"QueueUsage", "queue running waiting held in_use wanted oldest_unix_ms", "", ""},
	{"GetEfficiencyReply", "outcome time now capacity_milli_gpu", "", ""},
	{"GpuTime", "since_unix_ms until_unix_ms rows", "", ""},
	{"GpuTimeRow", "kind day name amounts capacity_milli_gpu_ms", "", ""},
	{"GpuAmount", "class cause milli_gpu_ms", "", ""},
	{"GpuNow", "class milli_gpu", "", ""},
	{"Queues", "default queues", "", ""},
	{"QueueSpec", "name parent quota limit weight order default_limit_ms most_limit_ms selector default_priority " +
		"most_priority owner_amounts owner_machines owner_running owner_waiting by_priority reclaim " +
		"shortest min_run_ms owners most_grace_ms idle_after_ms idle_then", "", ""},
	{"Amount", "name amount", "", ""},
	{"GetJobReply", "outcome job attempts", "", ""},
	{"ListJobsReply", "outcome jobs next", "", ""},
	{"ListNodesReply", "outcome nodes next", "", ""},
	{"ExplainJobReply", "outcome text explanation", "", ""},
	// An explanation is open, because every reader of jobs may also see the names and owners of all jobs.
	{"Explanation", "job phase reason reason_code never at_unix_ms failure needs space in_use more_in_use unavailable " +
		"more_unavailable reserved more_reserved start no_limit fits_after fits_by_unix_ms ahead waiting limit quota " +
		"dependencies conflict in_the_way at_once relaxations", "", ""},
	{"JobName", "id short_id name owner", "", ""},
	{"Demand", "total each tasks gpu_type level preferred whole_nodes separate_nodes user named_nodes excluded_nodes " +
		"failed_nodes draining_nodes spares", "", ""},
	{"Space", "level domain free total usable nearest nearest_asked nearest_has unmet nodes nodes_other " +
		"nodes_unavailable nodes_excluded nodes_useful nodes_without_gpus nodes_without_cpus nodes_without_memory", "", ""},
	{"Holding", "job amount nodes ends_unix_ms ends", "", ""},
	{"UnavailableNode", "node reason by note", "", ""},
	{"Dependency", "job end phase", "", ""},
	{"Constraint", "kind name", "", ""},
	{"Relaxation", "text needs return_nodes time_limit_ms before", "", ""},
	{"HistoryReply", "outcome jobs next damaged", "", ""},
	{"Event", "seq at_unix_ms text job node hidden synced group reason group_jobs reason_code", "", ""},
	{"LogPart", "rank attempt stderr data notice offset missing times", "", ""},
	{"LogTime", "offset unix_ms", "", ""},
	{"PastPart", "lines since_unix_ms until_unix_ms", "", ""},
	{"ExecIn", "principal job rank command env terminal stdin stdin_ends signal rows columns helper " +
		"attempt host", "", ""},
	{"ExecOut", "session begun stdout stderr end stdout_ends", "", ""},
	{"ExecEnd", "code text", "", ""},
	{"ClusterReply", "cluster_id epoch version levels", "", ""},
	{"WhoAmIReply", "cluster role name until_unix_ms rights pass groups", "", ""},
	{"CreatePassReply", "id until_unix_ms", "", ""},
	{"ListPassesReply", "passes", "", ""},
	{"Pass", "id role name by made_unix_ms until_unix_ms", "", ""},
	{"RevokePassReply", "id role name", "", ""},
	{"Outcome", "code field text hint", "", ""},
	{"JobStatus", "record phase reason reason_code attempt debts tasks group withheld prospect warned saving counts " +
		"progress stall use", "", ""},
	{"Use", "tasks processes cpu_ms milli_cpu memory_bytes peak_memory_bytes disk_bytes network_bytes network_tasks " +
		"gpus gpu_percent gpu_hour_percent gpu_memory_bytes idle_ms", "", ""},
	{"Stall", "rank node wait call since_unix_ms step text why", "", ""},
	{"HangSpec", "then floor_ms dump", "", ""},
	{"JobProgress", "step total percent milli_rate left_ms most_step changed_ms_ago ranks garbage metrics " +
		"slow slow_ranks", "", ""},
	{"SlowRank", "rank node percent steps step_us", "", ""},
	{"Metric", "name value", "", ""},
	{"ProgressSpec", "kubeflow_off", "pattern", ""},
	{"Prospect", "basis at_unix_ms latest_unix_ms likely_unix_ms why kept kept_until_unix_ms ahead " +
		"ahead_gpu_seconds ahead_ms on_loan unlearned", "", ""},
	{"AttemptRecord", "job token run places rendezvous committed_unix_ms started_unix_ms end saved missed pending told " +
		"start_by_left_ms victims reserving_ms preparing_ms verdict inherited in_place_ms quick_restarts stopping_ms " +
		"spares",
		"", ""},
	{"NodeStatus", "record phase closed ledger debts heard_ms_ago users suspicion", "", ""},
	{"Suspicion", "suspected backed_off_until_unix_ms failures", "", ""},
	{"NodeFailure", "job owner class reason at_unix_ms", "", ""},
	{"NodeUsers", "any more own_count mapped_count", "", "own mapped"},
	{"MappedUser", "owner account uid", "", ""},
	{"PastJob", "id name title labels owner queue priority state exit_code reason submitted_unix_ms " +
		"started_unix_ms finished_unix_ms cancel runs failures infra_restarts milli_gpu_ms " +
		"attempts time_limit_ms gang each", "", ""},
	{"Saving", "request state cause subject asked_unix_ms deadline_unix_ms ranks step problem", "", ""},
	{"RankSaved", "rank request steps exited problem", "", ""},
	{"Saved", "step request at_unix_ms ran_ms", "", ""},
	{"MissedSave", "request cause late acknowledged required rank problem", "", ""},
	{"CheckpointSpec", "signal grace_ms ack commit", "", ""},
	{"Warning", "cause at_unix_ms ends_unix_ms idle_ms", "", ""},
	{"Token", "epoch counter", "", ""},
	{"Right", "name text own of_job", "", ""},
	{"JobRecord", "id revision written_by spec owner submitted_unix_ms arrival state attempt runs failures " +
		"infra_restarts not_before_unix_ms cancel hold exit_code outcome finished_unix_ms " +
		"prepare_failures ran_ms prepare_failed_on changed uid promise memory_by_share " +
		"limit_by_default given_to after_known after_started preemptions outranked array uid_to_come " +
		"uid_turn exempt last_failure", "request_id request_hash", ""},
	{"After", "job end delay_ms", "", ""},
	{"ArraySpec", "indices most", "", ""},
	{"IndexRange", "first last step", "", ""},
	{"Element", "array index count first last step arrival", "", ""},
	{"ArrayRecord", "ended held hold reach changed", "", ""},
	{"ElementsChanged", "places set_priority priority set_time_limit time_limit_ms set_begin begin_unix_ms " +
		"set_deadline deadline_unix_ms", "", ""},
	{"ElementsEnded", "state unborn places", "", ""},
	{"ArrayCounts", "waiting running succeeded failed cancelled", "", ""},
	{"AfterKnown", "job state since_unix_ms", "", ""},
	{"Promise", "pool order kept left_ms slips run told victims on_loan", "", ""},
	{"Victim", "job token rule lost_milli_gpu_seconds", "", ""},
	{"Preemption", "for_job rule lost_milli_gpu_seconds", "", ""},
	{"Kept", "rank node amount", "", "machine_id"},
	{"Told", "told_unix_ms expected_ms bound_ms", "", ""},
	{"Place", "rank node grant address exit", "", "machine_id"},
	{"Rendezvous", "address port peers roster", "", ""},
	{"End", "cause detail rank node at_unix_ms ran_ms preemption stall hold_ms", "", ""},
	// Texts that a task printed are as private as its output.
	{"Verdict", "class rank node reason others charged repeated evidence", "explanation", ""},
	{"Evidence", "oom_scope xids disk_full ended_by step", "kernel error frame output", ""},
	{"NodeRecord", "id revision written_by announcement cordoned drained drain_deadline_unix_ms benched " +
		"removed joined_unix_ms drain_left_ms note closing closes_unix_ms closing_deadline_ms", "", "machine_id boot_id"},
	{"LedgerReport", "version total free free_gpus slices withdrawn_gpus trouble uids unwell", "", ""},
	{"Label", "key value", "", ""},
	{"Deed", "by at_unix_ms reason", "", ""},
	{"PastAttempt", "token run committed_unix_ms started_unix_ms ended_unix_ms gone_unix_ms cause detail " +
		"failed_rank failed_node exit_code signal members nodes milli_gpu milli_gpu_ms " +
		"peak_memory_bytes cpu_ms places told verdict saved missed ran_ms inherited stopping_ms preparing_ms", "", ""},
	{"GangSpec", "replicas_min replicas_max total split apart", "", ""},
	{"Resources", "milli_cpu memory_bytes milli_gpu", "", ""},
	{"JobSpec", "name title labels queue priority priority_zero gang each gpu_type shm_bytes topology node_selector " +
		"image workdir user mounts time_limit_ms prepare_timeout_ms stop restart lost_grace_ms " +
		"stop_when_lost_ms limits_required nodes exclude disk_bytes submit_dir network " +
		"after array element begin_unix_ms deadline_unix_ms launcher warn not_preemptible checkpoint_ms checkpoint " +
		"progress hang", "command env script secrets", ""},
	{"Principal", "name groups proven", "", ""},
	{"Grant", "rank amount gpus", "", ""},
	{"Exit", "rank kind code signal oom at_unix_ms detail peak_memory_bytes cpu_ms fault disk by_itself unwell saved " +
		"evidence", "", ""},
	{"Peer", "rank node address rack", "", ""},
	{"Announcement", "total gpus place labels address port_first port_last agent_version vocabulary networks " +
		"secret_files secret_env", "", ""},
	{"GpuShare", "gpu_id milli", "", ""},
	{"SliceReport", "token job state grants exits rendezvous_port expires_in_ms ran_ms exit_ages_ms " +
		"held_ms vacated held", "", ""},
	{"TopologySpec", "required preferred patience_ms", "", ""},
	{"EnvVar", "name value", "", ""},
	{"Mount", "source target read_only", "", ""},
	{"StopSpec", "signal grace_ms", "", ""},
	{"WarnSpec", "signal ahead_ms", "", ""},
	{"RestartSpec", "limit backoff_ms never in_place in_place_grace_ms swap_wait_ms spares", "", ""},
	{"Inherited", "from generation cause rank fresh swapped", "", ""},
	{"Swapped", "node by", "", ""},
	{"Spare", "node machine_id", "", ""},
	{"Script", "name digest size_bytes args text", "", ""},
	{"Gpu", "id type memory_bytes bus_id minor declared fabric_domain", "", ""},
}

// unshown lists the fields that no role sees. They are also removed from the complete answers for admins.
var unshown = []struct{ message, field string }{
	{"JobRecord", "sealed"},
}
