package environment

import (
	"slices"
	"strings"

	"github.com/yi-json/synapse/messages"
)

// This file owns Slurm's variables. Many frameworks fall back to them, and a framework that finds some of them relies
// on the others. A task therefore gets all of them with true values, or none. Several frameworks calculate with the
// job's id, so it is a number here. SLURM_JOBID, without the second underscore, is omitted on purpose, because mpirun
// would then search for srun. Only the scripts of sbatch set it, because they have an srun.

// slurm returns the variables of a task that srun started. Torch's variables are not included. A program that derives
// them from Slurm's variables (submitit) refuses to run if they exist.
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
	if !strings.Contains(each, ",") { // with different numbers per node there is no single number
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

// array returns the index of an array element in Slurm's variables.
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

// topology returns the node's position in the form of Slurm's tree of switches. A rack is the switch of its nodes.
func (m *meeting) topology() []variable {
	address, pattern := m.start.GetNode(), "node" // the name, because an address contains dots
	if m.rack != "" {
		address, pattern = m.rack+"."+address, "switch.node"
	}
	return []variable{{"SLURM_TOPOLOGY_ADDR", address}, {"SLURM_TOPOLOGY_ADDR_PATTERN", pattern}}
}

// guess returns Slurm's variables for a job without a launcher, if the task is one process. Some programs read nothing
// else. A task with several GPUs gets none, because a launcher later starts and numbers its processes.
//
// Two variables differ from srun's, because srun's values would mislead a framework. Lightning takes a job called
// "bash" for a shell on Slurm, and then reads torch's variables, which are always right. JAX takes the number of a
// process on its node for that of its device. 0 is right, because the task sees only one device.
//
// One variable is missing, SLURM_NODELIST. If Open MPI 4 was built without Slurm's PMI, it assumes that srun started
// any process that initializes MPI, and ends the process. Many programs initialize MPI without using it: Lightning and
// others ask mpi4py, if it is installed, for the number of processes. SLURM_JOB_NODELIST has the same value.
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
