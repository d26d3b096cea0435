package messages

import (
	"encoding/hex"
	"math"
)

// This file has the checks of records that are read from a disk. If a record lacks required fields, the process fails
// to start, because it must not treat the record as empty. The checks do not repeat the rules for new jobs, which
// change between releases. An accepted job stays accepted.

// Validate refuses a record that no leader can have written.
func (x *JobRecord) Validate() error {
	if x.GetSpec() == nil {
		return refuse("spec", "is missing", "")
	}
	if x.GetRevision() == 0 {
		return refuse("revision", "must not be 0", "")
	}
	return first(
		id("id", x.GetId()),
		in("spec", x.GetSpec().without()),
		part("written_by", x.GetWrittenBy()),
		said("state", x.GetState()),
		maybe("attempt", x.GetAttempt()),
		between("runs", int64(x.GetRuns()), 0, 1<<31-1),
		between("failures", int64(x.GetFailures()), 0, 1<<31-1),
		between("infra_restarts", int64(x.GetInfraRestarts()), 0, 1<<31-1),
		maybe("promise", x.GetPromise()),
		between("preemptions", int64(x.GetPreemptions()), 0, 1<<31-1),
		between("outranked", int64(x.GetOutranked()), 0, int64(x.GetPreemptions())),
	)
}

func (x *Kept) valid() error {
	return first(
		between("rank", int64(x.GetRank()), 0, MaxGangTasks-1),
		id("node", x.GetNode()),
		id("machine_id", x.GetMachineId()),
		part("amount", x.GetAmount()),
	)
}

func (x *Promise) valid() error {
	return first(
		parts("kept", x.GetKept(), 1, MaxGangTasks),
		unique("kept", x.GetKept(), (*Kept).GetRank),
		between("left_ms", x.GetLeftMs(), 0, 1<<53),
		between("slips", int64(x.GetSlips()), 0, 1<<31-1),
		between("run", int64(x.GetRun()), 1, 1<<31-1),
		parts("victims", x.GetVictims(), 0, maxVictims),
	)
}

// maxVictims exceeds the number of victims that a gang can need.
const maxVictims = 1 << 20

func (x *Victim) valid() error {
	return first(
		id("job", x.GetJob()), part("token", x.GetToken()), said("rule", x.GetRule()),
		between("lost_milli_gpu_seconds", x.GetLostMilliGpuSeconds(), 0, math.MaxInt64),
	)
}

func (x *Preemption) valid() error {
	return first(
		id("for_job", x.GetForJob()), said("rule", x.GetRule()),
		between("lost_milli_gpu_seconds", x.GetLostMilliGpuSeconds(), 0, math.MaxInt64),
	)
}

func (x *Place) valid() error {
	return first(
		between("rank", int64(x.GetRank()), 0, MaxGangTasks-1),
		id("node", x.GetNode()),
		id("machine_id", x.GetMachineId()),
		part("grant", x.GetGrant()),
		maybe("exit", x.GetExit()),
	)
}

func (x *End) valid() error {
	return first(said("cause", x.GetCause()), maybe("preemption", x.GetPreemption()),
		maybe("stall", x.GetStall()))
}

// Validate refuses a record that no leader can have written.
func (x *AttemptRecord) Validate() error {
	return first(
		id("job", x.GetJob()),
		part("token", x.GetToken()),
		between("run", int64(x.GetRun()), 1, 1<<31-1),
		parts("places", x.GetPlaces(), 1, MaxGangTasks),
		unique("places", x.GetPlaces(), (*Place).GetRank),
		maybe("rendezvous", x.GetRendezvous()),
		maybe("end", x.GetEnd()),
		maybe("saved", x.GetSaved()),
		maybe("pending", x.GetPending()),
		maybe("missed", x.GetMissed()),
		parts("victims", x.GetVictims(), 0, maxVictims),
		duration("start_by_left_ms", x.GetStartByLeftMs()),
	)
}

// Validate refuses a record that no leader can have written.
func (x *NodeRecord) Validate() error {
	if x.GetRevision() == 0 {
		return refuse("revision", "must not be 0", "")
	}
	return first(
		id("id", x.GetId()),
		part("written_by", x.GetWrittenBy()),
		idOrNone("machine_id", x.GetMachineId()),
		idOrNone("boot_id", x.GetBootId()),
	)
}

func (x *Cell) valid() error {
	const most = 1 << 62
	return first(
		between("level", int64(x.GetLevel()), 1, int64(CellLevel_CELL_LEVEL_OWNER_QUEUE_SIZE_LIMIT)),
		between("count", x.GetCount(), 1, most),
		between("sum", x.GetSum(), 0, most),
		between("ended", x.GetEnded(), 0, most),
		between("used", x.GetUsed(), 0, most),
	)
}

// Validate refuses a record that no leader can have written.
func (x *PolicyRecord) Validate() error {
	return first(
		part("written_by", x.GetWrittenBy()),
		parts("cells", x.GetCells(), 0, MaxCells),
		unique("cells", x.GetCells(), (*Cell).key),
		parts("uses", x.GetUses(), 0, MaxUses),
		maybe("gpu_time", x.GetGpuTime()),
	)
}

// maxGPUTimeRows limits the rows of GPU time. Package goodput has fewer rows.
const maxGPUTimeRows = 10_000

func (x *GpuTime) valid() error { return parts("rows", x.GetRows(), 0, maxGPUTimeRows) }

func (x *GpuTimeRow) valid() error {
	return first(
		between("kind", int64(x.GetKind()), 1, int64(GpuTimeKind_GPU_TIME_KIND_QUEUE)),
		between("day", x.GetDay(), 0, math.MaxInt32),
		text("name", x.GetName(), MaxValueBytes), parts("amounts", x.GetAmounts(), 0, len(GpuClass_name)+len(Cause_name)),
	)
}

func (x *GpuAmount) valid() error {
	return between("class", int64(x.GetClass()), 1, int64(GpuClass_GPU_CLASS_CLOSED))
}

func (x *QueueUse) valid() error {
	return first(text("queue", x.GetQueue(), MaxNameBytes), text("owner", x.GetOwner(), MaxValueBytes),
		between("milli_gpu_ms", x.GetMilliGpuMs(), 0, math.MaxInt64))
}

// cellKey holds the values that identify a cell.
type cellKey struct {
	level        CellLevel
	owner, group string
	size, limit  int64
}

func (x *Cell) key() cellKey {
	return cellKey{x.GetLevel(), x.GetOwner(), x.GetGroup(), x.GetSize(), x.GetLimitNs()}
}

func (x *SliceRecord) valid() error {
	return first(
		slice(x),
		said("state", x.GetState()),
		text("owner", x.GetOwner(), MaxValueBytes),
	)
}

// Validate refuses a ledger that no agent can have written.
func (x *LedgerRecord) Validate() error {
	return first(
		parts("slices", x.GetSlices(), 0, maxAllocations),
		unique("slices", x.GetSlices(),
			func(s *SliceRecord) [2]uint64 { return [2]uint64{s.GetToken().GetEpoch(), s.GetToken().GetCounter()} }),
		idOrNone("cluster_id", x.GetClusterId()),
	)
}

// PassHashBytes is the length of the hash of a token's secret.
const PassHashBytes = 32

// PassID returns the public ID of the token with this hash.
func PassID(hash []byte) string { return hex.EncodeToString(hash[:min(len(hash), 8)]) }

// Validate refuses a token without a name, role or expiry.
func (x *PassRecord) Validate() error {
	return first(
		id("id", x.GetId()),
		between("hash", int64(len(x.GetHash())), PassHashBytes, PassHashBytes),
		id("role", x.GetRole()),
		id("name", x.GetName()),
		between("until_unix_ms", x.GetUntilUnixMs(), 1, 1<<53),
	)
}
