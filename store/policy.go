package store

import (
	"errors"
	"slices"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns what is learned of how long jobs run: the one policy record of the leaders, and which attempts it does
// not know yet. Such an attempt is noted with its END, in the same transaction, and the note goes with the policy
// record that knows of it. So each is learned of exactly once, whenever a leader dies.
//
// A number up to which all ends are known would not do: attempts end in one order on disk and reach the Scheduler in
// another, and one in between would be left out for ever. To mark the attempt itself would write the record of a gang
// of thousands again for one bit.

// learns reports whether a leader learns from an attempt: it ended, and had run. For one that an earlier version ran,
// nobody knows for how long.
func learns(a *messages.AttemptRecord) bool { return a.GetEnd().GetRanMs() > 0 }

// judgePolicy lets a later leader's write replace an earlier one's, and a leader's later write its earlier one. There
// is no revision: nobody else ever writes the record, and the replacement of a damaged one need not know how often it
// was written.
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

// SingleRow is a record of which there is one, as it is to be stored.
type SingleRow struct {
	Insert    bool
	WrittenBy topology.Token
	Sealed    []byte
}

// FoundPolicy takes the row of the policy record: the write that made it.
func (d *Draft) FoundPolicy(row Row) error { return d.policies.found(row) }

// PolicyRows take the row of the policy record (epoch, counter, record), those of the jobs of the attempts that it does
// not know (id, record), and those of these attempts, in the order of their tokens.
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
			jobs[id], _ = ReadJob(id, sealed) // nothing is learned from a damaged one
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

// Policy adds the policy record, or that it could not be read.
func (l *Living) Policy(record *messages.PolicyRecord, err error) {
	if err != nil {
		l.loaded.Damaged = append(l.loaded.Damaged, actors.Damaged{Policy: true, What: whatIsWrong(err)})
		return
	}
	l.loaded.Policy = record
}

// Unlearned adds an attempt that the policy record does not know, unless it or its job cannot be read.
func (l *Living) Unlearned(job *messages.JobRecord, attempt *messages.AttemptRecord) {
	if job != nil && attempt != nil {
		l.loaded.Unlearned = append(l.loaded.Unlearned, actors.Ended{Job: job, Attempt: attempt})
	}
}
