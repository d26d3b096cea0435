package environment

import (
	"strings"

	"github.com/yi-json/synapse/messages"
)

// This file chooses the variables of a task's environment. For each launcher, it lists the variables that the launcher
// and its programs read. Variables for other launchers do harm. A framework that finds some of them relies on the
// others, and then uses one GPU of eight or waits for a missing Slurm step. docs/jobs/launchers.md lists which program
// reads which variables.

// vocabulary returns one framework's variables for a rendezvous.
type vocabulary func(*meeting) []variable

// launchers maps each launcher to its variables. A launcher that only a later version knows is treated as auto.
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

// spoken returns the variables of the frameworks for the job's launcher.
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

// master returns the rendezvous of torch.distributed and the rank of the task.
func (m *meeting) master() []variable {
	return []variable{{"MASTER_ADDR", m.address}, {"MASTER_PORT", m.port}, {"NODE_RANK", number(m.rank)}}
}

// torchrun returns the variables that torchrun reads instead of its flags. They also contain the rank of the node for
// NVRx's ft_launcher, which reads the same variables.
func (m *meeting) torchrun() []variable {
	return []variable{
		{"PET_NNODES", number(m.world)}, {"PET_NODE_RANK", number(m.rank)}, {"PET_NPROC_PER_NODE", number(m.processes)},
		{"PET_RDZV_ENDPOINT", m.endpoint()}, {"PET_RDZV_ID", m.attempt},
		{"PET_MASTER_ADDR", m.address}, {"PET_MASTER_PORT", m.port}, {"GROUP_RANK", number(m.rank)},
	}
}

// process returns the variables of one torch process, for a task with at most one GPU. Such a task is one process, so
// it gets the same variables as from torchrun. Its only device has the number 0. A task with several GPUs gets none,
// because one RANK would be wrong for all processes but one.
func (m *meeting) process() []variable {
	if m.processes > 1 {
		return nil
	}
	return []variable{
		{"RANK", number(m.rank)}, {"WORLD_SIZE", number(m.world)}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"},
	}
}

// jax returns the variables of JAX. JAX itself reads the address and its local devices. The program passes the others
// to JAX.
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

// jaxStep returns the Slurm variables from which JAX reads the number of processes. JAX uses the number of a process on
// its node as the number of its device, and a task's first device has the number 0. A JAX too old for
// JAX_LOCAL_DEVICE_IDS is therefore right for a task with one GPU, and uses only the first of several GPUs.
func (m *meeting) jaxStep() []variable {
	return []variable{
		{"SLURM_JOB_ID", messages.NumericID(m.start.GetJob())}, {"SLURM_STEP_NODELIST", m.list()},
		{"SLURM_NTASKS", number(m.world)},
		{"SLURM_PROCID", number(m.rank)}, {"SLURM_LOCALID", "0"}, {"SLURM_STEP_NUM_NODES", number(len(m.hosts))},
	}
}

// mpi returns variables with the list of nodes and the remote shell for the launchers of Open MPI (old and new) and
// MPICH.
func (m *meeting) mpi() []variable {
	words := []variable{
		{"OMPI_MCA_orte_default_hostfile", m.subject.Hostfile}, {"PRTE_MCA_prte_default_hostfile", m.subject.Hostfile},
		{"HYDRA_HOST_FILE", m.subject.Hostfile + HydraSuffix},
	}
	if m.subject.Helper == "" {
		return words
	}
	// They start their daemons with the helper, all from rank 0, because the helper's path may differ in another
	// task.
	return append(words, variable{"OMPI_MCA_plm_rsh_agent", m.subject.Helper},
		variable{"OMPI_MCA_plm_rsh_no_tree_spawn", "1"}, variable{"PRTE_MCA_plm_ssh_agent", m.subject.Helper},
		variable{"PRTE_MCA_plm_ssh_no_tree_spawn", "1"}, variable{"HYDRA_LAUNCHER", "ssh"},
		variable{"HYDRA_LAUNCHER_EXEC", m.subject.Helper})
}

// deepspeed returns the hostfile variable that GPT-NeoX and others pass to DeepSpeed's launcher. The launcher itself
// reads /job/hostfile, which a container has (JobHostfile).
func (m *meeting) deepspeed() []variable {
	return []variable{{"DLTS_HOSTFILE", m.subject.Hostfile}}
}

// JobHostfile is the path at which DeepSpeed's launcher expects the list of nodes.
const JobHostfile = "/job/hostfile"

// HasJobHostfile reports whether a container gets that file. With another launcher it gets none, because DeepSpeed
// takes a list to mean several nodes and needs ssh.
func HasJobHostfile(spec *messages.JobSpec) bool {
	return spec.GetLauncher() == messages.Launch_LAUNCH_DEEPSPEED
}

// counted returns 0,1,2 and so on: the devices of a task in the numbering of its libraries.
func counted(n int) string {
	numbers := make([]string, n)
	for i := range numbers {
		numbers[i] = number(i)
	}
	return strings.Join(numbers, ",")
}
