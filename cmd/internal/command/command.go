// Package command has the requests of synapse-submit, which the scheduler serves with one answer, and the options of
// squeue and scancel in them. It needs no messages, so that synapse-submit uses the same tables as synapse-cli. Package
// slurmcmd of synapse-cli has the other options.
package command

import (
	"strconv"
	"strings"

	"github.com/yi-json/synapse/cmd/internal/sbatch"
)

// Prefix is the start of the URL path of the requests. The name of the command follows.
const Prefix = "/slurm/command/"

// MaxOutput limits the bytes of an answer.
const MaxOutput = 4 << 20

// Choice selects jobs. Lists are separated by commas, and an empty list selects all.
type Choice struct {
	Users, Names, Partitions, Accounts, QOS, WCKeys string
	StateList, JobList, NodeList                    string
	Me                                              bool // the jobs of the caller
}

// Batch is a submit by sbatch.
type Batch struct {
	Words  []string // the command line; each option is in sbatch.Options
	Script string   // text of the script that the command line names; empty with --wrap
	// The submitter.
	Dir, Host, User string
	As              string   // account that the job names; empty: none
	Env             []string // the exported variables, NAME=value
	RequestID       string   // the scheduler accepts each ID once
}

// Queue holds the options of squeue.
type Queue struct {
	Choice
	Format               string
	Each, Long, NoHeader bool
}

// QueueOptions returns the options of squeue.
func QueueOptions() []sbatch.Option[Queue] {
	all := selection(func(q *Queue) *Choice { return &q.Choice })
	return append(all, []sbatch.Option[Queue]{
		{Long: "states", Short: "t", Set: list(func(q *Queue) *string { return &q.StateList })},
		{Long: "jobs", Short: "j", Set: list(func(q *Queue) *string { return &q.JobList })},
		{Long: "format", Short: "o", Set: last(func(q *Queue) *string { return &q.Format })},
		{Long: "noheader", Short: "h", Bare: on, Set: toggle(func(q *Queue) *bool { return &q.NoHeader })},
		{Long: "long", Short: "l", Bare: on, Set: toggle(func(q *Queue) *bool { return &q.Long })},
		{Long: "array", Short: "r", Bare: on, Set: toggle(func(q *Queue) *bool { return &q.Each })},
	}...)
}

// CancelOptions returns the options of scancel.
func CancelOptions() []sbatch.Option[Choice] {
	all := selection(func(c *Choice) *Choice { return c })
	return append(all, []sbatch.Option[Choice]{
		{Long: "state", Short: "t", Set: list(func(c *Choice) *string { return &c.StateList })},
		{Long: "jobname", Set: list(func(c *Choice) *string { return &c.Names })},
		{Long: "wckey", Set: list(func(c *Choice) *string { return &c.WCKeys })},
	}...)
}

// selection returns the options that both commands have.
func selection[B any](of func(*B) *Choice) []sbatch.Option[B] {
	lists := func(to func(*Choice) *string) sbatch.Setter[B] {
		return list(func(b *B) *string { return to(of(b)) })
	}
	return []sbatch.Option[B]{
		{Long: "user", Short: "u", Set: lists(func(c *Choice) *string { return &c.Users })},
		{Long: "name", Short: "n", Set: lists(func(c *Choice) *string { return &c.Names })},
		{Long: "partition", Short: "p", Set: lists(func(c *Choice) *string { return &c.Partitions })},
		{Long: "account", Short: "A", Set: lists(func(c *Choice) *string { return &c.Accounts })},
		{Long: "qos", Short: "q", Set: lists(func(c *Choice) *string { return &c.QOS })},
		{Long: "nodelist", Short: "w", Set: lists(func(c *Choice) *string { return &c.NodeList })},
		{Long: "me", Bare: on, Set: toggle(func(b *B) *bool { return &of(b).Me })},
	}
}

// list returns the setter of an option that may be repeated. Its values are joined by commas.
func list[B any](to func(*B) *string) sbatch.Setter[B] {
	return func(b *B, value string) error {
		Join(to(b), value)
		return nil
	}
}

// Join adds values to a list.
func Join(to *string, value string) {
	switch {
	case *to == "":
		*to = value
	case value != "":
		*to += "," + value
	}
}

// last returns the setter of an option whose last value counts.
func last[B any](to func(*B) *string) sbatch.Setter[B] {
	return func(b *B, value string) error {
		*to(b) = value
		return nil
	}
}

// on is the value of a switch without a value.
const on = "true"

// toggle returns the setter of a switch, which --NAME=false turns off.
func toggle[B any](to func(*B) *bool) sbatch.Setter[B] {
	return func(b *B, value string) (err error) {
		*to(b), err = strconv.ParseBool(value)
		return err
	}
}

// Limited reports whether options select jobs.
func (c *Choice) Limited() bool {
	return c.Me || c.Users+c.Names+c.Partitions+c.StateList+c.Accounts+c.NodeList+c.QOS+c.WCKeys != ""
}

// LocalFields are the letters of the fields whose text depends on the time zone of the user.
const LocalFields = "SeV"

// Local reports whether the text of a format depends on the time zone of the user.
func Local(format string) bool {
	if format == "%all" {
		return true
	}
	for {
		at := strings.IndexByte(format, '%')
		if at < 0 {
			return false
		}
		format = strings.TrimLeft(format[at+1:], ".0123456789")
		if format != "" && strings.IndexByte(LocalFields, format[0]) >= 0 {
			return true
		}
	}
}
