package environment

import (
	"slices"
	"strings"

	"github.com/yi-json/synapse/messages"
)

// This file owns Slurm's variables. Many frameworks fall back to them, and one that finds a part of them relies on the
// rest: so a task has them complete and true, or has none. Several frameworks calculate with the job's id, so it is a
// number here. SLURM_JOBID, without its second underline, is left out on purpose: with it mpirun looks for srun.

// slurm: the task looks like one that srun started. Torch's own variables are not among Slurm's, and a program that
// makes them from Slurm's (submitit) refuses to run if they exist, so none stand beside these.
func (m *meeting) slurm() []variable {
	nodes, world, list, each := number(len(m.hosts)), number(m.world), m.list(), m.tasksPerHost()
	v := []variable{
		{"SLURM_JOB_ID", messages.NumericID(m.start.GetJob())}, {"SLURM_JOB_NAME", m.start.Called()},
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
	v = append(v, m.array()...)
	if !strings.Contains(each, ",") { // where machines differ there is no single number
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

// array is which of an array's jobs this is, as Slurm says it.
func (m *meeting) array() []variable {
	e := m.start.GetSpec().GetElement()
	if e == nil {
		return nil
	}
	v := []variable{
		{"SLURM_ARRAY_JOB_ID", messages.NumericID(e.GetArray())}, {"SLURM_ARRAY_TASK_ID", number(int(e.GetIndex()))},
		{"SLURM_ARRAY_TASK_COUNT", number(int(e.GetCount()))}, {"SLURM_ARRAY_TASK_MIN", number(int(e.GetFirst()))},
		{"SLURM_ARRAY_TASK_MAX", number(int(e.GetLast()))},
	}
	if e.GetStep() > 0 {
		v = append(v, variable{"SLURM_ARRAY_TASK_STEP", number(int(e.GetStep()))})
	}
	return v
}

// topology is where the machine stands in the form of Slurm's tree of switches: a rack is the switch of its machines.
func (m *meeting) topology() []variable {
	address, pattern := m.start.GetNode(), "node" // by its name: an address has dots of its own
	if m.rack != "" {
		address, pattern = m.rack+"."+address, "switch.node"
	}
	return []variable{{"SLURM_TOPOLOGY_ADDR", address}, {"SLURM_TOPOLOGY_ADDR_PATTERN", pattern}}
}

// guess: if the job names no launcher, a task that is one process has Slurm's variables too, for programs that read
// nothing else. A task with several GPUs has none: its processes are started later, by a launcher that numbers them.
// Two variables differ from srun's, because srun's values would mislead a framework. Lightning takes a job called
// "bash" for a shell on Slurm, and then reads torch's variables, which are right wherever the gang is placed. And where
// the number of a process on its machine is taken for that of its device (JAX), 0 is right: the task sees only that
// one. And one is missing: by SLURM_NODELIST alone Open MPI 4 takes whatever initialises MPI for started by srun, and
// ends it, where it was built without Slurm's PMI. Many programs do that without a use for it: Lightning and others ask
// mpi4py, where that is installed, how many they are. SLURM_JOB_NODELIST says the same.
func (m *meeting) guess() []variable {
	if m.processes > 1 {
		return nil
	}
	v := slices.DeleteFunc(m.slurm(), func(v variable) bool { return v.name == "SLURM_NODELIST" })
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
