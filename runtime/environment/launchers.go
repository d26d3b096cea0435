package environment

import (
	"strings"

	"github.com/yi-json/synapse/messages"
)

// This file owns which variables a task's environment has: for each launcher the vocabularies that it, and what it
// starts, read. Another launcher's vocabulary does harm: a framework that finds a part of it relies on the rest, and
// uses one GPU of eight, or waits for a Slurm step that nobody started. docs/jobs/launchers.md says who reads what.

// vocabulary is one framework's variables for the meeting.
type vocabulary func(*meeting) []variable

// launchers are the vocabularies of each. A launcher that only a later version knows is treated as auto.
var launchers = map[messages.Launch][]vocabulary{
	messages.Launch_LAUNCH_AUTO: {
		(*meeting).master, (*meeting).torchrun, (*meeting).process, (*meeting).guess, (*meeting).jax, (*meeting).mpi,
	},
	messages.Launch_LAUNCH_TORCHRUN:  {(*meeting).master, (*meeting).torchrun},
	messages.Launch_LAUNCH_JAX:       {(*meeting).jax, (*meeting).jaxStep},
	messages.Launch_LAUNCH_SLURM:     {(*meeting).slurm},
	messages.Launch_LAUNCH_MPI:       {(*meeting).master, (*meeting).mpi},
	messages.Launch_LAUNCH_DEEPSPEED: {(*meeting).master, (*meeting).process, (*meeting).deepspeed},
	messages.Launch_LAUNCH_NONE:      {},
}

// spoken are the variables of the frameworks, by the job's launcher.
func (m *meeting) spoken() (all []variable) {
	vocabularies, ok := launchers[m.start.GetSpec().GetLauncher()]
	if !ok {
		vocabularies = launchers[messages.Launch_LAUNCH_AUTO]
	}
	for _, v := range vocabularies {
		all = append(all, v(m)...)
	}
	return all
}

// master is where torch.distributed meets, and which of the tasks this is.
func (m *meeting) master() []variable {
	return []variable{{"MASTER_ADDR", m.address}, {"MASTER_PORT", m.port}, {"NODE_RANK", number(m.rank)}}
}

// torchrun has the variables that it reads in place of its flags, and for NVRx's ft_launcher, which reads the same,
// which machine this is.
func (m *meeting) torchrun() []variable {
	return []variable{
		{"PET_NNODES", number(m.world)}, {"PET_NODE_RANK", number(m.rank)}, {"PET_NPROC_PER_NODE", number(m.processes)},
		{"PET_RDZV_ENDPOINT", m.endpoint()}, {"PET_RDZV_ID", m.attempt},
		{"PET_MASTER_ADDR", m.address}, {"PET_MASTER_PORT", m.port}, {"GROUP_RANK", number(m.rank)},
	}
}

// process is for a task with at most one GPU: it is one process, so it gets what torchrun would have given it; its only
// device is its number 0. A task with several GPUs has none of these: one RANK would be wrong for all processes but
// one.
func (m *meeting) process() []variable {
	if m.processes > 1 {
		return nil
	}
	return []variable{
		{"RANK", number(m.rank)}, {"WORLD_SIZE", number(m.world)}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"},
	}
}

// jax: JAX reads the address and its local devices by itself; a program passes the others on.
func (m *meeting) jax() []variable {
	v := []variable{
		{"JAX_COORDINATOR_ADDRESS", m.endpoint()},
		{"JAX_NUM_PROCESSES", number(m.world)}, {"JAX_PROCESS_ID", number(m.rank)},
	}
	if m.hasGPU() && (m.processes == 1 || m.start.GetSpec().GetLauncher() == messages.Launch_LAUNCH_JAX) {
		v = append(v, variable{"JAX_LOCAL_DEVICE_IDS", counted(m.processes)})
	}
	return v
}

// jaxStep is the part of Slurm's variables from which JAX learns how many processes there are; it reads no others. JAX
// takes the number of a process on its machine as that of its device, and a task's first device is its number 0. So a
// JAX too old for JAX_LOCAL_DEVICE_IDS is right with a task of one GPU, and takes the first one of a task with several.
func (m *meeting) jaxStep() []variable {
	return []variable{
		{"SLURM_JOB_ID", messages.NumericID(m.start.GetJob())}, {"SLURM_STEP_NODELIST", m.list()},
		{"SLURM_NTASKS", number(m.world)},
		{"SLURM_PROCID", number(m.rank)}, {"SLURM_LOCALID", "0"}, {"SLURM_STEP_NUM_NODES", number(len(m.hosts))},
	}
}

// mpi says where the launchers of Open MPI (old and new) and MPICH look for machines, and by what they reach them.
func (m *meeting) mpi() []variable {
	words := []variable{
		{"OMPI_MCA_orte_default_hostfile", m.subject.Hostfile}, {"PRTE_MCA_prte_default_hostfile", m.subject.Hostfile},
		{"HYDRA_HOST_FILE", m.subject.Hostfile + HydraSuffix},
	}
	if m.subject.Helper == "" {
		return words
	}
	// They start their daemons by it, each from rank 0: the program may lie elsewhere for another task.
	return append(words, variable{"OMPI_MCA_plm_rsh_agent", m.subject.Helper},
		variable{"OMPI_MCA_plm_rsh_no_tree_spawn", "1"}, variable{"PRTE_MCA_plm_ssh_agent", m.subject.Helper},
		variable{"PRTE_MCA_plm_ssh_no_tree_spawn", "1"}, variable{"HYDRA_LAUNCHER", "ssh"},
		variable{"HYDRA_LAUNCHER_EXEC", m.subject.Helper})
}

// deepspeed says where GPT-NeoX and others make DeepSpeed's launcher look for machines. By itself it looks at
// /job/hostfile, which a container has (JobHostfile).
func (m *meeting) deepspeed() []variable {
	return []variable{{"DLTS_HOSTFILE", m.subject.Hostfile}}
}

// JobHostfile is where DeepSpeed's launcher looks for the list of machines.
const JobHostfile = "/job/hostfile"

// HasJobHostfile reports whether a container has that file. With another launcher it has none, because DeepSpeed takes
// a list to mean several machines, and asks for ssh.
func HasJobHostfile(spec *messages.JobSpec) bool {
	return spec.GetLauncher() == messages.Launch_LAUNCH_DEEPSPEED
}

// counted is 0,1,2: the devices of a task as its libraries number them.
func counted(n int) string {
	numbers := make([]string, n)
	for i := range numbers {
		numbers[i] = number(i)
	}
	return strings.Join(numbers, ",")
}
