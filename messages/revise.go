package messages

// This file owns how a record that was handed on becomes the next version of it.
//
// The next version of a record that others hold may have its own fields set, and shares all that lies below with the
// version before, so whoever changes a list or a part of it puts another one there. A record of a gang is large below
// and its changes are at the top. The fields are written out: to walk them by reflection was a fiftieth of a gang's way
// to running. A test names every one that is forgotten.

// Newer returns the fields of a message that a newer program set and this one does not know, as bytes. Code that builds
// such a message from known fields must append them. Otherwise they are lost when the newer program returns.
func Newer(m Message) []byte { return m.ProtoReflect().GetUnknown() }

// Revise makes the next version of a job's record.
func (x *JobRecord) Revise() *JobRecord {
	return &JobRecord{
		Id: x.Id, Revision: x.Revision, WrittenBy: x.WrittenBy, Spec: x.Spec, Owner: x.Owner,
		RequestId: x.RequestId, RequestHash: x.RequestHash, SubmittedUnixMs: x.SubmittedUnixMs, Arrival: x.Arrival,
		State: x.State, Attempt: x.Attempt, Runs: x.Runs, Failures: x.Failures, InfraRestarts: x.InfraRestarts,
		PrepareFailures: x.PrepareFailures, NotBeforeUnixMs: x.NotBeforeUnixMs, Cancel: x.Cancel, Hold: x.Hold,
		ExitCode: x.ExitCode, Outcome: x.Outcome, FinishedUnixMs: x.FinishedUnixMs, RanMs: x.RanMs,
		PrepareFailedOn: x.PrepareFailedOn, Changed: x.Changed, Uid: x.Uid, MemoryByShare: x.MemoryByShare,
		LimitByDefault: x.LimitByDefault, Promise: x.Promise, AfterKnown: x.AfterKnown, GivenTo: x.GivenTo,
		Preemptions: x.Preemptions, Outranked: x.Outranked, Array: x.Array, Sealed: x.Sealed, UidToCome: x.UidToCome,
		UidTurn: x.UidTurn, Exempt: x.Exempt,
		unknownFields: x.unknownFields,
	}
}

// Revise makes the next version of an attempt's record.
func (x *AttemptRecord) Revise() *AttemptRecord {
	return &AttemptRecord{
		Job: x.Job, Token: x.Token, Run: x.Run, Places: x.Places, Rendezvous: x.Rendezvous,
		CommittedUnixMs: x.CommittedUnixMs, StartedUnixMs: x.StartedUnixMs, End: x.End, Told: x.Told,
		StartByLeftMs: x.StartByLeftMs, Victims: x.Victims, ReservingMs: x.ReservingMs, PreparingMs: x.PreparingMs,
		unknownFields: x.unknownFields,
	}
}

// Revise makes the next version of a member's place.
func (x *Place) Revise() *Place {
	return &Place{
		Rank: x.Rank, Node: x.Node, MachineId: x.MachineId, Grant: x.Grant, Address: x.Address, Exit: x.Exit,
		unknownFields: x.unknownFields,
	}
}
