package messages

import (
	"fmt"
	"math"
)

// This file has the checks of the two-phase protocol. Nodes check commands, and the leader checks facts. The checks
// only find missing and invalid fields. The receiver decides separately whether a message is stale, or from a sender
// that may not send it.

func (x *Order) valid() error {
	return first(
		led("epoch", x.GetEpoch()),
		part("token", x.GetToken()),
		id("job", x.GetJob()),
		id("node", x.GetNode()),
		part("incarnation", x.GetIncarnation()),
	)
}

// valid checks the header of a fact. The attempt is optional.
func (x *Origin) valid() error {
	return first(
		maybe("token", x.GetToken()),
		idOrNone("job", x.GetJob()),
		id("node", x.GetNode()),
		id("machine_id", x.GetMachineId()),
		part("incarnation", x.GetIncarnation()),
	)
}

// about checks the header of a fact about an attempt.
func about(x *Origin) error {
	return first(
		part("origin", x),
		in("origin", part("token", x.GetToken())),
		in("origin", id("job", x.GetJob())),
	)
}

func (x *Member) valid() error {
	return first(
		between("rank", int64(x.GetRank()), 0, MaxGangTasks-1),
		part("amount", x.GetAmount()),
		something("amount", x.GetAmount()),
		wholeOrPart("amount.milli_gpu", x.GetAmount().GetMilliGpu()),
	)
}

// members checks the ranks of one node.
func members(list []*Member) error {
	return first(
		parts("members", list, 1, MaxGangTasks),
		unique("members", list, (*Member).GetRank),
	)
}

// valid checks the devices of one rank. Their sum must equal the amount.
func (x *Grant) valid() error {
	err := first(
		between("rank", int64(x.GetRank()), 0, MaxGangTasks-1),
		part("amount", x.GetAmount()),
		parts("gpus", x.GetGpus(), 0, MaxMilliGPU/1000),
		unique("gpus", x.GetGpus(), (*GpuShare).GetGpuId),
	)
	if err != nil {
		return err
	}
	var sum int64
	for _, s := range x.GetGpus() {
		sum += s.GetMilli()
	}
	if sum != x.GetAmount().GetMilliGpu() {
		return refuse("gpus", fmt.Sprintf("are %d thousandths of a GPU, and the amount says %d",
			sum, x.GetAmount().GetMilliGpu()), "")
	}
	return nil
}

func grants(list []*Grant, least int) error {
	return first(
		parts("grants", list, least, MaxGangTasks),
		unique("grants", list, (*Grant).GetRank),
	)
}

func (x *Exit) valid() error {
	return first(
		between("rank", int64(x.GetRank()), 0, MaxGangTasks-1),
		said("kind", x.GetKind()),
		between("signal", int64(x.GetSignal()), 0, 64),
		between("peak_memory_bytes", x.GetPeakMemoryBytes(), 0, MaxMemoryBytes),
		between("cpu_ms", x.GetCpuMs(), 0, maxUse),
		text("detail", x.GetDetail(), maxTextBytes),
		maybe("evidence", x.GetEvidence()),
	)
}

func (x *Evidence) valid() error {
	if len(x.GetXids()) > maxXids {
		return refuse("xids", fmt.Sprintf("has %d numbers, more than %d", len(x.GetXids()), maxXids), "")
	}
	if len(x.GetOutput()) > MaxEvidenceLines {
		return refuse("output", fmt.Sprintf("has %d lines, more than %d", len(x.GetOutput()), MaxEvidenceLines), "")
	}
	for i, line := range x.GetOutput() {
		if err := text(fmt.Sprintf("output[%d]", i), line, MaxEvidenceBytes); err != nil {
			return err
		}
	}
	return first(
		text("kernel", x.GetKernel(), MaxEvidenceBytes),
		text("error", x.GetError(), MaxEvidenceBytes),
		text("frame", x.GetFrame(), MaxEvidenceBytes),
		between("step", x.GetStep(), 0, 1<<62),
	)
}

func exits(list []*Exit, least int) error {
	return first(
		parts("exits", list, least, MaxGangTasks),
		unique("exits", list, (*Exit).GetRank),
	)
}

// Validate refuses a Reserve without members or without a TTL.
func (x *Reserve) Validate() error {
	return first(
		part("order", x.GetOrder()),
		members(x.GetMembers()),
		between("ttl_ms", x.GetTtlMs(), 1, MaxDurationMs),
		text("gpu_type", x.GetGpuType(), MaxNameBytes),
	)
}

// Validate refuses a Reserved without grants.
func (x *Reserved) Validate() error {
	return first(
		about(x.GetOrigin()),
		grants(x.GetGrants(), 1),
		text("address", x.GetAddress(), MaxValueBytes),
		port("rendezvous_port", x.GetRendezvousPort(), 0),
	)
}

func port(field string, n int32, least int64) error { return between(field, int64(n), least, 65_535) }

// Validate refuses a refusal without a reason. A shortage must have the ledger.
func (x *Refused) Validate() error {
	if x.GetReason() == RefusalReason_REFUSAL_REASON_SHORTAGE && x.GetLedger() == nil {
		return refuse("ledger", "is missing", "set the free amount")
	}
	return first(
		about(x.GetOrigin()),
		said("reason", x.GetReason()),
		text("detail", x.GetDetail(), maxTextBytes),
		maybe("ledger", x.GetLedger()),
	)
}

// Validate refuses an Abort without an order.
func (x *Abort) Validate() error { return part("order", x.GetOrder()) }

// Validate refuses an Aborted without an attempt.
func (x *Aborted) Validate() error { return about(x.GetOrigin()) }

// Validate refuses a Commit without a spec. It does not validate the spec again: the rules may have changed since the
// submit, and a committed job must not be refused for a new rule.
func (x *Commit) Validate() error {
	if x.GetSpec() == nil {
		return refuse("spec", "is missing", "")
	}
	return first(
		part("order", x.GetOrder()),
		members(x.GetMembers()),
		text("owner", x.GetOwner(), MaxValueBytes),
	)
}

// Validate refuses a Committed without an attempt.
func (x *Committed) Validate() error { return about(x.GetOrigin()) }

// Validate refuses a Prepared without an attempt.
func (x *Prepared) Validate() error { return about(x.GetOrigin()) }

// Validate refuses an Expired without an attempt.
func (x *Expired) Validate() error { return about(x.GetOrigin()) }

// valid checks the address of rank 0 and the members. Every node of every gang runs this check, so it examines only the
// rank and the node of each peer.
func (x *Rendezvous) valid() error {
	if n := len(x.GetRoster()); n > 0 {
		return first(x.place(), between("roster", int64(n), 1, maxRosterBytes))
	}
	last := int32(-1)
	for i, p := range x.GetPeers() {
		if p.GetRank() <= last || p.GetNode() == "" {
			return in("peers",
				at(i, refuse("rank", fmt.Sprintf("%d on %s is out of order or has no node", p.GetRank(),
					short(p.GetNode())), "")))
		}
		last = p.GetRank()
	}
	if n := len(x.GetPeers()); n == 0 || n > MaxGangTasks {
		return refuse("peers", fmt.Sprintf("are %d, outside 1 to %d", n, MaxGangTasks), "")
	}
	return x.place()
}

// place checks only the address and the port.
func (x *Rendezvous) place() error {
	return first(
		given("address", x.GetAddress(), MaxValueBytes),
		port("port", x.GetPort(), 1),
	)
}

func (x *Roster) valid() error {
	return first(
		between("size_bytes", int64(x.GetSizeBytes()), 1, maxRosterBytes),
		between("offset_bytes", int64(x.GetOffsetBytes()), 0, int64(x.GetSizeBytes())-int64(len(x.GetData()))),
	)
}

// Validate refuses a Start without a rendezvous.
func (x *Start) Validate() error {
	meet := part("rendezvous", x.GetRendezvous())
	if x.GetRoster() != nil && x.GetRendezvous() != nil {
		meet = in("rendezvous", x.GetRendezvous().place())
	}
	return first(
		part("order", x.GetOrder()),
		meet,
		maybe("roster", x.GetRoster()),
		text("job_name", x.GetJobName(), MaxNameBytes),
		between("run", int64(x.GetRun()), 1, 1<<31-1),
	)
}

// Validate refuses a Started without an attempt.
func (x *Started) Validate() error { return about(x.GetOrigin()) }

// Validate refuses a Lacking without an attempt.
func (x *Lacking) Validate() error {
	return first(
		about(x.GetOrigin()),
		between("have_bytes", int64(x.GetHaveBytes()), 0, maxRosterBytes),
	)
}

// Validate refuses a Stop without a cause, because the end on disk always has one.
func (x *Stop) Validate() error {
	return first(
		part("order", x.GetOrder()),
		said("cause", x.GetCause()),
		between("signal", int64(x.GetSignal()), 0, 64),
		duration("grace_ms", x.GetGraceMs()),
	)
}

// Validate refuses an Exited without an exit.
func (x *Exited) Validate() error {
	return first(
		about(x.GetOrigin()),
		exits(x.GetExits(), 1),
	)
}

// Validate refuses an Ended without an attempt.
func (x *Ended) Validate() error {
	return first(
		about(x.GetOrigin()),
		exits(x.GetExits(), 0),
	)
}

// Validate refuses a Warn whose end is not known in advance.
func (x *Warn) Validate() error {
	return first(
		part("order", x.GetOrder()), between("number", int64(x.GetNumber()), 1, math.MaxInt64), warning(x.GetCause()),
		duration("left_ms", x.GetLeftMs()), between("of", x.GetOf(), 0, MaxTimeUnixMs),
		between("request", int64(x.GetRequest()), 0, maxRequest), text("subject", x.GetSubject(), maxTextBytes),
		duration("idle_ms", x.GetIdleMs()),
	)
}

// warning refuses a cause that is never known in advance.
func warning(c Cause) error {
	switch c {
	case Cause_CAUSE_UNSPECIFIED, Cause_CAUSE_TIME_LIMIT, Cause_CAUSE_DRAINED, Cause_CAUSE_PREEMPTED,
		Cause_CAUSE_REQUEUED:
		return nil
	}
	return refuse("cause", c.String()+" is never known in advance", "")
}

// Validate refuses a Warned without an attempt.
func (x *Warned) Validate() error {
	return first(about(x.GetOrigin()), parts("saved", x.GetSaved(), 0, MaxGangTasks))
}

// Validate refuses a Forget without an order.
func (x *Forget) Validate() error { return part("order", x.GetOrder()) }

// slice checks the fields that reports and records of an allocation have in common.
func slice(x interface {
	GetToken() *Token
	GetJob() string
	GetGrants() []*Grant
	GetExits() []*Exit
	GetRendezvousPort() int32
}) error {
	return first(
		part("token", x.GetToken()),
		id("job", x.GetJob()),
		grants(x.GetGrants(), 0),
		exits(x.GetExits(), 0),
		port("rendezvous_port", x.GetRendezvousPort(), 0),
	)
}

func (x *SliceReport) valid() error {
	return first(
		slice(x),
		said("state", x.GetState()),
		duration("expires_in_ms", x.GetExpiresInMs()),
		duration("ran_ms", x.GetRanMs()),
		duration("held_ms", x.GetHeldMs()),
	)
}

// valid checks the ledger of a node. It refuses free amounts above the total, because the leader's view depends on
// them. It does not check the sums, which the node's ledger guarantees.
func (x *LedgerReport) valid() error {
	for i, gpu := range x.GetWithdrawnGpus() {
		if err := id("", gpu); err != nil {
			return in("withdrawn_gpus", at(i, err))
		}
	}
	if !FromResources(x.GetFree()).Within(FromResources(x.GetTotal())) {
		return refuse("free", "is greater than the total", "")
	}
	return first(
		part("total", x.GetTotal()),
		part("free", x.GetFree()),
		parts("free_gpus", x.GetFreeGpus(), 0, MaxMilliGPU/1000),
		unique("free_gpus", x.GetFreeGpus(), (*GpuShare).GetGpuId),
		parts("slices", x.GetSlices(), 0, maxAllocations),
		unique("slices", x.GetSlices(),
			func(s *SliceReport) [2]uint64 { return [2]uint64{s.GetToken().GetEpoch(), s.GetToken().GetCounter()} }),
		between("withdrawn_gpus", int64(len(x.GetWithdrawnGpus())), 0, MaxMilliGPU/1000),
		unique("withdrawn_gpus", x.GetWithdrawnGpus(), func(id string) string { return id }),
		text("trouble", x.GetTrouble(), maxTextBytes),
		text("unwell", x.GetUnwell(), maxTextBytes),
		uids(x.GetUids()),
	)
}

func uids(list []uint32) error { return between("uids", int64(len(list)), 0, maxUIDs) }
