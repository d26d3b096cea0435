package environment

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// of returns the environment by name. Each name must appear once.
func of(t *testing.T, task Subject) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, line := range Of(task) {
		name, value, ok := strings.Cut(line, "=")
		if _, twice := found[name]; twice || !ok {
			t.Errorf("%q", line)
		}
		found[name] = value
	}
	return found
}

// gang returns the start of a rank in a gang of four on three nodes.
func gang(rank int32, milliGPU int64, env ...*messages.EnvVar) Subject {
	nodes := []string{"a", "b", "b", "c"}
	r := &messages.Rendezvous{Address: "10.0.0.1", Port: 20001}
	for i, n := range nodes {
		r.Peers = append(r.Peers, &messages.Peer{
			Rank: int32(i), Node: n, Address: "10.0.0." + fmt.Sprint(n[0]-'a'+1), Rack: "r" + n,
		})
	}
	return Subject{
		Hostfile: "/scratch/hostfile",
		Start: &messages.StartTask{
			Id: &messages.TaskId{Token: &messages.Token{Epoch: 2, Counter: 5}, Rank: rank}, Job: "job-x",
			JobName: "llama", Run: 3, Node: nodes[rank], Rendezvous: r, Spec: &messages.JobSpec{Env: env},
			Grant: &messages.Grant{Rank: rank, Amount: &messages.Resources{MilliGpu: milliGPU}},
		},
	}
}

// launched returns a task of a gang with a launcher.
func launched(launcher string, milliGPU int64) Subject {
	task := gang(2, milliGPU)

	task.Start.Spec.Launcher, _ = messages.LaunchOf(launcher)
	return task
}

func gpus(ids ...string) []*messages.Gpu {
	var all []*messages.Gpu
	for i, id := range ids {
		all = append(all, &messages.Gpu{Id: id, Minor: int32(i + 4), Declared: strings.HasPrefix(id, "declared")})
	}
	return all
}

// TestEnvironment checks each variable of the identity, the other tasks and the rendezvous.
func TestEnvironment(t *testing.T) {
	eight := gang(2, 8000)
	eight.Gpus = gpus("GPU-1", "GPU-2")
	amd := gang(2, 2000)
	amd.Gpus = gpus("GPU-0123456789abcdef", "GPU-fedcba9876543210")
	parts := gang(2, 1000)
	parts.Gpus = gpus("MIG-3f5f3a0c-8d1e-5b0a-9a55-6f0d8f2f7c11")
	one := gang(2, 1000)
	one.Gpus = gpus("declared-4")
	alike, alone, warned := gang(2, 0), gang(2, 0), gang(2, 0)
	warned.Notice, warned.Start.Spec.Warn = "/scratch/synapse-notice", &messages.WarnSpec{Signal: 10, AheadMs: 1}
	named := launched("slurm", 1000)
	named.Start.Spec.Title = "Llama_B"
	swept := launched("slurm", 1000)
	swept.Start.Spec.Element = &messages.Element{Array: "k3f", Index: 17, Count: 50, Last: 98, Step: 2}
	for i, p := range alike.Start.Rendezvous.Peers {
		p.Node, p.Address = []string{"a", "b"}[i/2], "10.0.0."+fmt.Sprint(i/2+1)
	}
	for _, p := range alone.Start.Rendezvous.Peers {
		p.Node, p.Address = "b", "10.0.0.2"
	}
	for _, c := range []struct {
		name string
		task Subject
		want string
	}{
		{"identity", gang(2, 0), `SYNAPSE_JOB_ID=job-x SYNAPSE_JOB_NAME=llama SYNAPSE_ATTEMPT=00000002.00000005 SYNAPSE_RUN=3 SYNAPSE_RANK=2
			SYNAPSE_WORLD_SIZE=4 SYNAPSE_NODE=b SYNAPSE_RACK=rb SYNAPSE_HOSTS=10.0.0.1,10.0.0.2,10.0.0.3 SYNAPSE_HOSTFILE=/scratch/hostfile SYNAPSE_NOTICE-`},
		{"called as it was given", named, `SYNAPSE_JOB_NAME=Llama_B SLURM_JOB_NAME=Llama_B`},
		{"of an array", swept, `SYNAPSE_ARRAY_ID=k3f SYNAPSE_ARRAY_INDEX=17 SYNAPSE_ARRAY_COUNT=50 SLURM_ARRAY_TASK_ID=17
			SLURM_ARRAY_TASK_COUNT=50 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_MAX=98 SLURM_ARRAY_TASK_STEP=2`},
		{"told of its end", warned, `SYNAPSE_NOTICE=/scratch/synapse-notice`},
		{"torch", eight, `MASTER_ADDR=10.0.0.1 MASTER_PORT=20001 NODE_RANK=2 PET_NNODES=4 PET_NODE_RANK=2 PET_NPROC_PER_NODE=8
			PET_RDZV_ENDPOINT=10.0.0.1:20001 PET_RDZV_ID=00000002.00000005 RANK- WORLD_SIZE- LOCAL_RANK-`},
		{"one process", one, `PET_NPROC_PER_NODE=1 RANK=2 WORLD_SIZE=4 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1`},
		{"slurm", gang(2, 0), `SLURM_JOB_ID=1128448779 SLURM_NNODES=3 SLURM_NODEID=1 SLURM_PROCID=2 SLURM_LOCALID=1 SLURM_NTASKS=4
			SLURM_JOB_NODELIST=10.0.0.1,10.0.0.2,10.0.0.3 SLURM_JOBID-`},
		{"slurm, complete", one, `SLURM_JOB_NODELIST=10.0.0.1,10.0.0.2,10.0.0.3 SLURM_NODELIST- SLURM_STEP_NODELIST=10.0.0.1,10.0.0.2,10.0.0.3 SLURM_STEP_NUM_NODES=3 SLURM_STEP_NUM_TASKS=4
			SLURM_TASKS_PER_NODE=1,2,1 SLURM_NTASKS_PER_NODE- SLURMD_NODENAME=10.0.0.2 SLURM_GPUS_ON_NODE=2 JAX_LOCAL_DEVICE_IDS=0
			SLURM_JOB_NAME=bash SLURM_LOCALID=0 SLURM_RESTART_COUNT=2 SLURM_TOPOLOGY_ADDR=rb.b SLURM_TOPOLOGY_ADDR_PATTERN=switch.node`},
		{"launcher torchrun", launched("torchrun", 1000), `PET_NNODES=4 GROUP_RANK=2 MASTER_PORT=20001 SLURM_JOB_ID- RANK- JAX_PROCESS_ID- HYDRA_HOST_FILE-`},
		{"launcher slurm", launched("slurm", 1000), `SLURM_NODELIST=10.0.0.1,10.0.0.2,10.0.0.3 SLURM_PROCID=2 SLURM_LOCALID=1 SLURM_JOB_NAME=llama SLURM_CPUS_PER_TASK- MASTER_ADDR- RANK- PET_NNODES-
			SLURM_GPUS_ON_NODE=2`},
		{"launcher slurm, several GPUs", launched("slurm", 8000), `SLURM_PROCID=2 SLURM_NTASKS=4 SLURM_GPUS_ON_NODE=16`},
		{"launcher jax", launched("jax", 8000), `JAX_LOCAL_DEVICE_IDS=0,1,2,3,4,5,6,7 SLURM_NTASKS=4 SLURM_STEP_NODELIST=10.0.0.1,10.0.0.2,10.0.0.3 SLURM_NTASKS_PER_NODE-
			MASTER_ADDR-`},
		{"launcher mpi", launched("mpi", 1000), `HYDRA_HOST_FILE=/scratch/hostfile.mpich MASTER_ADDR=10.0.0.1 RANK- SLURM_JOB_ID- PET_NNODES-`},
		{"launcher deepspeed", launched("deepspeed", 8000), `DLTS_HOSTFILE=/scratch/hostfile NODE_RANK=2 RANK- SLURM_JOB_ID-`},
		{"launcher none", launched("none", 8000), `SYNAPSE_RANK=2 CUDA_VISIBLE_DEVICES= MASTER_ADDR- SLURM_JOB_ID- JAX_PROCESS_ID- HYDRA_HOST_FILE-`},
		{"slurm, machines alike", alike, `SLURM_TASKS_PER_NODE=2(x2) SLURM_NTASKS_PER_NODE=2 SLURM_LOCALID=0 SLURM_GPUS_ON_NODE-`},
		{"slurm, one machine", alone, `SLURM_TASKS_PER_NODE=4 SLURM_NTASKS_PER_NODE=4 SLURM_LOCALID=2 SLURM_NNODES=1`},
		{"slurm, several GPUs", eight, `SLURM_JOB_ID- SLURM_PROCID- SLURM_NTASKS- SLURM_NODELIST- SLURM_LOCALID- SLURM_JOB_NAME- JAX_LOCAL_DEVICE_IDS-`},
		{"jax without a GPU", gang(3, 0), `JAX_LOCAL_DEVICE_IDS-`},
		{"jax", gang(3, 0), `JAX_COORDINATOR_ADDRESS=10.0.0.1:20001 JAX_NUM_PROCESSES=4 JAX_PROCESS_ID=3`},
		{"mpi", gang(0, 0), `OMPI_MCA_orte_default_hostfile=/scratch/hostfile PRTE_MCA_prte_default_hostfile=/scratch/hostfile HYDRA_HOST_FILE=/scratch/hostfile.mpich`},
		{"devices", eight, `CUDA_VISIBLE_DEVICES=GPU-1,GPU-2 NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-2 ROCR_VISIBLE_DEVICES= HIP_VISIBLE_DEVICES= CUDA_DEVICE_ORDER=PCI_BUS_ID SYNAPSE_GPUS=GPU-1,GPU-2`},
		{"devices of AMD", amd, `ROCR_VISIBLE_DEVICES=GPU-0123456789abcdef,GPU-fedcba9876543210 HIP_VISIBLE_DEVICES=0,1 CUDA_VISIBLE_DEVICES=0,1 NVIDIA_VISIBLE_DEVICES=void
			SYNAPSE_GPUS=GPU-0123456789abcdef,GPU-fedcba9876543210`},
		{"part of a divided device", parts, `CUDA_VISIBLE_DEVICES=MIG-3f5f3a0c-8d1e-5b0a-9a55-6f0d8f2f7c11 ROCR_VISIBLE_DEVICES= PET_NPROC_PER_NODE=1`},
		{"declared device", one, `CUDA_VISIBLE_DEVICES=4 ROCR_VISIBLE_DEVICES=4 HIP_VISIBLE_DEVICES=0 SYNAPSE_GPUS=4`},
		{"no device", gang(0, 0), `CUDA_VISIBLE_DEVICES= NVIDIA_VISIBLE_DEVICES=void ROCR_VISIBLE_DEVICES= HIP_VISIBLE_DEVICES=`},
		{"part of a device", gang(0, 500), `PET_NPROC_PER_NODE=1`},
		{
			"the user wins", gang(0, 0, &messages.EnvVar{Name: "MASTER_PORT", Value: "1"},
				&messages.EnvVar{Name: "MINE", Value: "a=b c"}), `MASTER_PORT=1`,
		},
		{"but not over this",
			gang(0, 0, &messages.EnvVar{Name: "SYNAPSE_RANK", Value: "7"}, &messages.EnvVar{Name: "SYNAPSE_SECRET", Value: "x"},
				&messages.EnvVar{Name: "CUDA_VISIBLE_DEVICES", Value: "all"}), `SYNAPSE_RANK=0 CUDA_VISIBLE_DEVICES= SYNAPSE_SECRET-`},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := of(t, c.task)
			for _, want := range strings.Fields(c.want) {
				if name, absent := strings.CutSuffix(want, "-"); absent && !strings.Contains(want, "=") {
					if value, there := env[name]; there {
						t.Errorf("%s=%s is there", name, value)
					}
					continue
				}
				name, value, _ := strings.Cut(want, "=")
				if got, there := env[name]; !there || got != value {
					t.Errorf("%s=%q (%v), want %q", name, got, there, value)
				}
			}
		})
	}
	if got := of(t, gang(0, 0, &messages.EnvVar{Name: "MINE", Value: "a=b c"}))["MINE"]; got != "a=b c" {
		t.Errorf("%q", got)
	}
}

// TestHostfile checks that each node appears once, with one slot per process.
func TestHostfile(t *testing.T) {
	task := gang(0, 2000)
	if got := Hostfile(task.Start.Rendezvous, task.Start.Grant); got != "10.0.0.1 slots=2\n10.0.0.2 slots=4\n"+
		"10.0.0.3 slots=2\n" {
		t.Errorf("%q", got)
	}
	if got := Hosts(task.Start.Rendezvous); got != "10.0.0.1 a\n10.0.0.2 b\n10.0.0.3 c\n" {
		t.Errorf("%q", got)
	}
}

// TestLargeGang checks that no variable exceeds the kernel's limit, and that the hostfile is complete.
func TestLargeGang(t *testing.T) {
	task := gang(0, 8000)
	task.Start.Rendezvous.Peers = nil
	for i := range int32(messages.MaxGangTasks) {
		task.Start.Rendezvous.Peers = append(task.Start.Rendezvous.Peers,
			&messages.Peer{Rank: i, Node: fmt.Sprint(i), Address: fmt.Sprintf("10.%d.%d.1", i/256, i%256)})
	}
	for _, line := range Of(task) {
		if len(line) > 120<<10 {
			t.Errorf("%.40s… is %d bytes", line, len(line))
		}
	}
	if n := strings.Count(Hostfile(task.Start.Rendezvous, task.Start.Grant), "\n"); n != messages.MaxGangTasks {
		t.Error(n)
	}
}

// TestNothingKnown checks that an incomplete start is handled.
func TestNothingKnown(t *testing.T) {
	if env := of(t, Subject{Start: &messages.StartTask{}}); env["SYNAPSE_WORLD_SIZE"] != "1" ||
		env["SYNAPSE_RANK"] != "0" {
		t.Error(env)
	}
}

// TestNumericID checks that a number is unchanged, and that any other id always becomes the same number.
func TestNumericID(t *testing.T) {
	for id, want := range map[string]string{"42": "42", "0": messages.NumericID("0"),
		"99999999999": messages.NumericID("99999999999")} {
		if got := messages.NumericID(id); got != want || got == "0" || len(got) > 10 {
			t.Errorf("%s: %s", id, got)
		}
	}
}

// TestReserved checks that exactly the variables that Synapse always sets are refused at submission.
func TestReserved(t *testing.T) {
	task := gang(2, 8000)
	task.Gpus = gpus("GPU-1")
	fixed := append(newMeeting(task).identity(), devices(task)...)
	for _, v := range fixed {
		if !messages.ReservedEnv(v.name) {
			t.Errorf("%s is overridden in silence", v.name)
		}
	}
	for _, v := range newMeeting(task).spoken() {
		if messages.ReservedEnv(v.name) {
			t.Errorf("%s is the user's to set", v.name)
		}
	}
}

// TestReference checks that docs/reference/environment.md lists exactly the variables that a task may have.
func TestReference(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/environment.md")
	if err != nil {
		t.Fatal(err)
	}
	one, eight, alone := gang(2, 1000), gang(2, 8000), gang(2, 0)
	one.Gpus = gpus("GPU-1")
	one.Start.Grant.Amount.MilliCpu = 8000
	one.Start.Spec.Checkpoint = &messages.CheckpointSpec{Signal: 10}
	one.Start.Spec.Element = &messages.Element{Array: "k3f", Count: 1, Step: 1}
	one.Start.Inherited = &messages.Inherited{Generation: 1, Cause: "rank 5 on node-3 exited with code 1", Rank: 5}
	one.Helper = "/scratch/.synapse/synapse-exec"
	one.Kubeflow = &Kubeflow{"http://127.0.0.1:7", "/scratch/token", "/scratch/ca"}
	for _, p := range alone.Start.Rendezvous.Peers {
		p.Node = "b"
	}
	set := map[string]bool{}
	tasks := []Subject{one, eight, alone}
	for _, word := range messages.LaunchWords() {
		tasks = append(tasks, placed(shape{16, 1, 2}, 3, word), placed(shape{2, 8, 2}, 1, word))
	}
	for _, task := range tasks {
		for name := range of(t, task) {
			set[name] = true
		}
	}
	told := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, "|"); len(cells) > 3 && strings.Contains(cells[1], "`") {
			for name := range strings.FieldsSeq(strings.ReplaceAll(cells[1], "`", "")) {
				told[name] = true
			}
		}
	}
	for name := range set {
		if !told[name] {
			t.Errorf("docs/reference/environment.md does not name %s", name)
		}
	}
	for name := range told {
		if !set[name] {
			t.Errorf("docs/reference/environment.md names %s, which no task has", name)
		}
	}
}
