package messages

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/yi-json/synapse/topology"
)

// This file owns the crossing between what is said on the wire and the values
// that topology and the policy count with. It copies and never refuses: what
// may be said at all is Validate's to decide, before anything is converted.

// FromToken reads a token; none is the zero token.
func FromToken(t *Token) topology.Token {
	return topology.Token{Epoch: t.GetEpoch(), Counter: t.GetCounter()}
}

// ToToken writes a token; the zero token is none.
func ToToken(t topology.Token) *Token {
	if t.IsZero() {
		return nil
	}
	return &Token{Epoch: t.Epoch, Counter: t.Counter}
}

// KeyOf is the key of a member of an attempt.
func KeyOf(t *Token, rank int32) topology.TaskKey {
	return topology.TaskKey{Token: FromToken(t), Rank: topology.Rank(rank)}
}

// Key is the container that an id names.
func (x *TaskId) Key() topology.TaskKey { return KeyOf(x.GetToken(), x.GetRank()) }

// ToTaskID writes a container's key.
func ToTaskID(k topology.TaskKey) *TaskId {
	return &TaskId{Token: ToToken(k.Token), Rank: int32(k.Rank)}
}

// sliceStates are the states of a slice as machines tell of them and keep them on disk, by what the ledger calls them.
var sliceStates = [...]SliceState{
	topology.SliceReserved:  SliceState_SLICE_STATE_RESERVED,
	topology.SliceCommitted: SliceState_SLICE_STATE_COMMITTED,
	topology.SlicePrepared:  SliceState_SLICE_STATE_PREPARED,
	topology.SliceStarted:   SliceState_SLICE_STATE_STARTED,
	topology.SliceStopping:  SliceState_SLICE_STATE_STOPPING,
	topology.SliceOver:      SliceState_SLICE_STATE_OVER,
}

// ToSliceState writes a slice's state.
func ToSliceState(s topology.SliceState) SliceState { return sliceStates[s] }

// FromSliceState reads a slice's state; one that this version does not know is none, which no ledger takes.
func FromSliceState(s SliceState) topology.SliceState {
	return topology.SliceState(max(slices.Index(sliceStates[:], s), 0))
}

// FromResources reads an amount; none is zero.
func FromResources(r *Resources) topology.Resources {
	return topology.Resources{MilliCPU: r.GetMilliCpu(), MemoryBytes: r.GetMemoryBytes(), MilliGPU: r.GetMilliGpu()}
}

// ToResources writes an amount. Zero is written too: an amount of nothing is
// said, an amount that is missing was forgotten.
func ToResources(r topology.Resources) *Resources {
	return &Resources{MilliCpu: r.MilliCPU, MemoryBytes: r.MemoryBytes, MilliGpu: r.MilliGPU}
}

// FromShares reads amounts of devices, in the order they were said.
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

// ToShares writes amounts of devices.
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

// FromLabels reads labels, in the order they were said.
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

// fromNodes reads names of machines, in the order they were said.
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

// FromGPU reads a device; the launcher knows where it sits on the bus.
func FromGPU(g *Gpu) topology.GPU {
	return topology.GPU{ID: topology.GPUID(g.GetId()), Type: g.GetType(), MemoryBytes: g.GetMemoryBytes()}
}

// SameIncarnation reports whether both name the same start of the same agent. An
// incarnation that is not named belongs to nobody: a command that forgot to say whom it means must not be taken by
// whoever gets it.
func SameIncarnation(a, b *Incarnation) bool {
	return a != nil && b != nil && a.BootId == b.BootId && a.StartedNs == b.StartedNs
}

// GangOf is the shape a spec asks for.
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
	switch { // a network is selected by what machines announce
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

// NetworkLabels are by what a job selects the machines that can give it its network, and what such machines have.
// Every machine has its own network, so that one is not selected by: an agent of an earlier version announces none,
// and is given no job that names another.
func NetworkLabels(networks ...Network) (labels []topology.Label) {
	for _, n := range networks {
		if n != Network_NETWORK_UNSPECIFIED && n != Network_NETWORK_HOST {
			labels = append(labels, topology.Label{Key: topology.NetworkKey, Value: n.Word()})
		}
	}
	return labels
}

// networkWords are the networks as people write them.
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

// NetworkWords are the networks that people may write.
func NetworkWords() []string { return wordsOf(networkWords) }

// LaunchWords are the launchers that people may write.
func LaunchWords() []string { return wordsOf(launchWords) }

// Word is a network as people write it; empty where nothing was said.
func (n Network) Word() string { return wordOf(networkWords, n) }

// Word is a launcher as people write it; empty where nothing was said.
func (l Launch) Word() string { return wordOf(launchWords, l) }

// NetworkOf is the network of a word.
func NetworkOf(word string) (Network, bool) { return ofWord(networkWords, word) }

// LaunchOf is the launcher of a word.
func LaunchOf(word string) (Launch, bool) { return ofWord(launchWords, word) }

// wordsOf are the words of an enum in the order of its numbers.
func wordsOf[E cmp.Ordered](words map[E]string) (list []string) {
	for _, e := range slices.Sorted(maps.Keys(words)) {
		if words[e] != "" {
			list = append(list, words[e])
		}
	}
	return list
}

// wordOf is the word of a value, also of one that only a later version knows.
func wordOf[E ~int32](words map[E]string, e E) string {
	if word, ok := words[e]; ok {
		return word
	}
	return "number " + strconv.Itoa(int(e))
}

// ofWord is the value of a word; nothing was said by none.
func ofWord[E ~int32](words map[E]string, word string) (E, bool) {
	for e, w := range words { //order: no two have one word
		if w == word && w != "" {
			return e, true
		}
	}
	return 0, false
}

// splitOf: a total without GPUs takes any free cores, whatever was said, since
// a machine is whole by its GPUs only.
func splitOf(s Split, total topology.Resources) topology.Split {
	if s == Split_SPLIT_ANY || total.MilliGPU == 0 {
		return topology.SplitAny
	}
	return topology.SplitWhole
}

// Terminal reports whether a job in this state is over: no later write changes it.
func (s JobState) Terminal() bool { return EndPhase(s) != "" }

// Ran reports whether the end of a member proves that it had come past the barrier. Of one that a reboot ended
// nobody knows: a machine says so of all it had committed, whether prepared or not. Taken for one that ran, it
// would have the others start for its sake, and a gang would run in part.
func (x *Exit) Ran() bool {
	return x.GetKind() == ExitKind_EXIT_KIND_EXITED || x.GetKind() == ExitKind_EXIT_KIND_SUPERVISOR_LOST
}

// Owes reports whether some rank of the attempt lacks the evidence that it has gone.
func (x *AttemptRecord) Owes() bool {
	for _, p := range x.GetPlaces() {
		if p.GetExit() == nil {
			return true
		}
	}
	return false
}

// Brief is an attempt's course without its ranks, of which there can be thousands, and without how it came to its room.
func (x *AttemptRecord) Brief() *AttemptRecord {
	return &AttemptRecord{
		Job: x.Job, Token: x.Token, Run: x.Run, CommittedUnixMs: x.CommittedUnixMs,
		StartedUnixMs: x.StartedUnixMs, End: x.End, ReservingMs: x.ReservingMs, PreparingMs: x.PreparingMs,
	}
}
