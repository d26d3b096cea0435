package messages

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/yi-json/synapse/messages/plain"
	"github.com/yi-json/synapse/topology"
)

// This file has the checks of a submitted job. A valid job can be planned without further checks. The checks do not
// compare the job with the nodes of the cluster.

// Validate refuses an invalid job.
func (x *JobSpec) Validate() error {
	if x == nil {
		return refuse("", "is missing", "")
	}
	return first(
		name("name", x.GetName()),
		labels("labels", x.GetLabels()),
		nameOrNone("queue", x.GetQueue()),
		between("priority", int64(x.GetPriority()), -MaxPriority, MaxPriority),
		x.validShape(),
		x.validMachines(),
		x.validNetwork(),
		x.validLauncher(),
		x.validProcess(),
		x.validTimes(),
		x.validWarn(),
		x.validCheckpoint(),
		x.validProgress(),
		x.validHang(),
		x.validSize(),
	)
}

// ValidateNew refuses an invalid new job. It has additional checks for values that stored jobs of older releases may
// have, but that would be ignored or prevent a new job from running.
func (x *JobSpec) ValidateNew() error {
	return first(x.Validate(), x.hasCommand(), x.WarnsInTime(), x.isNoElement(), x.validNewEnv(), x.enoughMemory(),
		x.validTitle(), x.afterElements(),
		readable(x.ProtoReflect()))
}

func (x *JobSpec) hasCommand() error {
	if x.GetImage() == HostImage && len(x.GetCommand()) == 0 && x.GetScript() == nil {
		return refuse("command", "is missing, and the image `host` has no default command", "give the command to run")
	}
	return nil
}

func (x *JobSpec) isNoElement() error {
	if x.GetElement() != nil {
		return refuse("element", "is allowed for arrays only", "omit it, or submit an array")
	}
	return nil
}

func (x *JobSpec) validNewEnv() error {
	for i, v := range x.GetEnv() {
		if ReservedEnv(v.GetName()) {
			return in("env", at(i, refuse("name", v.GetName()+" is set by Synapse for each task", "remove it")))
		}
	}
	return nil
}

const (
	// DefaultMilliCPU is the CPU of each task of a job that requests no resources.
	DefaultMilliCPU = 1000
	// MinTaskMemoryBytes is the minimum memory of a task. Not even a shell starts with less.
	MinTaskMemoryBytes = 512 << 10
)

// enoughMemory refuses a task with too little memory to start.
func (x *JobSpec) enoughMemory() error {
	return first(
		enough("each.memory_bytes", x.GetEach().GetMemoryBytes()),
		enough("gang.total.memory_bytes", x.GetGang().GetTotal().GetMemoryBytes()),
	)
}

func enough(field string, bytes int64) error {
	if bytes > 0 && bytes < MinTaskMemoryBytes {
		return refuse(field, fmt.Sprintf("is %d, less than %d", bytes, MinTaskMemoryBytes),
			fmt.Sprintf("request at least %d, or omit it", MinTaskMemoryBytes))
	}
	return nil
}

// HostImage is the name of the image that is the node's own root filesystem.
const HostImage = plain.HostImage

// ReservedEnv reports whether users may not set a variable. Synapse sets these variables, which identify the task and
// its devices, and would override the value of a user.
func ReservedEnv(name string) bool { return plain.ReservedEnv(name) }

// validShape checks the gang: tasks of equal amounts, or a total.
func (x *JobSpec) validShape() error {
	g := x.GetGang()
	if g == nil {
		return refuse("gang", "is missing", "set gang.replicas or gang.total")
	}
	if g.GetTotal() != nil {
		return x.validTotal()
	}
	if x.GetEach() == nil {
		return refuse("each", "requests no resources", "request cpu, memory or gpu")
	}
	return first(
		in("gang", g.validReplicas()),
		part("each", x.GetEach()),
		something("each", x.GetEach()),
		x.validParts(),
		in("gang", g.validSum(x.GetEach())),
	)
}

func (x *GangSpec) validReplicas() error {
	n := x.GetReplicasMin()
	switch {
	case n < 1:
		return refuse("replicas_min", fmt.Sprintf("is %d, outside 1 to %d", n, MaxGangTasks), "use at least one task")
	case n > MaxGangTasks:
		return refuse("replicas_min", fmt.Sprintf("is %d, outside 1 to %d", n, MaxGangTasks),
			"request more GPUs per task and run one process per GPU, or submit several jobs")
	case x.GetReplicasMax() != n:
		return refuse("replicas_max", fmt.Sprintf("is %d, but replicas_min is %d", x.GetReplicasMax(), n),
			"set both to the same number: a gang has a fixed size")
	case x.GetSplit() != Split_SPLIT_UNSPECIFIED:
		return refuse("split", "requires gang.total", "set gang.total, or omit gang.split")
	}
	return nil
}

// validParts refuses a fraction of a GPU for several tasks. Such tasks would have to be placed on the same device to be
// useful.
func (x *JobSpec) validParts() error {
	milli := x.GetEach().GetMilliGpu()
	if milli > 0 && milli < 1000 && x.GetGang().GetReplicasMin() != 1 {
		return refuse("each.milli_gpu", fmt.Sprintf("is a fraction of a GPU for each of %d tasks",
			x.GetGang().GetReplicasMin()),
			"request whole GPUs, or one task")
	}
	return wholeOrPart("each.milli_gpu", milli)
}

// validSum refuses a gang whose total overflows an int64. The overflowed total could be small or negative, and the gang
// would be placed.
func (x *GangSpec) validSum(each *Resources) error {
	n := int64(x.GetReplicasMin())
	for _, amount := range []int64{each.GetMilliCpu(), each.GetMemoryBytes(), each.GetMilliGpu()} {
		if amount > 0 && n > math.MaxInt64/2/amount {
			return refuse("replicas_min", fmt.Sprintf("exceed the supported amount: %d tasks", n), "request less")
		}
	}
	return nil
}

// validTotal checks a total that is split into one task per node.
func (x *JobSpec) validTotal() error {
	g, total := x.GetGang(), x.GetGang().GetTotal()
	switch {
	case g.GetReplicasMin() != 0 || g.GetReplicasMax() != 0:
		return refuse("gang.replicas_min", "cannot be combined with gang.total", "set gang.replicas or gang.total")
	case g.GetApart():
		return refuse("gang.apart", "cannot be combined with gang.total", "omit it: a total has one task per node")
	case x.GetEach() != nil:
		return refuse("each", "cannot be combined with gang.total", "omit the amount per task")
	case total.GetMilliGpu()%1000 != 0:
		return refuse("gang.total.milli_gpu", "must be a whole number of GPUs",
			"request one task for a fraction of a GPU")
	}
	const machines = MaxGangTasks // one task per node
	return first(
		between("gang.total.milli_cpu", total.GetMilliCpu(), 0, MaxMilliCPU*machines),
		between("gang.total.memory_bytes", total.GetMemoryBytes(), 0, math.MaxInt64/2),
		between("gang.total.milli_gpu", total.GetMilliGpu(), 0, MaxMilliGPU*machines),
		something("gang.total", total),
		said("gang.split", g.GetSplit()),
	)
}

// validMachines checks the job's requirements for nodes.
func (x *JobSpec) validMachines() error {
	gpus := x.GetEach().GetMilliGpu() + x.GetGang().GetTotal().GetMilliGpu()
	if x.GetGpuType() != "" && gpus == 0 {
		return refuse("gpu_type", "requires gpu, and no GPU is requested", "request gpu, or omit the type")
	}
	t := x.GetTopology()
	if t.GetPatienceMs() > 0 && t.GetPreferred() == "" {
		return refuse("topology.patience_ms", "requires topology.preferred", "set topology.preferred")
	}
	return first(
		text("gpu_type", x.GetGpuType(), MaxNameBytes),
		labels("node_selector", x.GetNodeSelector()),
		parts("after", x.GetAfter(), 0, maxAfter),
		in("array", x.GetArray().validOrNone()),
		unique("after", x.GetAfter(), (*After).GetJob),
		machines("nodes", x.GetNodes()),
		machines("exclude", x.GetExclude()),
		x.validNames(),
		nameOrNone("topology.required", t.GetRequired()),
		nameOrNone("topology.preferred", t.GetPreferred()),
		duration("topology.patience_ms", t.GetPatienceMs()),
	)
}

// machines checks a list of node names. It does not check whether such nodes exist.
func machines(field string, names []string) error {
	if len(names) > MaxNamedMachines {
		return refuse(field, fmt.Sprintf("has %d entries, more than %d", len(names), MaxNamedMachines),
			"label the nodes, and use nodeSelector")
	}
	for i, name := range names {
		if err := id("", name); err != nil {
			return in(field, at(i, err))
		}
		if slices.Contains(names[:i], name) {
			return in(field, at(i, refuse("", fmt.Sprintf("%q is a duplicate", name), "")))
		}
	}
	return nil
}

// validNames refuses a node that is both required and excluded.
func (x *JobSpec) validNames() error {
	for i, name := range x.GetExclude() {
		if slices.Contains(x.GetNodes(), name) {
			return in("exclude", at(i, refuse("", fmt.Sprintf("%q is also in nodes", name),
				"remove it from one of them")))
		}
	}
	return nil
}

// validNetwork checks the network. A private network exists on one node only, so a gang on several nodes cannot use it.
func (x *JobSpec) validNetwork() error {
	n := x.GetNetwork()
	if _, ok := Network_name[int32(n)]; !ok {
		return refuse("network", fmt.Sprintf("unsupported value %d", n),
			"use one of "+strings.Join(NetworkWords(), ", "))
	}
	if n == Network_NETWORK_PRIVATE && !x.onOneMachine() {
		return refuse("network", "is private, but the job's tasks may run on several nodes",
			"request one task, set topology.required: node, or use network: host")
	}
	return nil
}

// validLauncher refuses an unknown launcher. Without this check, a value of a later version would silently mean auto.
func (x *JobSpec) validLauncher() error {
	if _, ok := launchWords[x.GetLauncher()]; !ok {
		return refuse("launcher", "unsupported launcher "+x.GetLauncher().Word(),
			"use one of "+strings.Join(LaunchWords(), ", "))
	}
	return nil
}

// onOneMachine reports whether every placement has all tasks on one node.
func (x *JobSpec) onOneMachine() bool {
	total := x.GetGang().GetTotal()
	switch {
	case x.GetTopology().GetRequired() == topology.NodeLevel:
		return true
	case total == nil:
		return x.GetGang().GetReplicasMin() == 1
	case total.GetMilliGpu() > 0:
		return total.GetMilliGpu() <= topology.WholeGPU
	}
	return total.GetMilliCpu() == 0 || total.GetMilliCpu() == 1000 // one core is never split
}

// validProcess checks the image, the command and the environment.
func (x *JobSpec) validProcess() error {
	if x.GetImage() == "" {
		return refuse("image", "is missing",
			"use an image, a directory on the nodes, or `host` for the node's own root")
	}
	if x.GetWorkdir() != "" {
		if err := absolute("workdir", x.GetWorkdir()); err != nil {
			return err
		}
	}
	if x.GetSubmitDir() != "" {
		if err := absolute("submit_dir", x.GetSubmitDir()); err != nil {
			return err
		}
	}
	return first(
		given("image", x.GetImage(), MaxPathBytes),
		arguments("command", x.GetCommand()),
		x.validScript(),
		text("user", x.GetUser(), MaxIDBytes),
		x.validEnv(),
		x.validSecrets(),
		parts("mounts", x.GetMounts(), 0, MaxMounts),
		unique("mounts", x.GetMounts(), (*Mount).GetTarget),
		x.validShm(),
		x.validDisk(),
	)
}

// arguments checks a list of arguments for a process.
func arguments(field string, list []string) error {
	bytes := 0
	for i, arg := range list {
		bytes += len(arg)
		if err := passed("", arg); err != nil {
			return in(field, at(i, err))
		}
	}
	if bytes > MaxCommandBytes || len(list) > MaxCommandArgs {
		return refuse(field, fmt.Sprintf("has %d arguments and %d bytes, more than %d and %d", len(list), bytes,
			MaxCommandArgs, MaxCommandBytes),
			"put the command into a script")
	}
	return nil
}

func (x *JobSpec) validEnv() error {
	bytes := 0
	for _, v := range x.GetEnv() {
		bytes += len(v.GetName()) + len(v.GetValue())
	}
	if bytes > MaxEnvBytes {
		return refuse("env", fmt.Sprintf("is %d bytes, more than %d", bytes, MaxEnvBytes), "put large values into a file")
	}
	return first(
		parts("env", x.GetEnv(), 0, MaxEnvBytes),
		unique("env", x.GetEnv(), (*EnvVar).GetName),
	)
}

// validShm checks the size of shared memory, which is a part of a task's memory.
func (x *JobSpec) validShm() error {
	memory := x.GetEach().GetMemoryBytes()
	if memory > 0 && x.GetShmBytes() > memory {
		return refuse("shm_bytes", fmt.Sprintf("is %d, more than the task's memory of %d", x.GetShmBytes(), memory),
			"request more memory")
	}
	return between("shm_bytes", x.GetShmBytes(), 0, MaxMemoryBytes)
}

// validDisk checks the disk limit.
func (x *JobSpec) validDisk() error {
	return between("disk_bytes", x.GetDiskBytes(), 0, MaxMemoryBytes)
}

// validTimes checks the times, the restarts and the stop signal.
func (x *JobSpec) validTimes() error {
	if w := x.GetStopWhenLostMs(); w > 0 && w < MinStopWhenLostMs {
		return refuse("stop_when_lost_ms", fmt.Sprintf("is %d, too short to detect a lost node", w),
			fmt.Sprintf("use at least %d, or 0 for never", MinStopWhenLostMs))
	}
	if r := x.GetRestart(); r.GetNever() && r.GetLimit() > 0 {
		return refuse("restart.limit", "a job that never restarts cannot have a restart limit", "omit one of them")
	}
	if err := x.validSpares(); err != nil {
		return err
	}
	if err := x.GetRestart().validInPlace(); err != nil {
		return err
	}
	return first(
		duration("time_limit_ms", x.GetTimeLimitMs()),
		between("begin_unix_ms", x.GetBeginUnixMs(), 0, MaxTimeUnixMs),
		between("deadline_unix_ms", x.GetDeadlineUnixMs(), 0, MaxTimeUnixMs),
		duration("prepare_timeout_ms", x.GetPrepareTimeoutMs()),
		between("stop.signal", int64(x.GetStop().GetSignal()), 0, 64),
		duration("stop.grace_ms", x.GetStop().GetGraceMs()),
		between("restart.limit", int64(x.GetRestart().GetLimit()), 0, MaxRestarts),
		duration("restart.backoff_ms", x.GetRestart().GetBackoffMs()),
		duration("lost_grace_ms", x.GetLostGraceMs()),
		duration("stop_when_lost_ms", x.GetStopWhenLostMs()),
		duration("checkpoint_ms", x.GetCheckpointMs()),
	)
}

// MaxSwapWaitMs is how long a gang may keep its other nodes while it waits for one that replaces a lost node.
const MaxSwapWaitMs = 600_000

// validInPlace checks the restart in place.
func (x *RestartSpec) validInPlace() error {
	switch {
	case x.GetInPlace() && x.GetNever():
		return refuse("restart.in_place", "a job that never restarts cannot restart in place", "omit one of them")
	case x.GetInPlace() && x.GetLimit() == 0:
		return refuse("restart.in_place", "needs a restart limit of at least 1", "set restart.limit, for example to 3")
	case x.GetInPlaceGraceMs() != 0 && !x.GetInPlace():
		return refuse("restart.in_place_grace_ms", "is only used for a restart in place",
			"set restart.inPlace, or use stop.grace")
	}
	if x.GetSwapWaitMs() != 0 && !x.GetInPlace() {
		return refuse("restart.swap_wait_ms", "is only used for a restart in place", "set restart.inPlace")
	}
	if err := between("restart.swap_wait_ms", x.GetSwapWaitMs(), 0, MaxSwapWaitMs); err != nil {
		return err
	}
	return duration("restart.in_place_grace_ms", x.GetInPlaceGraceMs())
}

// MaxSpares is the number of nodes that a job may hold to replace lost ones.
const MaxSpares = 64

// validSpares checks the number of spare nodes. A spare holds what one task requests, so each task needs its own node.
func (x *JobSpec) validSpares() error {
	n, g := x.GetRestart().GetSpares(), x.GetGang()
	switch {
	case n == 0:
		return nil
	case !x.GetRestart().GetInPlace():
		return refuse("restart.spares", "are only used for a restart in place", "set restart.inPlace")
	case g.GetTotal() != nil || g.GetReplicasMin() < 2:
		return refuse("restart.spares", "need a gang of two or more tasks, each on its own node",
			"set gang.replicas and the resources of one task")
	}
	return between("restart.spares", int64(n), 0, MaxSpares)
}

// deafTo lists the signals that a task cannot handle, because they end or stop it.
var deafTo = []int32{9, 19, 20, 21, 22}

// validWarn checks the warning signal and its time.
func (x *JobSpec) validWarn() error {
	w := x.GetWarn()
	if w == nil {
		return nil
	}
	if slices.Contains(deafTo, w.GetSignal()) {
		return refuse("warn.signal", fmt.Sprintf("is %d, which ends or stops a task without a warning", w.GetSignal()),
			"use a signal that the task can handle, such as SIGUSR1")
	}
	return first(
		between("warn.signal", int64(w.GetSignal()), 1, 64),
		between("warn.ahead_ms", w.GetAheadMs(), 1, MaxDurationMs),
	)
}

// WarnsInTime refuses a warning time that is longer than the time limit. It applies to new jobs only. If a later change
// makes the limit of a job too short, its tasks are warned at once.
func (x *JobSpec) WarnsInTime() error {
	limit := x.GetTimeLimitMs()
	if save := x.SaveGrace().Milliseconds(); limit > 0 && save > limit {
		return refuse("checkpoint.grace_ms", fmt.Sprintf("is %d, longer than the time limit of %d", save, limit),
			"set a shorter grace, or a longer time limit")
	}
	ahead := x.GetWarn().GetAheadMs()
	if limit == 0 || ahead <= limit {
		return nil
	}
	return refuse("warn.ahead_ms", fmt.Sprintf("is %d, longer than the time limit of %d", ahead, limit),
		"set a shorter warning time, or a longer time limit")
}

func (x *JobSpec) validSize() error {
	if n := Size(x); n > maxSpecBytes {
		return refuse("", fmt.Sprintf("is %d bytes, more than %d", n, maxSpecBytes), "put large data into files")
	}
	return nil
}
