package renamed

// This file has the renamed flags, environment variables and keys of files.

const (
	nodeProgram      = "synapse-node"
	schedulerProgram = "synapse-scheduler"
	// The files with renamed keys.
	SchedulerFile = "scheduler.yaml"
	NodeFile      = "node.yaml"
	QueuesFile    = "queues.yaml"
	HostsFile     = "hosts.yaml"
)

var flags = []Name{
	{Flag, nodeProgram, "policy", "job-policy"},
	{Flag, schedulerProgram, "page", "web"},
	{Flag, schedulerProgram, "page-cert", "web-cert"},
	{Flag, schedulerProgram, "page-key", "web-key"},
	{Flag, schedulerProgram, "past", "timeline"},
	{Flag, "synapse-cli up", "patience", "join-timeout"},
	{Flag, "synapse-cli update", "array-most", "array-max-running"},
	{Flag, "synapse-cli simulate", "shake", "jitter"},

	{Env, nodeProgram, "SYNAPSE_NODE_POLICY", "SYNAPSE_NODE_JOB_POLICY"},
	{Env, schedulerProgram, "SYNAPSE_SCHEDULER_PAGE", "SYNAPSE_SCHEDULER_WEB"},
	{Env, schedulerProgram, "SYNAPSE_SCHEDULER_PAGE_CERT", "SYNAPSE_SCHEDULER_WEB_CERT"},
	{Env, schedulerProgram, "SYNAPSE_SCHEDULER_PAGE_KEY", "SYNAPSE_SCHEDULER_WEB_KEY"},
	{Env, schedulerProgram, "SYNAPSE_SCHEDULER_PAST", "SYNAPSE_SCHEDULER_TIMELINE"},
}

var keys = []Name{
	{YAML, NodeFile, "policy", "job-policy"},
	{YAML, NodeFile, "health.*.least", "health.*.min"},
	{YAML, NodeFile, "health.*.most", "health.*.max"},
	{YAML, HostsFile, "machines", "nodes"},
	{YAML, SchedulerFile, "page", "web"},
	{YAML, SchedulerFile, "page-cert", "web-cert"},
	{YAML, SchedulerFile, "page-key", "web-key"},
	{YAML, SchedulerFile, "past", "timeline"},
	{YAML, SchedulerFile, "policy.promises", "policy.plannedStarts"},
	{YAML, SchedulerFile, "policy.promises.ones", "policy.plannedStarts.singles"},
	{YAML, SchedulerFile, "policy.guard", "policy.antiStarvationShare"},
	{YAML, SchedulerFile, "policy.headroom", "policy.shortJobShare"},
	{YAML, SchedulerFile, "policy.locality", "policy.topologyWait"},
	{YAML, SchedulerFile, "policy.localityMost", "policy.maxTopologyWait"},
	{YAML, SchedulerFile, "policy.keepMost", "policy.maxReservation"},
	{YAML, SchedulerFile, "policy.defaultLimit", "policy.defaultTimeLimit"},
	{YAML, QueuesFile, "queues.timeLimit.most", "queues.timeLimit.max"},
	{YAML, QueuesFile, "queues.priority.most", "queues.priority.max"},
	{YAML, QueuesFile, "queues.perOwner.machines", "queues.perOwner.nodes"},
	{YAML, QueuesFile, "queues.preemption.minRun", "queues.preemption.minRuntime"},
	{YAML, QueuesFile, "barred", "notAllowed"},

	{Value, "notify.*.on", "job-over", "job-finished"},
	{Value, "notify.*.on", "machine-closed", "node-unschedulable"},
	{Value, "notify.*.on", "machine-open", "node-schedulable"},
	{Value, "notify.*.on", "promise-broken", "start-guarantee-broken"},
}
