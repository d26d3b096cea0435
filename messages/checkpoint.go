package messages

import (
	"fmt"
	"slices"
	"time"
)

// This file owns the values of the requests to save a checkpoint: limits, defaults and validation.

const (
	// ExitSaved is the exit code of a task that has saved a checkpoint and stops because of a request.
	ExitSaved = 85
	// MaxSavedSteps is the largest number of steps in one acknowledgement.
	MaxSavedSteps = 8
	// DefaultSaveGrace is the time to save if the job names none.
	DefaultSaveGrace = 5 * time.Minute

	// MaxSaveGrace limits the time to save, because a job that is preempted keeps its resources meanwhile.
	MaxSaveGrace = time.Hour

	maxRequest = 1 << 61
)

// SaveGrace returns how long the tasks of a job may take to save a checkpoint. It returns 0 if the job gets no request.
func (x *JobSpec) SaveGrace() time.Duration {
	c := x.GetCheckpoint()
	switch {
	case c == nil:
		return 0
	case c.GraceMs == 0:
		return DefaultSaveGrace
	}
	return time.Duration(c.GraceMs) * time.Millisecond
}

// Announced returns how long before its end a job wants to know the end: to save a checkpoint, or to be warned. The
// signal may be 0 for a checkpoint.
func (x *JobSpec) Announced() (ahead time.Duration, signal int32) {
	if c := x.GetCheckpoint(); c != nil {
		return x.SaveGrace(), c.GetSignal()
	}
	return time.Duration(x.GetWarn().GetAheadMs()) * time.Millisecond, x.GetWarn().GetSignal()
}

// IsAnnounced reports whether the tasks of a job learn of their end before it comes.
func (x *JobSpec) IsAnnounced() bool { return x.GetCheckpoint() != nil || x.GetWarn() != nil }

// Same reports whether two acknowledgements say the same. An acknowledgement without an exit says less.
func (x *RankSaved) Same(o *RankSaved) bool {
	return x != nil && x.Request == o.GetRequest() && x.Problem == o.GetProblem() && slices.Equal(x.Steps, o.GetSteps()) &&
		(x.Exited || !o.GetExited())
}

// NeedsSaved reports whether a rank must acknowledge a checkpoint of the gang.
func (x *CheckpointSpec) NeedsSaved(rank int32) bool {
	return x.GetCommit() != SaveCommit_SAVE_COMMIT_RANK0 || rank == 0
}

// SavedBy reports whether an exit acknowledges a request, if there was one.
func (x *CheckpointSpec) SavedBy(e *Exit) bool {
	return x.GetAck() == SaveAck_SAVE_ACK_EXIT && e.GetKind() == ExitKind_EXIT_KIND_EXITED && e.GetCode() == ExitSaved &&
		e.GetSignal() == 0
}

// validCheckpoint checks the request to save a checkpoint.
func (x *JobSpec) validCheckpoint() error {
	c := x.GetCheckpoint()
	switch {
	case c == nil:
		return nil
	case x.GetWarn() != nil:
		return refuse("warn", "cannot be combined with a checkpoint request, which also announces the end",
			"omit warn, or write only the interval: checkpoint: 10m")
	case slices.Contains(deafTo, c.GetSignal()):
		return refuse("checkpoint.signal", fmt.Sprintf("is %d, which ends or stops a task before it can save",
			c.GetSignal()), "use a signal that the task can handle, such as SIGUSR1")
	}
	return first(
		between("checkpoint.signal", int64(c.GetSignal()), 0, 64),
		between("checkpoint.grace_ms", c.GetGraceMs(), 0, MaxSaveGrace.Milliseconds()),
		between("checkpoint.ack", int64(c.GetAck()), 0, int64(SaveAck_SAVE_ACK_SOCKET)),
		between("checkpoint.commit", int64(c.GetCommit()), 0, int64(SaveCommit_SAVE_COMMIT_RANK0)),
	)
}

// Validate refuses an acknowledgement outside the limits.
func (x *RankSaved) Validate() error {
	for _, step := range x.GetSteps() {
		if err := between("steps", step, 0, MaxSteps); err != nil {
			return err
		}
	}
	return first(
		between("rank", int64(x.GetRank()), 0, MaxGangTasks-1),
		between("request", int64(x.GetRequest()), 1, maxRequest),
		between("steps", int64(len(x.GetSteps())), 0, MaxSavedSteps),
		text("problem", x.GetProblem(), maxTextBytes),
	)
}

func (x *RankSaved) valid() error { return x.Validate() }

// Validate refuses a message without a task, and an acknowledgement outside the limits.
func (x *TaskSaved) Validate() error { return first(task(x.GetId()), part("saved", x.GetSaved())) }

// Validate refuses a record that no leader can have written.
func (x *Saved) Validate() error {
	return first(
		between("step", x.GetStep(), 0, MaxSteps), between("request", int64(x.GetRequest()), 1, maxRequest),
		between("at_unix_ms", x.GetAtUnixMs(), 0, MaxTimeUnixMs), duration("ran_ms", x.GetRanMs()),
	)
}

func (x *Saved) valid() error { return x.Validate() }

// Validate refuses a record that no leader can have written.
func (x *MissedSave) Validate() error {
	return first(
		between("request", int64(x.GetRequest()), 1, maxRequest),
		between("acknowledged", int64(x.GetAcknowledged()), 0, MaxGangTasks),
		between("required", int64(x.GetRequired()), 1, MaxGangTasks),
		between("rank", int64(x.GetRank()), -1, MaxGangTasks-1),
		text("problem", x.GetProblem(), maxTextBytes),
	)
}

func (x *MissedSave) valid() error { return x.Validate() }

// LostAfter returns the run time of an attempt after its last acknowledged checkpoint, without checkpoints its complete
// run time. It returns false if the scheduler does not know it.
func LostAfter(ranMs int64, saved *Saved) (ms int64, known bool) {
	return max(ranMs-saved.GetRanMs(), 0), ranMs > 0 && (saved == nil || saved.RanMs > 0)
}

// Validate refuses a request without a job.
func (x *Checkpoint) Validate() error {
	return first(caller(x.GetPrincipal()), id("job", x.GetJob()), reason(x.GetReason()))
}

// Validate refuses a reply without an outcome.
func (x *CheckpointReply) Validate() error { return answered(x.GetOutcome(), "job", x.GetJob()) }
