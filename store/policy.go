package store

import (
	"errors"
	"slices"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the run-time statistics: the single policy record of the leaders, and the attempts that it does not
// include yet. Such an attempt gets a note with its END, in the same transaction. The policy record that includes it
// removes the note in its transaction. Each attempt is therefore counted exactly once, whenever a leader dies.
//
// A counter up to which all ends are included would not work. Attempts end in one order on disk and reach the Scheduler
// in another, so some would be omitted forever. A mark in the attempt would require writing the record of a gang of
// thousands again for one bit.

// learns reports whether a leader learns from an attempt: it ended after it had run. The run time of an attempt of an
// earlier version is unknown.
func learns(a *messages.AttemptRecord) bool { return a.GetEnd().GetRanMs() > 0 }

// judgePolicy accepts the write of a later leader, and a later write of the same leader. There is no revision, because
// only leaders write the record, and a damaged record can be replaced without knowing its revision.
func judgePolicy(stored topology.Token, c *actors.Change) judged {
	if slices.ContainsFunc(c.Learned, func(t topology.Token) bool { return !fits(t) }) {
		return judged{broken: RuleShape}
	}
	out := judgeSingle(stored, c.Policy)
	if out.single != nil {
		out.policy, out.learned = out.single, c.Learned
	}
	return out
}

// SingleRow is a record of which there is only one, to be stored.
type SingleRow struct {
	Insert    bool
	WrittenBy topology.Token
	Sealed    []byte
}

// FoundPolicy reads the row of the policy record: the write that created it.
func (d *Draft) FoundPolicy(row Row) error { return d.policies.found(row) }

// PolicyRows returns the readers of three kinds of rows. The first is the policy record (epoch, counter, record). The
// second is the jobs of the attempts that it does not include (id, record). The third is these attempts, in the order
// of their tokens.
func PolicyRows[B ~[]byte](l *Living) (policy, job, attempt func(Row) error) {
	policy = func(row Row) error {
		record := new(messages.PolicyRecord)
		bad, err := readSingle[B](row, "policy", record)
		if err == nil {
			l.Policy(record, bad)
		}
		return err
	}
	jobs := map[topology.JobID]*messages.JobRecord{}
	job = func(row Row) error {
		var id topology.JobID
		var sealed B
		err := row.Scan(&id, &sealed)
		if err == nil {
			jobs[id], _ = ReadJob(id, sealed) // nothing is learned from an unreadable job
		}
		return err
	}
	attempt = func(row Row) error {
		job, record, _, err := scanAttempt[B](row)
		if err == nil {
			l.Unlearned(jobs[job], record)
		}
		return err
	}
	return policy, job, attempt
}

// checkPolicy reads the policy record.
func checkPolicy(row Row) error {
	bad, err := readSingle[[]byte](row, "policy", new(messages.PolicyRecord))
	return errors.Join(err, bad)
}

// Policy adds the policy record, or the error if it is unreadable.
func (l *Living) Policy(record *messages.PolicyRecord, err error) {
	if err != nil {
		l.loaded.Damaged = append(l.loaded.Damaged, actors.Damaged{Policy: true, What: whatIsWrong(err)})
		return
	}
	l.loaded.Policy = record
}

// Unlearned adds an attempt that the policy record does not include, unless it or its job is unreadable.
func (l *Living) Unlearned(job *messages.JobRecord, attempt *messages.AttemptRecord) {
	if job != nil && attempt != nil {
		l.loaded.Unlearned = append(l.loaded.Unlearned, actors.Ended{Job: job, Attempt: attempt})
	}
}
