package environment

import "strings"

// This file owns Slurm's words. Many frameworks fall back to them, and one that finds a part of them takes the rest
// for granted: so a task has them complete and true, or has none. Several frameworks do sums with the job's id, so it
// is a number here. SLURM_JOBID, without its second underline, is left out on purpose: with it mpirun looks for srun.

// slurm: a task is a task of Slurm's, as srun would have started it. Torch's own words are not among Slurm's, and a
// program that makes them from Slurm's refuses to find them there (submitit), so none stand beside these.
func (m *meeting) slurm() []variable {
	nodes, world, list, each := number(len(m.hosts)), number(m.world), m.list(), m.tasksPerHost()
	v := []variable{
		{"SLURM_JOB_ID", numericID(m.start.GetJob())}, {"SLURM_JOB_NAME", m.start.GetJobName()},
		{"SLURM_NNODES", nodes}, {"SLURM_JOB_NUM_NODES", nodes},
		{"SLURM_NODEID", number(m.host)}, {"SLURMD_NODENAME", m.hostAddress()},
		{"SLURM_PROCID", number(m.rank)}, {"SLURM_LOCALID", number(m.local)},
		{"SLURM_NTASKS", world}, {"SLURM_NPROCS", world},
		{"SLURM_TASKS_PER_NODE", each}, {"SLURM_NODELIST", list}, {"SLURM_JOB_NODELIST", list},
		{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NODELIST", list}, {"SLURM_STEP_NUM_NODES", nodes},
		{"SLURM_STEP_NUM_TASKS", world}, {"SLURM_STEP_TASKS_PER_NODE", each},
		{"SLURM_RESTART_COUNT", number(max(0, int(m.start.GetRun())-1))},
	}
	v = append(v, m.topology()...)
	if !strings.Contains(each, ",") { // where machines differ there is no such number
		v = append(v, variable{"SLURM_NTASKS_PER_NODE", strings.SplitN(each, "(", 2)[0]})
	}
	amount := m.start.GetGrant().GetAmount()
	if cpus := amount.GetMilliCpu(); cpus > 0 && cpus%1000 == 0 {
		v = append(v, variable{"SLURM_CPUS_PER_TASK", number(int(cpus / 1000))})
	}
	if m.hasGPU() {
		v = append(v, variable{"SLURM_GPUS_ON_NODE", number(m.tasksHere() * m.processes)})
	}
	return v
}

// topology is where the machine stands, as Slurm's tree of switches says it: a rack is what its machines' switch is.
func (m *meeting) topology() []variable {
	address, pattern := m.start.GetNode(), "node" // by its name: an address has dots of its own
	if m.rack != "" {
		address, pattern = m.rack+"."+address, "switch.node"
	}
	return []variable{{"SLURM_TOPOLOGY_ADDR", address}, {"SLURM_TOPOLOGY_ADDR_PATTERN", pattern}}
}

// guess: without a launcher's name a task that is one process has Slurm's words too, for those who ask nothing else,
// and one of several GPUs has none: its processes are yet to be started, by a launcher that says itself which is
// which. Two of them are other than srun would say, because each misleads somebody. A job of the name "bash" is what
// Lightning takes for a shell on Slurm, and asks the words of torch, which are right wherever the gang is placed. And
// where the number of a process on its machine is taken for that of its device (JAX), 0 is right: it is the only one
// that the task sees.
func (m *meeting) guess() []variable {
	if m.processes > 1 {
		return nil
	}
	v := m.slurm()
	for i := range v {
		switch {
		case v[i].name == "SLURM_JOB_NAME":
			v[i].value = "bash"
		case v[i].name == "SLURM_LOCALID" && m.hasGPU():
			v[i].value = "0"
		}
	}
	return v
}
