package environment

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// This file describes how frameworks read a task's environment. Each rule is a small function that computes the
// framework's processes. The rules follow the frameworks' own code. The name of a rule ends with the release, commit or
// month of that code. A newer rule is a new function next to the old one. TestFacts checks that our variables lead each
// framework to the right result.

// process is a process that a framework runs in a task.
type process struct {
	rank, world int
	devices     []int // in the numbering of the task's libraries; nil: all visible devices
}

// rule returns the processes that a framework runs for a task's environment, with this number of visible devices.
type rule func(env map[string]string, visible int) ([]process, error)

// asked reads required variables as numbers.
func asked(env map[string]string, names ...string) ([]int, error) {
	numbers := make([]int, len(names))
	for i, name := range names {
		n, err := strconv.Atoi(env[name])
		if err != nil {
			return nil, fmt.Errorf("%s=%q", name, env[name])
		}
		numbers[i] = n
	}
	return numbers, nil
}

// spawned returns the processes that a launcher starts on a node: one per device, or one if there is none.
func spawned(node, nodes, each, visible int) ([]process, error) {
	if each > max(visible, 1) {
		return nil, fmt.Errorf("%d processes for %d devices", each, visible)
	}
	all := make([]process, each)
	for i := range all {
		all[i] = process{rank: node*each + i, world: nodes * each, devices: []int{i}}
	}
	return all, nil
}

// torchrun113 describes torchrun 1.13 to 2.x. Its flags default to the PET_ variables. The agent of node_rank starts
// nproc_per_node workers.
func torchrun113(env map[string]string, visible int) ([]process, error) {
	n, err := asked(env, "PET_NODE_RANK", "PET_NNODES", "PET_NPROC_PER_NODE")
	if err != nil || env["PET_RDZV_ENDPOINT"] == "" {
		return nil, errors.Join(err, errors.New("no rendezvous"))
	}
	return spawned(n[0], n[1], n[2], visible)
}

// torchEnv113 describes env:// of torch.distributed 1.13 to 2.x, in a program without a launcher.
func torchEnv113(env map[string]string, _ int) ([]process, error) {
	n, err := asked(env, "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT")
	if err != nil || env["MASTER_ADDR"] == "" {
		return nil, errors.Join(err, errors.New("no address"))
	}
	return []process{{n[0], n[1], []int{n[2]}}}, nil
}

// lightning03f57f9 describes SLURMEnvironment and LightningEnvironment. Lightning uses Slurm if SLURM_NTASKS exists and
// the job's name is neither bash nor interactive. Otherwise it starts the processes itself, unless LOCAL_RANK shows
// that they were started. With Trainer(devices="auto", num_nodes=N), the program sets the number of nodes, and the
// number of devices is detected.
func lightning03f57f9(env map[string]string, visible int) ([]process, error) {
	return lightning(env, visible, "bash", "interactive")
}

// lightningFfd8176 describes the older version, which checks only the name bash.
func lightningFfd8176(env map[string]string, visible int) ([]process, error) {
	return lightning(env, visible, "bash")
}

func lightning(env map[string]string, visible int, shells ...string) ([]process, error) {
	each, nodes := max(visible, 1), tasksOfTest(env)
	if _, slurm := env["SLURM_NTASKS"]; slurm && !slices.Contains(shells, env["SLURM_JOB_NAME"]) {
		n, err := asked(env, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE")
		if err != nil || n[3] != each {
			named := env["SLURM_NTASKS_PER_NODE"]
			return nil, errors.Join(err, fmt.Errorf("devices=%d, and SLURM_NTASKS_PER_NODE=%s", each, named))
		}
		return []process{{n[0], n[1], []int{n[2]}}}, nil
	}
	n, err := asked(env, "NODE_RANK", "MASTER_PORT")
	if err != nil {
		return nil, err
	}
	if _, external := env["LOCAL_RANK"]; !external {
		return spawned(n[0], nodes, each, visible)
	}
	local, err := asked(env, "LOCAL_RANK")
	if err != nil {
		return nil, err
	}
	return []process{{n[0]*each + local[0], nodes * each, local}}, nil
}

// tasksOfTest returns the number of nodes that the program itself sets.
func tasksOfTest(env map[string]string) int {
	n, _ := strconv.Atoi(env["SYNAPSE_WORLD_SIZE"])
	return n
}

// jax01f4709 describes jax.distributed.initialize() without arguments before 2025. SLURM_JOB_ID alone means Slurm, and
// the process uses the device of its SLURM_LOCALID.
func jax01f4709(env map[string]string, _ int) ([]process, error) {
	if _, slurm := env["SLURM_JOB_ID"]; !slurm {
		return nil, errors.New("Number of processes must be defined.")
	}
	n, err := asked(env, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")
	if err != nil || env["SLURM_STEP_NODELIST"] == "" && env["JAX_COORDINATOR_ADDRESS"] == "" {
		return nil, errors.Join(err, errors.New("no coordinator"))
	}
	return []process{{n[0], n[1], []int{n[2]}}}, nil
}

// jax202508 describes the version that reads JAX_LOCAL_DEVICE_IDS before Slurm's variables, and that requires a list of
// nodes for Slurm.
func jax202508(env map[string]string, visible int) ([]process, error) {
	if env["SLURM_STEP_NODELIST"] == "" {
		return nil, errors.New("Number of processes must be defined.")
	}
	found, err := jax01f4709(env, visible)
	if ids := env["JAX_LOCAL_DEVICE_IDS"]; err == nil && ids != "" {
		found[0].devices = nil
		for id := range strings.SplitSeq(ids, ",") {
			n, err := strconv.Atoi(id)
			if err != nil {
				return nil, err
			}
			found[0].devices = append(found[0].devices, n)
		}
	}
	return found, err
}

// jaxPassed01f4709 describes initialize(address, count, id) before 2025, if the program passes our variables. If JAX
// finds Slurm, Slurm's variables still choose the devices.
func jaxPassed01f4709(env map[string]string, _ int) ([]process, error) {
	n, err := asked(env, "JAX_PROCESS_ID", "JAX_NUM_PROCESSES")
	if err != nil || env["JAX_COORDINATOR_ADDRESS"] == "" {
		return nil, errors.Join(err, errors.New("no coordinator"))
	}
	one := process{rank: n[0], world: n[1]}
	if _, slurm := env["SLURM_JOB_ID"]; slurm {
		local, err := asked(env, "SLURM_LOCALID")
		if err != nil {
			return nil, err
		}
		one.devices = local
	}
	return []process{one}, nil
}

// nvrxInprocess0ee3d84 describes inprocess.State, which reads RANK and WORLD_SIZE.
func nvrxInprocess0ee3d84(env map[string]string, visible int) ([]process, error) {
	return torchEnv113(env, visible)
}

// nvrxLauncher05852d2 describes ft_launcher, which has torchrun's flags. get_infrastructure_rank reads a node's rank
// from SLURM_TOPOLOGY_ADDR if its pattern is block.node, otherwise from SLURM_PROCID, otherwise from GROUP_RANK.
// SLURM_JOB_ID alone is an error.
func nvrxLauncher05852d2(env map[string]string, visible int) ([]process, error) {
	if strings.EqualFold(env["SLURM_TOPOLOGY_ADDR_PATTERN"], "block.node") {
		return nil, errors.New("the rank is made of the digits of SLURM_TOPOLOGY_ADDR")
	}
	rank, err := asked(env, "SLURM_PROCID")
	if err != nil {
		if _, slurm := env["SLURM_JOB_ID"]; slurm {
			return nil, errors.New("SLURM_JOB_ID is set, and SLURM_PROCID is not")
		}
		if rank, err = asked(env, "GROUP_RANK"); err != nil {
			return nil, err
		}
	}
	n, err := asked(env, "PET_NNODES", "PET_NPROC_PER_NODE")
	if err != nil {
		return nil, err
	}
	return spawned(rank[0], n[0], n[1], visible)
}

// deepspeedInit describes init_distributed of all checked versions. If one of the five variables is missing, it uses
// MPI.
func deepspeedInit(env map[string]string, visible int) ([]process, error) {
	return torchEnv113(env, visible)
}

// deepspeedLauncher81a47df describes deepspeed --no_ssh --node_rank=$NODE_RANK --master_addr=$MASTER_ADDR. The hostfile
// lists the nodes and the number of processes on each, whose devices are numbered from 0.
func deepspeedLauncher81a47df(env map[string]string, visible int) ([]process, error) {
	n, err := asked(env, "NODE_RANK", "MASTER_PORT")
	if err != nil {
		return nil, err
	}
	var slots []int
	first := 0
	for line := range strings.Lines(env[JobHostfile]) {
		_, text, _ := strings.Cut(strings.TrimSpace(line), " slots=")
		count, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("hostfile: %q", line)
		}
		if len(slots) < n[0] {
			first += count
		}
		slots = append(slots, count)
	}
	if n[0] >= len(slots) || slots[n[0]] > max(1, visible) {
		return nil, fmt.Errorf("--node_rank %d of %v", n[0], slots)
	}
	world := 0
	for _, count := range slots {
		world += count
	}
	var all []process
	for i := range slots[n[0]] {
		all = append(all, process{first + i, world, []int{i}})
	}
	return all, nil
}

// submitit01eedd3 describes SlurmJobEnvironment and TorchDistributedEnvironment.export(set_cuda_visible_devices=False).
// It reads Slurm's variables, and fails if torch's variables exist. A task sees its own device as number 0.
func submitit01eedd3(env map[string]string, _ int) ([]process, error) {
	for _, name := range []string{"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"} {
		if _, ok := env[name]; ok {
			return nil, fmt.Errorf("Cannot export environment variables as %s is already in the environment", name)
		}
	}
	n, err := asked(env, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_NUM_NODES", "SLURM_NODEID", "SLURM_JOB_ID")
	if err != nil || env["SLURM_JOB_NODELIST"] == "" {
		return nil, errors.Join(err, errors.New("no list of nodes"))
	}
	return []process{{rank: n[0], world: n[1]}}, nil
}

// nemoRun1da4a67 describes components/torchrun.py with use_env. The program sets the nodes and processes. torchrun's
// flags get MASTER_ADDR, MASTER_PORT and NODE_RANK from the environment.
func nemoRun1da4a67(env map[string]string, visible int) ([]process, error) {
	n, err := asked(env, "NODE_RANK", "MASTER_PORT")
	if err != nil || env["MASTER_ADDR"] == "" {
		return nil, errors.Join(err, errors.New("no address"))
	}
	return spawned(n[0], tasksOfTest(env), max(1, visible), visible)
}

// shape describes a gang: tasks, devices per task, and nodes.
type shape struct{ tasks, gpus, machines int }

var shapes = []shape{{1, 8, 1}, {2, 8, 2}, {16, 1, 2}, {16, 1, 16}, {1, 0, 1}}

// facts lists the launchers with which each rule finds the right processes, and the shapes in which it does not. A
// framework that starts one process per device is right for tasks of any size. A framework that is started once per
// task is right for tasks with one device.
var facts = []struct {
	name     string
	rule     rule
	launcher string
	not      []shape // shapes with a wrong result; the test fails if one of these is right
}{
	{"torchrun 1.13", torchrun113, "auto", nil},
	{"torchrun 1.13", torchrun113, "torchrun", nil},
	{"torch env:// 1.13", torchEnv113, "auto", severalGPUs},
	{"Lightning ffd8176", lightningFfd8176, "auto", nil},
	{"Lightning 03f57f9", lightning03f57f9, "auto", nil},
	{"Lightning 03f57f9", lightning03f57f9, "torchrun", nil},
	{"Lightning 03f57f9", lightning03f57f9, "slurm", []shape{{1, 8, 1}, {2, 8, 2}, {16, 1, 2}}}, // as on Slurm itself
	{"JAX 01f4709", jax01f4709, "auto", severalGPUs},
	{"JAX 01f4709", jax01f4709, "jax", severalGPUs},
	{"JAX 01f4709, arguments passed", jaxPassed01f4709, "auto", nil},
	{"JAX 2025-08", jax202508, "auto", severalGPUs},
	{"JAX 2025-08", jax202508, "jax", nil},
	{"JAX 2025-08", jax202508, "slurm", []shape{{1, 8, 1}, {2, 8, 2}, {16, 1, 2}}},
	{"NVRx 0ee3d84 in-process", nvrxInprocess0ee3d84, "auto", severalGPUs},
	{"NVRx 05852d2 ft_launcher", nvrxLauncher05852d2, "auto", nil},
	{"NVRx 05852d2 ft_launcher", nvrxLauncher05852d2, "torchrun", nil},
	{"DeepSpeed init_distributed", deepspeedInit, "deepspeed", severalGPUs},
	{"DeepSpeed 81a47df launcher", deepspeedLauncher81a47df, "deepspeed", []shape{{16, 1, 2}}},
	{"submitit 01eedd3", submitit01eedd3, "slurm", nil},
	{"submitit 01eedd3", submitit01eedd3, "auto", shapes},
	{"NeMo-Run 1da4a67", nemoRun1da4a67, "auto", nil},
	{"NeMo-Run 1da4a67", nemoRun1da4a67, "torchrun", nil},
}

// severalGPUs lists the shapes whose tasks have several GPUs. The framework must fail there, instead of using one of
// eight.
var severalGPUs = []shape{{1, 8, 1}, {2, 8, 2}}

// silent lists the rules that use one device of eight without an error. The docs mention them, and the launcher auto
// has none of them.
var silent = map[string]bool{"JAX 01f4709 jax": true, "JAX 2025-08 slurm": true, "submitit 01eedd3 slurm": true}

// TestFacts checks that our variables give each framework every rank once and every device to one process. If that is
// impossible, the framework must fail instead of using only some devices.
func TestFacts(t *testing.T) {
	for _, f := range facts {
		for _, s := range shapes {
			name := fmt.Sprintf("%s %s %d x %d on %d", f.name, f.launcher, s.tasks, s.gpus, s.machines)
			wrong, failed := judge(f.rule, f.launcher, s)
			switch not := slices.Contains(f.not, s); {
			case !not && wrong != nil:
				t.Errorf("%s: %v", name, wrong)
			case not && wrong == nil:
				t.Errorf("%s: is right, and the table says that it is not", name)
			case not && !failed && !silent[f.name+" "+f.launcher]:
				t.Errorf("%s: is wrong in silence: %v", name, wrong)
			}
		}
	}
}

// judge returns the error in the result of a rule, and whether the framework itself failed.
func judge(r rule, launcher string, s shape) (wrong error, failed bool) {
	ranks := map[int]bool{}
	want := 0
	for rank := range s.tasks {
		task := placed(s, int32(rank), launcher)
		env := map[string]string{JobHostfile: Hostfile(task.Start.Rendezvous, task.Start.Grant)}
		for _, line := range Of(task) {
			name, value, _ := strings.Cut(line, "=")
			env[name] = value
		}
		found, err := r(env, s.gpus)
		if err != nil {
			return err, true
		}
		used := map[int]bool{}
		for _, p := range found {
			if p.rank < 0 || p.rank >= p.world || ranks[p.rank] || want != 0 && p.world != want {
				return fmt.Errorf("task %d has rank %d of %d", rank, p.rank, p.world), false
			}
			ranks[p.rank], want = true, p.world
			for _, d := range devicesOf(p, s.gpus) {
				if used[d] || d >= max(1, s.gpus) {
					return fmt.Errorf("task %d: device %d of %d", rank, d, s.gpus), false
				}
				used[d] = true
			}
		}
		if len(used) < s.gpus {
			return fmt.Errorf("task %d uses %v of %d devices", rank, slices.Sorted(maps.Keys(used)), s.gpus), false
		}
	}
	if len(ranks) != want {
		return fmt.Errorf("%d processes of %d", len(ranks), want), false
	}
	return nil, false
}

func devicesOf(p process, visible int) []int {
	if p.devices != nil {
		return p.devices
	}
	all := make([]int, visible)
	for i := range all {
		all[i] = i
	}
	return all
}

// placed returns the start of one task of a gang of a shape, with the same number of tasks on each node.
func placed(s shape, rank int32, launcher string) Subject {
	r := &messages.Rendezvous{Address: "10.0.0.1", Port: 20001}
	each := s.tasks / s.machines
	for i := range s.tasks {
		at := i / each
		r.Peers = append(r.Peers, &messages.Peer{
			Rank: int32(i), Node: fmt.Sprintf("n%d", at+1), Address: fmt.Sprintf("10.0.0.%d", at+1), Rack: "r1",
		})
	}
	var ids []string
	for i := range s.gpus {
		ids = append(ids, fmt.Sprintf("GPU-%d", i))
	}
	word, _ := messages.LaunchOf(launcher)
	return Subject{
		Hostfile: "/scratch/hostfile", Gpus: gpus(ids...),
		Start: &messages.StartTask{
			Id:  &messages.TaskId{Token: &messages.Token{Epoch: 2, Counter: 5}, Rank: rank},
			Job: "job-x", JobName: "llama", Run: 1,
			Node: r.Peers[rank].Node, Rendezvous: r, Spec: &messages.JobSpec{Launcher: word},
			Grant: &messages.Grant{Rank: rank, Amount: &messages.Resources{MilliGpu: int64(s.gpus) * 1000, MilliCpu: 4000}},
		},
	}
}

// TestAutoOfUnknown checks that an unknown launcher is treated as auto.
func TestAutoOfUnknown(t *testing.T) {
	later := placed(shape{2, 8, 2}, 1, "auto")
	auto := Of(later)
	later.Start.Spec.Launcher = 99
	if got := Of(later); !slices.Equal(got, auto) {
		t.Errorf("%v", got)
	}
	later.Start.Spec.Launcher = messages.Launch_LAUNCH_UNSPECIFIED
	if got := Of(later); !slices.Equal(got, auto) {
		t.Errorf("%v", got)
	}
}
