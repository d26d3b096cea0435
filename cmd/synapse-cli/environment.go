package main

// This file describes the environment variables of a task. `help environment` prints these texts, and a test writes
// docs/reference/environment.md from them. Package runtime/environment sets the variables and checks that the page
// is complete.

// variableGroup describes the variables of one purpose.
type variableGroup struct {
	title, note string
	variables   []variableText
}

// variableText describes variables that are set together.
type variableText struct {
	names                  []string
	meaning, when, example string
}

func one(name, meaning, when, example string) variableText {
	return variableText{[]string{name}, meaning, when, example}
}

// environmentTexts returns the descriptions of all variables.
func environmentTexts() []variableGroup {
	return []variableGroup{
		{"Task and gang", "", identityTexts()},
		{"GPUs", "", gpuTexts()},
		{"Kubeflow", "These variables describe an endpoint for the progress of the task, with the protocol of " +
			"Kubeflow Trainer.\nThe `Trainer` of Hugging Face uses this endpoint automatically.\nA job may " +
			"override these variables.", kubeflowTexts()},
		{"torch", "For torch, each task is a node: `torchrun` reads the `PET_` variables and starts one process " +
			"per GPU.\n" +
			"A task with several GPUs has no `RANK`, because each of its processes needs a different one.\n" +
			"Use `torchrun`, or compute `SYNAPSE_RANK * N + LOCAL_RANK` for N GPUs per task in your own launcher.",
			torchTexts()},
		{"Slurm", "Lightning, Accelerate, DeepSpeed and JAX read these variables and need all of them.\n" +
			"A task with at most one GPU therefore has the complete set.\nA task with several GPUs has none of " +
			"these variables, unless the launcher is `slurm` or `jax`.\n" +
			"`SLURM_JOBID` is set only in jobs of [`sbatch`, `salloc` and `srun`](slurm-steps.md), because `mpirun` then " +
			"starts its daemons with `srun`.", slurmTexts()},
		{"JAX", "", jaxTexts()},
		{"MPI", "", mpiTexts()},
		{"DeepSpeed", "", []variableText{one("DLTS_HOSTFILE", "Host list for DeepSpeed. A container also has it as "+
			"`/job/hostfile`, the default path of DeepSpeed's launcher.", "`launcher: deepspeed`", "/scratch/hostfile")}},
	}
}

func kubeflowTexts() []variableText {
	when := "tasks on the node's network, unless the job has `progress: {kubeflow: off}`"
	return []variableText{
		one("KUBEFLOW_TRAINER_SERVER_URL", "Address to which the task may send its progress.", when,
			"http://127.0.0.1:41207/progress"),
		one("KUBEFLOW_TRAINER_SERVER_TOKEN", "File with the token for that address. Only the task's user can read the file.",
			when, "/scratch/synapse-progress-token"),
		one("KUBEFLOW_TRAINER_SERVER_CA_CERT", "File with a certificate that is not used, because the connection has no TLS.",
			when, "/scratch/synapse-progress-ca.pem"),
	}
}

func identityTexts() []variableText {
	return []variableText{
		one("SYNAPSE_JOB_ID", "ID of the job.", "always", "7kq2m9x4c1abz"),
		one("SYNAPSE_JOB_NAME", "Name of the job in lower case, derived from the given name.", "always", "llama"),
		one("SYNAPSE_ATTEMPT", "Token of the attempt. Compared as text, a later attempt has a greater token, so "+
			"storage can refuse writes of earlier attempts.", "always", "00000002.00000005"),
		one("SYNAPSE_RUN", "Number of the attempt, counted from 1.", "always", "3"),
		one("SYNAPSE_GENERATION", "Number of restarts in place before this attempt.", "after a restart in place", "1"),
		one("SYNAPSE_RESTART_CAUSE", "Why the attempt before ended, as a sentence.", "after a restart in place", ""),
		one("SYNAPSE_RESTART_RANK", "The rank that failed first, or -1.", "after a restart in place", "5"),
		one("SYNAPSE_RANK", "Rank of the task, counted from 0.", "always", "2"),
		one("SYNAPSE_WORLD_SIZE", "Number of tasks, not of GPUs.", "always", "4"),
		one("SYNAPSE_NODE", "Name of the node. If a gang runs on several nodes, its containers can resolve the "+
			"names of these nodes.",
			"always", "n17"),
		one("SYNAPSE_RACK", "Rack of the node.", "always; empty if the node has none", "r2"),
		one("SYNAPSE_HOSTS", "Addresses of the nodes of the gang.", "always; empty above 96 KiB",
			"10.0.0.1,10.0.0.2,10.0.0.3"),
		one("SYNAPSE_HOSTFILE", "Host file. Each line has a node and `slots=`, with one slot per GPU and at least "+
			"one per task.",
			"always",
			"/scratch/hostfile"),
		one("SYNAPSE_EXEC", "Program that serves as a remote shell between the tasks of the gang, and acknowledges "+
			"checkpoints.",
			"the node has `synapse-exec` and a driver that supports it", "/scratch/.synapse/synapse-exec"),
		{[]string{"SYNAPSE_ARRAY_ID", "SYNAPSE_ARRAY_INDEX", "SYNAPSE_ARRAY_COUNT"},
			"ID of the array, index of this element, and number of elements.", "elements of an array", "k3f 17 100"},
		one("SYNAPSE_CHECKPOINT_DIR", "Directory in which a task acknowledges a checkpoint, in the file `ack.RANK`.",
			"jobs that save on request", "/scratch"),
		one("SYNAPSE_NOTICE", "File with the reason and the time of a stop that is coming, or with the time for "+
			"which the job has done nothing. It appears together with the warning signal.",
			"jobs with `warn`, and jobs that save on request", "/scratch/synapse-notice"),
		one("SYNAPSE_PROGRESS", "File to which the task may append its progress, as JSON lines.",
			"always", "/scratch/synapse-progress"),
		one("SYNAPSE_GPUS", "UUIDs of the task's GPUs.", "always; empty without GPUs", "GPU-5f3a…"),
	}
}

func gpuTexts() []variableText {
	return []variableText{
		one("CUDA_DEVICE_ORDER", "Device order of CUDA.", "always", "PCI_BUS_ID"),
		one("CUDA_VISIBLE_DEVICES", "NVIDIA GPUs of the task. For AMD GPUs, the value of `HIP_VISIBLE_DEVICES`.",
			"always; empty without GPUs", "GPU-5f3a…"),
		one("NVIDIA_VISIBLE_DEVICES", "NVIDIA GPUs of the task.", "always; `void` without NVIDIA GPUs", "GPU-5f3a…"),
		one("ROCR_VISIBLE_DEVICES", "AMD GPUs of the task.", "always; empty without AMD GPUs", "GPU-0123456789abcdef"),
		one("HIP_VISIBLE_DEVICES", "Positions of the AMD GPUs in `ROCR_VISIBLE_DEVICES`.", "always; empty without "+
			"AMD GPUs", "0"),
	}
}

func torchTexts() []variableText {
	return []variableText{
		{[]string{"MASTER_ADDR", "MASTER_PORT"}, "Address of the node of rank 0, and a free port on this " +
			"node.", "always",
			"10.0.0.1 20001"},
		one("NODE_RANK", "Rank of the task.", "always", "2"),
		{[]string{"PET_NNODES", "PET_NODE_RANK"}, "Number of tasks, and the rank of this task.", "always", "4 2"},
		one("PET_NPROC_PER_NODE", "Number of GPUs of the task, at least 1.", "always", "1"),
		{[]string{"PET_RDZV_ENDPOINT", "PET_RDZV_ID"}, "Rendezvous endpoint and ID.", "always",
			"10.0.0.1:20001 00000002.00000005"},
		{[]string{"PET_MASTER_ADDR", "PET_MASTER_PORT"}, "The values of `MASTER_ADDR` and `MASTER_PORT`.", "always",
			"10.0.0.1 20001"},
		one("GROUP_RANK", "The value of `NODE_RANK`, for the launcher `ft_launcher` of NVRx.", "always", "2"),
		{[]string{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
			"Rank of the process and number of processes: first in the gang, then in the task.", "tasks with at " +
				"most one GPU", "2 4 0 1"},
	}
}

func slurmTexts() []variableText {
	const whole = "complete set"
	return []variableText{
		one("SLURM_JOB_ID", "Number that is computed from the ID of the job.", whole, "1128448779"),
		one("SLURM_JOB_NAME", "Name of the job. With `launcher: auto` it is `bash`, so that Lightning uses torch's "+
			"variables.",
			whole+", except `launcher: jax`", "llama"),
		{[]string{"SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_STEP_NUM_NODES"}, "Number of nodes of the gang.",
			whole, "3"},
		{[]string{"SLURM_NODEID", "SLURMD_NODENAME"}, "Position and address of the node in the gang.", whole, "1 " +
			"10.0.0.2"},
		{[]string{"SLURM_JOB_NODELIST", "SLURM_STEP_NODELIST"}, "Addresses of the nodes.", whole,
			"10.0.0.1,10.0.0.2,10.0.0.3"},
		{[]string{"SLURM_PROCID", "SLURM_LOCALID"}, "Rank of the task in the gang and among the tasks on its node. " +
			"With `auto` and `jax`, the second value is 0 for a task with a GPU, because JAX uses it as the device " +
			"number.", whole, "2 0"},
		{[]string{"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS"}, "Number of tasks.", whole, "4"},
		{[]string{"SLURM_TASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE"}, "Number of tasks on each node.", whole, "1,2,1"},
		one("SLURM_NTASKS_PER_NODE", "Number of tasks per node.", whole+", if all nodes have the same number", "2"),
		one("SLURM_STEP_ID", "Step of the job.", whole, "0"),
		one("SLURM_CPUS_PER_TASK", "Cores of the task.", whole+", if the task requests whole cores", "8"),
		one("SLURM_GPUS_ON_NODE", "GPUs of all tasks of the job on this node.", whole+", for tasks with GPUs", "2"),
		one("SLURM_RESTART_COUNT", "Number of earlier attempts.", whole, "2"),
		{[]string{"SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN",
			"SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_STEP"}, "ID of the array, index of this element, and number, " +
			"minimum, maximum and step of the indices. The step is set only if the indices are evenly " +
			"spaced.", whole + ", for elements of an array", "1128448779 17 100 0 99 1"},
		{[]string{"SLURM_TOPOLOGY_ADDR", "SLURM_TOPOLOGY_ADDR_PATTERN"}, "Name of the rack and the node (only the " +
			"node if it has no rack), and the pattern of this value.", whole,
			"r2.n17 switch.node"},
		one("SLURM_NODELIST", "Addresses of the nodes. With this variable alone, Open MPI 4 assumes that `srun` "+
			"started the "+
			"program and aborts.", "`launcher: slurm`", "10.0.0.1,10.0.0.2,10.0.0.3"),
	}
}

func jaxTexts() []variableText {
	return []variableText{
		one("JAX_COORDINATOR_ADDRESS", "Address of the coordinator, which JAX reads by itself.", "always",
			"10.0.0.1:20001"),
		{[]string{"JAX_NUM_PROCESSES", "JAX_PROCESS_ID"}, "Values to pass to `jax.distributed.initialize`; JAX " +
			"does not read " +
			"these variables.", "always", "4 2"},
		one("JAX_LOCAL_DEVICE_IDS", "Device numbers of the task.", "tasks with one GPU; with `launcher: jax`, also "+
			"several: "+
			"`0,1,2,3`", "0"),
	}
}

func mpiTexts() []variableText {
	return []variableText{
		{[]string{"OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile"}, "Host file for Open MPI and " +
			"PRRTE.",
			"always", "/scratch/hostfile"},
		one("HYDRA_HOST_FILE", "Host file for MPICH, in the form `10.0.0.1:1`.", "always", "/scratch/hostfile.mpich"),
		{[]string{"OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent", "HYDRA_LAUNCHER_EXEC"}, "Program that starts " +
			"daemons on other nodes.",
			"with `SYNAPSE_EXEC`", "/scratch/.synapse/synapse-exec"},
		{[]string{"OMPI_MCA_plm_rsh_no_tree_spawn", "PRTE_MCA_plm_ssh_no_tree_spawn", "HYDRA_LAUNCHER"},
			"Settings that make rank 0 start all daemons itself, through the remote shell.",
			"with `SYNAPSE_EXEC`", "1 1 ssh"},
	}
}
