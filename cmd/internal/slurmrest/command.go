package slurmrest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/cmd/internal/command"
	"github.com/yi-json/synapse/cmd/internal/slurm"
	"github.com/yi-json/synapse/cmd/internal/slurm/query"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file serves sbatch, squeue and scancel of synapse-submit, which contains no code for jobs. An answer with status
// 200 is the complete output. After every other answer, synapse-submit starts synapse-cli, which repeats the command
// and prints its errors.

// ofSubmit is the part of the URL path that selects these requests.
var ofSubmit = strings.TrimSuffix(strings.TrimPrefix(command.Prefix, Prefix), "/")

// commands maps the names to the commands.
var commands = map[string]func(*exchange) (string, error){
	"sbatch": (*exchange).sbatch, "squeue": (*exchange).squeue, "scancel": (*exchange).scancel,
}

// The limits of an output. The scheduler has the complete output in memory, so synapse-cli prints a longer list, and a
// list with a larger format.
const (
	maxOutput  = command.MaxOutput
	maxColumns = 64
	maxLine    = 8 << 10 // without the values of columns without a width
)

// command answers a request of synapse-submit.
func (q *exchange) command(name string) error {
	do := commands[name]
	switch {
	case do == nil:
		return &problem{status: http.StatusNotFound, number: unknownURL,
			description: "there is no command " + strconv.Quote(name) + ": this server has sbatch, squeue and scancel"}
	case q.http.Method != http.MethodPost:
		return &problem{status: http.StatusMethodNotAllowed, number: unknownMethod,
			description: q.http.Method + " is not supported at " + q.http.URL.Path + ": use POST"}
	}
	text, err := do(q)
	if err != nil {
		return err
	}
	h := q.w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	q.patient()
	_, _ = q.w.Write([]byte(text)) // the client may have disconnected
	return nil
}

// optionsOf parses the options of a command.
func optionsOf[T any](text []byte) (options T, err error) {
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err = in.Decode(&options); err != nil {
		err = &problem{number: failParsing, description: "the options cannot be read: " + err.Error() +
			": use a synapse-submit of the version of this scheduler"}
	}
	return options, err
}

// selected returns the jobs that options select.
func (q *exchange) selected(c command.Choice, each bool) ([]*slurm.Entry, error) {
	states, unknown := query.States(c.StateList)
	if unknown != "" {
		return nil, &problem{number: invalidQuery, description: "unknown state " + strconv.Quote(unknown) +
			": use a state of Slurm, such as PENDING"}
	}
	done, err := q.list()
	if err != nil {
		return nil, err
	}
	defer done()
	return query.Select(q.ctx, q.c, &query.Choice{Choice: c, States: states, Each: each}, q.o.Now(), func(error) {})
}

// sbatch submits a script, and returns the output of sbatch.
func (q *exchange) sbatch() (string, error) {
	o, err := parsed(q, api.Synapse_SubmitScript_FullMethodName, optionsOf[command.Batch])
	if err != nil {
		return "", err
	}
	unset := func(string) (string, bool) { return "", false }
	b, text, args, err := slurm.Parse(o.Words, unset, func(string) ([]byte, error) { return []byte(o.Script), nil })
	if err == nil {
		err = b.Elsewhere()
	}
	if err != nil {
		return "", err
	}
	from := slurm.Submitter{Dir: o.Dir, Host: o.Host, User: o.User, As: o.As, Env: o.Env}
	spec, err := query.Spec(q.ctx, q.c, b, from, func(from slurm.Submitter) (*messages.JobSpec, error) {
		return b.Job(text, args, from)
	})
	if err != nil {
		return "", err
	}
	reply, err := q.c.SubmitScript(q.ctx, &messages.Submit{RequestId: o.RequestID, Spec: spec, Hold: b.Hold})
	if err != nil {
		return "", err
	}
	return b.Submitted(reply.GetJob()) + "\n", nil
}

// wide reports whether a line of a format would need much memory of the scheduler.
func wide(before string, columns []slurm.Column[*slurm.Entry]) bool {
	line := len(before)
	for _, c := range columns {
		line += c.Width + len(c.After)
	}
	return len(columns) > maxColumns || line > maxLine
}

// squeue returns the output of squeue.
func (q *exchange) squeue() (string, error) {
	o, err := parsed(q, api.Synapse_ListJobs_FullMethodName, optionsOf[command.Queue])
	if err != nil {
		return "", err
	}
	if command.Local(o.Format) {
		return "", &problem{number: failParsing, description: "format " + strconv.Quote(o.Format) +
			" has times in the time zone of the user: leave out %" +
			strings.Join(strings.Split(command.LocalFields, ""), ", %")}
	}
	usual := slurm.QueueFormat
	if o.Long {
		usual = slurm.QueueLong
	}
	before, columns, err := slurm.Percent(cmp.Or(o.Format, usual), slurm.QueueFields())
	if err != nil {
		return "", err
	}
	if wide(before, columns) {
		return "", &problem{number: failParsing, description: fmt.Sprintf(
			"the format has more than %d columns or %d characters in a line: use fewer columns", maxColumns, maxLine)}
	}
	all, err := q.selected(o.Choice, o.Each)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	err = slurm.Table(!o.NoHeader, before, columns, all, func(line string) error {
		if out.WriteString(line + "\n"); out.Len() > maxOutput {
			return &problem{status: http.StatusRequestEntityTooLarge, number: invalidQuery,
				description: fmt.Sprintf("the list has more than %d bytes: select fewer jobs", maxOutput)}
		}
		return nil
	})
	return out.String(), err
}

// scancel cancels jobs: the named ones, or those that the other options select.
func (q *exchange) scancel() (string, error) {
	o, err := parsed(q, api.Synapse_Cancel_FullMethodName, optionsOf[command.Choice])
	if err != nil {
		return "", err
	}
	if !o.Limited() {
		return "", query.CancelNamed(q.ctx, q.c, []string{o.JobList}, func(error) {})
	}
	all, err := q.selected(o, o.StateList != "")
	if err != nil {
		return "", err
	}
	return "", query.CancelSelected(q.ctx, q.c, all, func(error) {})
}
