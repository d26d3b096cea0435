package slurmrest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/internal/slurm"
	"github.com/yi-json/synapse/cmd/internal/slurm/query"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file serves jobs: lists, one job, submits, changes and cancels.

// jobName matches the IDs of jobs: 7, and 7_3 or 7_[0-9] for elements of an array.
var jobName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]+(_([0-9]+|\[[0-9,-]+\]))?$`) })

// named finds the jobs that a URL names.
func (q *exchange) named(name string) ([]*messages.JobStatus, error) {
	missing := &problem{status: http.StatusNotFound, number: invalidJobID, source: "_handle_job_get",
		description: "Unable to query JobId=" + name}
	if !jobName().MatchString(name) {
		return nil, missing
	}
	found, err := q.c.Scope(q.ctx, name, query.Find(q.c))
	if client.Is(err, messages.Code_CODE_NOT_FOUND) || client.Refused(err) {
		return nil, missing
	}
	return found, err
}

// jobs lists all unfinished jobs, and those that finished a few minutes ago.
func (q *exchange) jobs(string) error {
	return q.listJobs(&query.Choice{States: slurm.States()})
}

// job returns one job, or the jobs of an array.
func (q *exchange) job(name string) error {
	found, err := q.named(name)
	if err != nil {
		return err
	}
	return q.listJobs(&query.Choice{States: slurm.States(), Named: found})
}

func (q *exchange) listJobs(o *query.Choice) error {
	done, err := q.list()
	if err != nil {
		return err
	}
	defer done()
	all, err := query.Jobs(q.ctx, q.c, o, q.o.Now())
	if err != nil {
		return err
	}
	return stream(q, "jobs", all, shaped(q.version, ofJob, (*slurm.Entry).Object), q.updated("last_backfill"))
}

// pastJobs lists the jobs of the history, or the job with one number. Slurm keeps them in a database.
func (q *exchange) pastJobs(name string) error {
	since, err := q.seconds("start_time")
	if err != nil {
		return err
	}
	until, err := q.seconds("end_time")
	if err != nil {
		return err
	}
	if name != "" && !jobName().MatchString(name) {
		return &problem{status: http.StatusNotFound, number: invalidJobID, description: "Unable to query JobId=" + name}
	}
	done, err := q.list()
	if err != nil {
		return err
	}
	defer done()
	form := q.http.URL.Query()
	var all []*slurm.Entry
	known := map[string]bool{}
	keep := func(e *slurm.Entry) {
		number, _, _ := strings.Cut(e.ID, "_")
		if !known[e.Job] && (name == "" || name == e.ID || name == number) && query.Listed(form.Get("users"), e.User) &&
			query.Listed(form.Get("job_name"), e.Name) && query.Listed(form.Get("partition"), e.Partition) {
			known[e.Job] = true
			all = append(all, e)
		}
	}
	_, err = q.c.Past(q.ctx, &messages.History{SinceUnixMs: since * 1000, UntilUnixMs: until * 1000}, 0,
		func(reply *messages.HistoryReply) error {
			for _, p := range reply.GetJobs() {
				keep(slurm.Past(p))
			}
			return nil
		})
	if err != nil {
		return err
	}
	if until == 0 {
		now, err := query.Jobs(q.ctx, q.c, &query.Choice{}, q.o.Now())
		if err != nil {
			return err
		}
		for _, e := range now {
			keep(e)
		}
	}
	if name != "" && len(all) == 0 {
		q.found = append(q.found, warning{"there is no job " + name, "slurmdb"})
	}
	return stream(q, "jobs", all, shaped(q.version, ofPast, (*slurm.Entry).PastObject), nil)
}

// seconds returns a parameter with a Unix time; 0: it is not set.
func (q *exchange) seconds(name string) (int64, error) {
	text := q.http.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(strings.TrimPrefix(text, "uts"), 10, 64)
	if err != nil || n < 0 || n > 1<<40 {
		return 0, &problem{number: failParsing, source: "#/" + name + "/",
			description: fmt.Sprintf("%s: %q is not a Unix time in seconds", name, text)}
	}
	return n, nil
}

// parsed reads the body of a request that becomes a call.
func parsed[T any](q *exchange, call string, parse func([]byte) (T, error)) (of T, err error) {
	kind, _, _ := strings.Cut(q.http.Header.Get("Content-Type"), ";")
	if strings.ToLower(strings.TrimSpace(kind)) != "application/json" {
		return of, &problem{status: http.StatusUnsupportedMediaType, number: failParsing,
			description: "the Content-Type is not application/json"}
	}
	body, err := q.o.API.Body(q.w, q.http, q.visit, call)
	if err != nil {
		return of, err
	}
	return parse(body)
}

// submit submits a job, as sbatch does. The lines #SBATCH of its script are comments, as for slurmrestd.
func (q *exchange) submit(string) error {
	d, err := parsed(q, api.Synapse_SubmitScript_FullMethodName, describe)
	if err != nil {
		return err
	}
	b, err := d.batch()
	if err != nil {
		return err
	}
	q.found = d.warnings
	spec, err := query.Spec(q.ctx, q.c, b, q.submitter(d), func(from slurm.Submitter) (*messages.JobSpec, error) {
		spec, err := b.Job([]byte(d.script), d.args, from)
		if err != nil {
			return nil, d.refusal(err)
		}
		spec.BeginUnixMs, spec.DeadlineUnixMs = d.begin*1000, d.deadline*1000
		return spec, nil
	})
	if err != nil {
		return dependencyError(err)
	}
	reply, err := q.c.SubmitScript(q.ctx, &messages.Submit{RequestId: "rest-" + rand.Text(), Spec: spec, Hold: b.Hold})
	if err != nil {
		return err
	}
	if b.Hold {
		q.found = append(q.found, warning{"Job is in held state, pending scheduler release", "slurm_submit_batch_job()"})
	}
	number, err := strconv.ParseInt(messages.NumericID(reply.GetJob()), 10, 64)
	if err != nil {
		return err
	}
	return q.answer(map[string]any{"job_id": number, "step_id": "batch",
		"job_submit_user_msg": reply.GetOutcome().GetHint()})
}

// dependencyError keeps the error of an unknown job in a dependency from being the error of the submitted job.
func dependencyError(err error) error {
	var e *client.Error
	if errors.As(err, &e) && e.Code == messages.Code_CODE_NOT_FOUND {
		return &problem{number: failParsing, source: sourceOf("dependency"), description: "dependency: " + e.Text}
	}
	return err
}

// submitter returns the environment of a submit. With logins, a job runs as the account with the name of its owner.
// Without logins, the client names the account, as everywhere without logins; a job of root gets a separate user.
func (q *exchange) submitter(d *description) slurm.Submitter {
	from := slurm.Submitter{Dir: d.folder, Host: q.o.Host, User: q.who.GetName(), Env: d.env}
	if q.identified() {
		from.As = messages.UserMe
	} else {
		from.User = q.http.Header.Get(userHeader)
		from.As = from.User
	}
	if from.User == "root" {
		from.User, from.As = "", ""
	}
	if d.owner != "" && d.owner != from.User {
		d.warn(sourceOf("user_id"), "user_id has no effect: a job belongs to the user of the token")
		q.found = d.warnings
	}
	return from
}

// killed describes the result of a cancel for one job.
func killed(j *messages.JobStatus, err error) map[string]any {
	p := &problem{}
	if err != nil {
		p = problemOf(err)
	}
	number, _ := strconv.ParseInt(messages.NumericID(j.GetRecord().GetId()), 10, 64)
	return slurm.Killed(slurm.Number(j.GetRecord().GetId()), number, p.number, strerror[p.number], p.description)
}

// cancel cancels a job or elements of an array.
func (q *exchange) cancel(name string) error {
	if signal := q.http.URL.Query().Get("signal"); signal != "" {
		word, err := slurm.ParseSignal(signal)
		switch {
		case err != nil:
			return err
		case word == "TERM" || word == "15":
			q.found = append(q.found, warning{"the job is cancelled: its processes get SIGTERM, and then SIGKILL", "#/signal/"})
		case word != "KILL":
			return &problem{number: notSupported, source: "#/signal/",
				description: "signal: only KILL and TERM are supported, which cancel the job: use scancel --signal"}
		}
	}
	found, err := q.named(name)
	if err != nil {
		return err
	}
	var first error
	status := []any{}
	for _, j := range found {
		var err error
		if j.GetRecord().GetState().Terminal() {
			q.found = append(q.found, warning{"Job " + slurm.Number(j.GetRecord().GetId()) + " has already finished",
				"_handle_job_delete"})
		} else {
			_, err = q.c.Cancel(q.ctx, &messages.Cancel{Job: j.GetRecord().GetId(), Reason: "REST"})
		}
		if first == nil {
			first = err
		}
		status = append(status, killed(j, err))
	}
	if first != nil && len(found) == 1 {
		return first
	}
	return q.answer(map[string]any{"status": status})
}

// update changes a job. Its body is the description of the job with the fields to change.
func (q *exchange) update(name string) error {
	change, err := parsed(q, api.Synapse_Update_FullMethodName, changeOf)
	if err != nil {
		return err
	}
	found, err := q.named(name)
	if err != nil {
		return err
	}
	results := []any{}
	for _, j := range found {
		id := j.GetRecord().GetId()
		if change.values {
			change.Job = id
			_, err = q.c.Update(q.ctx, &change.Update)
		}
		if err == nil && change.hold != nil {
			_, err = q.c.Hold(q.ctx, &messages.Hold{Job: id, Release: !*change.hold, Reason: "REST"})
		}
		if err != nil {
			return err
		}
		number, _ := strconv.ParseInt(messages.NumericID(id), 10, 64)
		results = append(results, map[string]any{"job_id": number, "step_id": "", "error": "", "error_code": 0, "why": ""})
	}
	return q.answer(map[string]any{"results": results})
}

// jobChange is a change of a job.
type jobChange struct {
	messages.Update
	values bool  // the Update changes something
	hold   *bool // nil: not changed
}

// changeOf reads the change of a job.
func changeOf(body []byte) (*jobChange, error) {
	all, err := object(body)
	if inner := all["job"]; err == nil && inner != nil {
		all, err = object(inner)
	}
	if err != nil {
		return nil, &problem{number: failParsing, source: "#/", description: "the request " + err.Error()}
	}
	change := &jobChange{}
	change.Reason = "REST"
	for name, raw := range all { //order: each field is independent
		f, known := fieldOf(name)
		if !known || !slices.Contains([]string{"time_limit", "priority", "begin_time", "deadline", "hold", "job_id"}, name) {
			return nil, unsupported(messages.OneLine(name), "only time_limit, priority, begin_time, deadline and hold "+
				"can be changed")
		}
		v, form := read(f.kind, raw)
		if form != "" {
			return nil, invalid(name, "is not %s", form)
		}
		if err = change.set(name, v); err != nil {
			return nil, err
		}
	}
	change.values = change.SetTimeLimit || change.SetPriority || change.SetBegin || change.SetDeadline
	if !change.values && change.hold == nil {
		return nil, &problem{number: invalidQuery, source: "#/", description: "no change is requested"}
	}
	return change, nil
}

// set adds one field to a change.
func (c *jobChange) set(name string, v value) error {
	n, err := strconv.ParseInt(v.text, 10, 64)
	switch {
	case name == "job_id":
	case name == "hold":
		c.hold = &v.set
	case !v.set:
	case name == "time_limit" && v.text == infinite:
		c.SetTimeLimit, c.TimeLimitMs = true, 0
	case err != nil || n < 0 && name != "priority" || n > 1<<40 || n < -1<<31,
		n > 1<<31-1 && name != "begin_time" && name != "deadline":
		return invalid(name, "%s is out of range", v.text)
	case name == "time_limit":
		c.SetTimeLimit, c.TimeLimitMs = true, n*60_000
	case name == "begin_time":
		c.SetBegin, c.BeginUnixMs = true, n*1000
	case name == "deadline":
		c.SetDeadline, c.DeadlineUnixMs = true, n*1000
	default:
		c.SetPriority, c.Priority = true, int32(n)
	}
	return nil
}
