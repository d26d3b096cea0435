package messages

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/yi-json/synapse/topology"
)

// This file converts messages to and from the types of topology and policy. A conversion copies values and never fails,
// because Validate has checked the message before.

// FromToken converts a token. It returns the zero token for nil.
func FromToken(t *Token) topology.Token {
	return topology.Token{Epoch: t.GetEpoch(), Counter: t.GetCounter()}
}

// ToToken converts a token. It returns nil for the zero token.
func ToToken(t topology.Token) *Token {
	if t.IsZero() {
		return nil
	}
	return &Token{Epoch: t.Epoch, Counter: t.Counter}
}

// KeyOf returns the key of one rank of an attempt.
func KeyOf(t *Token, rank int32) topology.TaskKey {
	return topology.TaskKey{Token: FromToken(t), Rank: topology.Rank(rank)}
}

// Key returns the key of the container.
func (x *TaskId) Key() topology.TaskKey { return KeyOf(x.GetToken(), x.GetRank()) }

// ToTaskID converts the key of a container.
func ToTaskID(k topology.TaskKey) *TaskId {
	return &TaskId{Token: ToToken(k.Token), Rank: int32(k.Rank)}
}

// sliceStates maps the states of an allocation in the ledger to the states in reports and on disk.
var sliceStates = [...]SliceState{
	topology.AllocationReserved:  SliceState_SLICE_STATE_RESERVED,
	topology.AllocationCommitted: SliceState_SLICE_STATE_COMMITTED,
	topology.AllocationPrepared:  SliceState_SLICE_STATE_PREPARED,
	topology.AllocationStarted:   SliceState_SLICE_STATE_STARTED,
	topology.AllocationStopping:  SliceState_SLICE_STATE_STOPPING,
	topology.AllocationEnded:     SliceState_SLICE_STATE_OVER,
}

// ToAllocationState converts the state of an allocation.
func ToAllocationState(s topology.AllocationState) SliceState { return sliceStates[s] }

// FromAllocationState converts the state of an allocation. For an unknown state it returns 0, which every ledger
// refuses.
func FromAllocationState(s SliceState) topology.AllocationState {
	return topology.AllocationState(max(slices.Index(sliceStates[:], s), 0))
}

// FromResources converts an amount. It returns zero for nil.
func FromResources(r *Resources) topology.Resources {
	return topology.Resources{MilliCPU: r.GetMilliCpu(), MemoryBytes: r.GetMemoryBytes(), MilliGPU: r.GetMilliGpu()}
}

// ToResources converts an amount. It returns a message for zero too, because nil would mean a forgotten field.
func ToResources(r topology.Resources) *Resources {
	return &Resources{MilliCpu: r.MilliCPU, MemoryBytes: r.MemoryBytes, MilliGpu: r.MilliGPU}
}

// FromShares converts amounts of devices, in the same order.
func FromShares(shares []*GpuShare) []topology.Share {
	if len(shares) == 0 {
		return nil
	}
	out := make([]topology.Share, len(shares))
	for i, s := range shares {
		out[i] = topology.Share{GPU: topology.GPUID(s.GetGpuId()), Milli: s.GetMilli()}
	}
	return out
}

// ToShares converts amounts of devices, in the same order.
func ToShares(shares []topology.Share) []*GpuShare {
	if len(shares) == 0 {
		return nil
	}
	out := Many[GpuShare](len(shares))
	for i, s := range shares {
		out[i].GpuId, out[i].Milli = string(s.GPU), s.Milli
	}
	return out
}

// FromLabels converts labels, in the same order.
func FromLabels(labels []*Label) []topology.Label {
	if len(labels) == 0 {
		return nil
	}
	out := make([]topology.Label, len(labels))
	for i, l := range labels {
		out[i] = topology.Label{Key: l.GetKey(), Value: l.GetValue()}
	}
	return out
}

// fromNodes converts names of nodes, in the same order.
func fromNodes(names []string) []topology.NodeID {
	if len(names) == 0 {
		return nil
	}
	out := make([]topology.NodeID, len(names))
	for i, name := range names {
		out[i] = topology.NodeID(name)
	}
	return out
}

// FromGPU converts a device, without its bus ID, which only the launcher needs.
func FromGPU(g *Gpu) topology.GPU {
	return topology.GPU{ID: topology.GPUID(g.GetId()), Type: g.GetType(), MemoryBytes: g.GetMemoryBytes()}
}

// SameIncarnation reports whether both values name the same start of the same agent. It returns false if one is nil, so
// that no agent executes a command that names no incarnation.
func SameIncarnation(a, b *Incarnation) bool {
	return a != nil && b != nil && a.BootId == b.BootId && a.StartedNs == b.StartedNs
}

// GangOf returns the gang that a spec requests, with its spare nodes.
func GangOf(spec *JobSpec) topology.Gang {
	g := topology.Gang{
		Replicas: spec.GetGang().GetReplicasMin(),
		Each:     FromResources(spec.GetEach()),
		GPUType:  spec.GetGpuType(),
		Selector: slices.Concat(FromLabels(spec.GetNodeSelector()), NetworkLabels(spec.GetNetwork()),
			SecretLabels(spec.GetSecrets())),
		Only:      fromNodes(spec.GetNodes()),
		Exclude:   fromNodes(spec.GetExclude()),
		Apart:     spec.GetGang().GetApart(),
		Required:  spec.GetTopology().GetRequired(),
		Preferred: spec.GetTopology().GetPreferred(),
	}
	if n := spec.GetRestart().GetSpares(); n > 0 { // each on its own node, as the tasks
		g.Replicas, g.Spares, g.Apart = g.Replicas+n, n, true
	}
	switch { // a network needs no vocabulary here, because it is selected by the labels of nodes
	case spec.GetCheckpoint() != nil:
		g.Vocabulary = VocabularyCheckpoint
	case spec.GetWarn() != nil:
		g.Vocabulary = VocabularyWarn
	case spec.GetScript() != nil:
		g.Vocabulary = VocabularyScript
	}
	if spec.GetGang().GetTotal() != nil {
		g.Replicas, g.Each = 0, topology.Resources{}
		g.Total = FromResources(spec.GetGang().GetTotal())
		g.Split = splitOf(spec.GetGang().GetSplit(), g.Total)
	}
	return g
}

// NetworkLabels returns the labels by which a job selects nodes that offer its network. The same labels are set on such
// nodes. The host network has no label, because every node has it. An agent of an older version announces no network,
// so it gets no job that needs one.
func NetworkLabels(networks ...Network) (labels []topology.Label) {
	for _, n := range networks {
		if n != Network_NETWORK_UNSPECIFIED && n != Network_NETWORK_HOST {
			labels = append(labels, topology.Label{Key: topology.NetworkKey, Value: n.Word()})
		}
	}
	return labels
}

// networkWords maps the networks to their spelling in job files.
var networkWords = map[Network]string{
	Network_NETWORK_UNSPECIFIED: "", Network_NETWORK_HOST: "host",
	Network_NETWORK_NONE: "none", Network_NETWORK_PRIVATE: "private",
}

// launchWords maps the launch modes to their spelling in job files.
var launchWords = map[Launch]string{
	Launch_LAUNCH_UNSPECIFIED: "", Launch_LAUNCH_AUTO: "auto",
	Launch_LAUNCH_TORCHRUN: "torchrun", Launch_LAUNCH_JAX: "jax", Launch_LAUNCH_SLURM: "slurm",
	Launch_LAUNCH_MPI: "mpi", Launch_LAUNCH_DEEPSPEED: "deepspeed", Launch_LAUNCH_NONE: "none",
}

// NetworkWords returns the valid names of networks.
func NetworkWords() []string { return wordsOf(networkWords) }

// LaunchWords returns the valid names of launchers.
func LaunchWords() []string { return wordsOf(launchWords) }

// Word returns the name of a network, and "" if none is set.
func (n Network) Word() string { return wordOf(networkWords, n) }

// Word returns the name of a launcher, and "" if none is set.
func (l Launch) Word() string { return wordOf(launchWords, l) }

// NetworkOf returns the network with this name.
func NetworkOf(word string) (Network, bool) { return ofWord(networkWords, word) }

// LaunchOf returns the launcher with this name.
func LaunchOf(word string) (Launch, bool) { return ofWord(launchWords, word) }

// wordsOf returns the words of an enum in the order of its numbers.
func wordsOf[E cmp.Ordered](words map[E]string) (list []string) {
	for _, e := range slices.Sorted(maps.Keys(words)) {
		if words[e] != "" {
			list = append(list, words[e])
		}
	}
	return list
}

// wordOf returns the word of a value. A value of a later version gets its number.
func wordOf[E ~int32](words map[E]string, e E) string {
	if word, ok := words[e]; ok {
		return word
	}
	return "number " + strconv.Itoa(int(e))
}

// ofWord returns the value of a word. It returns false for "" and for unknown words.
func ofWord[E ~int32](words map[E]string, word string) (E, bool) {
	for e, w := range words { //order: every word occurs once
		if w == word && w != "" {
			return e, true
		}
	}
	return 0, false
}

// splitOf returns the split of a total. A total without GPUs always uses SplitAny, because only the GPUs of a node
// decide whether it is used as a whole.
func splitOf(s Split, total topology.Resources) topology.Split {
	if s == Split_SPLIT_ANY || total.MilliGPU == 0 {
		return topology.SplitAny
	}
	return topology.SplitWhole
}

// Terminal reports whether the state is final. No later write changes a job in a final state.
func (s JobState) Terminal() bool { return EndPhase(s) != "" }

// Ran reports whether the exit proves that the rank had passed the start barrier. REBOOTED is no proof, because a node
// reports it for every committed allocation, prepared or not. If REBOOTED counted as a proof, the other ranks would
// start and the gang would run without this rank.
func (x *Exit) Ran() bool {
	return x.GetKind() == ExitKind_EXIT_KIND_EXITED || x.GetKind() == ExitKind_EXIT_KIND_SUPERVISOR_LOST
}

// Owes reports whether the exit of at least one rank is not confirmed.
func (x *AttemptRecord) Owes() bool {
	for _, p := range x.GetPlaces() {
		if p.GetExit() == nil {
			return true
		}
	}
	return false
}

// Brief returns the history of an attempt without its ranks, of which there can be thousands, and without estimates and
// victims.
func (x *AttemptRecord) Brief() *AttemptRecord {
	return &AttemptRecord{
		Job: x.Job, Token: x.Token, Run: x.Run, CommittedUnixMs: x.CommittedUnixMs,
		StartedUnixMs: x.StartedUnixMs, End: x.End, ReservingMs: x.ReservingMs, PreparingMs: x.PreparingMs,
		Verdict: x.Verdict.Brief(), Saved: x.Saved, Pending: x.Pending, Missed: x.Missed,
		Inherited: x.Inherited, InPlaceMs: x.InPlaceMs, QuickRestarts: x.QuickRestarts, StoppingMs: x.StoppingMs,
	}
}

// Brief returns a verdict without the output, for records that are kept long or listed.
func (x *Verdict) Brief() *Verdict {
	if len(x.GetEvidence().GetOutput()) == 0 {
		return x
	}
	e := x.Evidence
	return &Verdict{
		Class: x.Class, Rank: x.Rank, Node: x.Node, Reason: x.Reason, Others: x.Others, Charged: x.Charged,
		Repeated: x.Repeated, Explanation: x.Explanation, unknownFields: x.unknownFields,
		Evidence: &Evidence{
			OomScope: e.OomScope, Xids: e.Xids, Kernel: e.Kernel, DiskFull: e.DiskFull, EndedBy: e.EndedBy, Step: e.Step,
			Error: e.Error, Frame: e.Frame, unknownFields: e.unknownFields,
		},
	}
}
