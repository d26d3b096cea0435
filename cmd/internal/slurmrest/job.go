package slurmrest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/cmd/internal/sbatch"
	"github.com/yi-json/synapse/cmd/internal/slurm"
	"github.com/yi-json/synapse/messages"
)

// This file converts the description of a job into the options of sbatch.

// description is a job as a client describes it.
type description struct {
	words     []string // options of sbatch
	script    string
	args      []string
	env       []string // NAME=value
	folder    string
	begin     int64 // Unix seconds; 0: at once
	deadline  int64
	owner     string // user_id; empty: not given
	warnings  []warning
	fieldFrom map[string]string // the field from which an option was made
}

// defaultName is the name of a job that has none.
const defaultName = "rest"

// invalid returns the refusal of a field's value.
func invalid(field, format string, args ...any) error {
	return &problem{number: failParsing, source: sourceOf(field), description: field + ": " + fmt.Sprintf(format, args...)}
}

// unsupported returns the refusal of a field.
func unsupported(field, why string) error {
	return &problem{number: notSupported, source: sourceOf(field), description: field + " is not supported: " + why}
}

// sourceOf returns the place of a field in the request, in Slurm's form.
func sourceOf(field string) string { return "#/job/" + field + "/" }

// describe reads a submit: {"script": TEXT, "job": {…}} or {"jobs": [{…}]}.
func describe(body []byte) (*description, error) {
	whole, err := object(body)
	if err != nil {
		return nil, &problem{number: failParsing, source: "#/", description: "the request " + err.Error()}
	}
	d := &description{fieldFrom: map[string]string{}}
	job, err := jobOf(whole)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(whole)) {
		if name != "script" && name != "job" && name != "jobs" {
			d.ignore("#/"+name+"/", name, whole[name])
		}
	}
	all, err := object(job)
	if err != nil {
		return nil, &problem{number: failParsing, source: "#/job/", description: "job " + err.Error()}
	}
	values, err := d.values(all)
	if err != nil {
		return nil, err
	}
	if raw, has := whole["script"]; has && !values["script"].set {
		v, form := read(text, raw)
		if form != "" {
			return nil, &problem{number: failParsing, source: "#/script/", description: "script is not " + form}
		}
		values["script"] = v
	}
	if d.script = values["script"].text; d.script == "" {
		return nil, &problem{number: invalidQuery, source: "#/script/",
			description: `Populated "script" field is required for job submission`}
	}
	return d, d.combine(values)
}

// jobOf returns the one job of a submit.
func jobOf(whole map[string]json.RawMessage) (json.RawMessage, error) {
	job, jobs := whole["job"], whole["jobs"]
	var list []json.RawMessage
	switch {
	case job != nil && jobs != nil:
		return nil, &problem{number: invalidQuery, source: "#/jobs/",
			description: `Specify only one "job" or "jobs" fields but never both`}
	case job != nil:
		return job, nil
	case jobs == nil:
		return nil, &problem{number: invalidQuery, source: "#/job/", description: `the field "job" is missing`}
	case json.Unmarshal(jobs, &list) != nil || len(list) != 1:
		return nil, &problem{number: notSupported, source: "#/jobs/",
			description: "jobs needs exactly one job: heterogeneous jobs are not supported"}
	}
	return list[0], nil
}

// ignore warns of a field that this version does not have.
func (d *description) ignore(source, name string, raw json.RawMessage) {
	d.warn(source, "Ignoring unknown field %q of type %s", messages.OneLine(name), named(raw))
}

func (d *description) warn(source, format string, args ...any) {
	d.warnings = append(d.warnings, warning{fmt.Sprintf(format, args...), messages.OneLine(source)})
}

// values reads the values of all fields, and makes options of those that are options. It returns the others.
func (d *description) values(all map[string]json.RawMessage) (map[string]value, error) {
	values := map[string]value{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f, known := fieldOf(name)
		if !known {
			d.ignore(sourceOf(name), name, all[name])
			continue
		}
		v, form := read(f.kind, all[name])
		switch {
		case form != "":
			return nil, invalid(name, "is not %s", form)
		case f.combined:
			values[name] = v
		case f.option != "" && v.set:
			d.option(name, f.option, v.text+f.unit)
		case f.same != "" && all[name] != nil && v.text != "" && v.text != f.same && (v.set || f.same == "true"):
			if f.name == "kill_on_node_fail" {
				return nil, unsupported(name, "a gang ends if it loses a node")
			}
			d.warn(sourceOf(name), "%s has no effect on this cluster", name)
		case f.warn && v.set:
			d.warn(sourceOf(name), "%s has no effect on this cluster", name)
		case f.refuse != "" && v.set:
			return nil, unsupported(name, f.refuse)
		}
	}
	return values, nil
}

// option adds an option of sbatch.
func (d *description) option(field, option, value string) {
	if option == "open-mode" {
		value = strings.ToLower(value)
	}
	if value == infinite+"M" {
		value = "0" // all memory of a node
	}
	d.words = append(d.words, "--"+option+"="+value)
	d.fieldFrom["--"+option] = field
}

// combine reads the fields that are no option by themselves.
func (d *description) combine(values map[string]value) error {
	for _, step := range []func(map[string]value) error{d.start, d.size, d.devices, d.notice} {
		if err := step(values); err != nil {
			return err
		}
	}
	if d.fieldFrom["--job-name"] == "" {
		d.option("name", "job-name", defaultName)
	}
	d.owner = values["user_id"].text
	if list := values["argv"].list; len(list) > 1 {
		d.args = list[1:] // the first is the name of the script
	}
	if d.folder = values["current_working_directory"].text; d.folder != "" && !path.IsAbs(d.folder) {
		return invalid("current_working_directory", "%q is not an absolute path", d.folder)
	}
	return d.environment(values["environment"].list)
}

// environment reads the variables. Those that a job gets by itself, or that have no valid name, are left out with a
// warning, because clients also send all their own variables.
func (d *description) environment(list []string) error {
	var dropped []string
	all := sbatch.New()
	for _, entry := range list {
		name, _, has := strings.Cut(entry, "=")
		if !has || name == "" {
			return invalid("environment", "%q is not NAME=value", messages.OneLine(entry))
		}
		set, err := all.Exported([]string{entry})
		if err != nil {
			return invalid("environment", "%s is too long", messages.OneLine(name))
		}
		if _, kept := set[name]; !kept {
			dropped = append(dropped, messages.OneLine(name))
			continue
		}
		d.env = append(d.env, entry)
	}
	if len(dropped) > 0 {
		d.warn(sourceOf("environment"), "these variables are not passed on, because each job has its own: %s",
			strings.Join(dropped, ", "))
	}
	return nil
}

// start reads when the job may start, and whether it is repeated.
func (d *description) start(values map[string]value) error {
	if v := values["hold"]; v.set {
		d.option("hold", "hold", "yes")
	}
	switch v := values["priority"]; {
	case !v.set:
	case v.text == "0": // as in Slurm
		d.option("priority", "hold", "yes")
	case v.text == infinite:
		return invalid("priority", "is infinite")
	default:
		d.option("priority", "priority", v.text)
	}
	if v, given := values["requeue"]; given && v.text != "" {
		d.option("requeue", map[bool]string{true: "requeue", false: "no-requeue"}[v.set], "yes")
	}
	for name, to := range map[string]*int64{"begin_time": &d.begin, "deadline": &d.deadline} { //order: each is independent
		v := values[name]
		if !v.set {
			continue
		}
		n, err := strconv.ParseInt(v.text, 10, 64)
		if err != nil || n < 0 || n > 1<<40 {
			return invalid(name, "%s is not a Unix time in seconds", v.text)
		}
		*to = n
	}
	return nil
}

// size reads the number of nodes and CPUs.
func (d *description) size(values map[string]value) error {
	least, most := values["minimum_nodes"], values["maximum_nodes"]
	switch nodes := values["nodes"]; {
	case nodes.set:
		d.option("nodes", "nodes", nodes.text)
	case least.set && most.set && least.text != most.text:
		d.option("maximum_nodes", "nodes", least.text+"-"+most.text) // refused, because a gang has a fixed size
	case least.set:
		d.option("minimum_nodes", "nodes", least.text)
	case most.set:
		d.option("maximum_nodes", "nodes", most.text)
	}
	if v := values["minimum_cpus"]; v.set && v.text != "1" {
		if d.fieldFrom["--ntasks"] != "" || d.fieldFrom["--cpus-per-task"] != "" || d.fieldFrom["--ntasks-per-node"] != "" {
			return unsupported("minimum_cpus", "use tasks and cpus_per_task")
		}
		d.option("minimum_cpus", "cpus-per-task", v.text)
	}
	switch v := cmp.Or(values["exclusive"].text, values["shared"].text); strings.ToLower(v) {
	case "", "false", "oversubscribe":
	case "true", "none":
		d.option("exclusive", "exclusive", "node")
	default:
		return unsupported("shared", "only complete nodes can be exclusive")
	}
	n := cmp.Or(values["required_switches"].text, values["minimum_switches"].text)
	if n != "" && n != "0" {
		if wait := values["wait_for_switch"]; wait.set {
			n += "@" + clock(wait.text)
		}
		d.option("required_switches", "switches", n)
	}
	return nil
}

// clock formats a number of seconds as one of Slurm's durations.
func clock(seconds string) string {
	n, _ := strconv.ParseInt(seconds, 10, 64)
	return fmt.Sprintf("%d:%02d", n/60, n%60)
}

// devices reads the GPUs, which Slurm counts as TRES: gres/gpu=2, gres/gpu:2 and gres:gpu:a100:2.
func (d *description) devices(values map[string]value) error {
	for _, of := range []struct{ field, option, unit string }{
		{"tres_per_node", "gpus-per-node", ""}, {"tres_per_job", "gpus", ""}, {"tres_per_task", "gpus-per-task", ""},
		{"cpus_per_tres", "cpus-per-gpu", ""}, {"memory_per_tres", "mem-per-gpu", "M"},
	} {
		v := values[of.field]
		if !v.set {
			continue
		}
		rest := strings.NewReplacer("gres:", "", "gres/", "", "=", ":").Replace(v.text)
		amount, is := strings.CutPrefix(rest, "gpu:")
		if rest == "gpu" {
			amount, is = "1", true
		}
		if !is || strings.ContainsAny(amount, ",;") {
			return invalid(of.field, "%q: only GPUs are supported, such as gres/gpu:2 or gres/gpu:a100:2", v.text)
		}
		d.option(of.field, of.option, amount+of.unit)
	}
	return nil
}

// notice reads the signal before the end of the job.
func (d *description) notice(values map[string]value) error {
	v := values["kill_warning_signal"]
	if !v.set {
		return nil
	}
	signal := v.text
	if delay := values["kill_warning_delay"]; delay.set {
		signal += "@" + delay.text
	}
	if slices.Contains(values["kill_warning_flags"].list, "BATCH_JOB") {
		signal = "B:" + signal
	}
	d.option("kill_warning_signal", "signal", signal)
	return nil
}

// batch returns the options, and the warnings about them.
func (d *description) batch() (*slurm.Batch, error) {
	b, err := slurm.Described(d.words, []byte(d.script))
	if err != nil {
		return nil, d.refusal(err)
	}
	for _, text := range b.Warnings() {
		option, rest, _ := strings.Cut(text, " ")
		name := cmp.Or(d.fieldFrom[option], option)
		d.warn(sourceOf(name), "%s %s", name, rest)
	}
	return b, nil
}

// refusal names the field instead of the option in an error of the options.
func (d *description) refusal(err error) error {
	r, is := err.(*slurm.Refusal)
	if !is {
		return err
	}
	name := d.fieldFrom[r.Option]
	if name == "" {
		return err
	}
	text := r.Text
	if r.Hint != "" {
		text += " (" + r.Hint + ")"
	}
	return invalid(name, "%s", text)
}
