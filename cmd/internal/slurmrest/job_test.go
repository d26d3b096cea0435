package slurmrest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/yi-json/synapse/cmd/internal/slurm"
	"github.com/yi-json/synapse/messages"
)

// This file tests which job results from a description.

// specOf returns the job of a description, or the error.
func specOf(body string) (*messages.JobSpec, []warning, error) {
	d, err := describe([]byte(body))
	if err != nil {
		return nil, nil, err
	}
	b, err := d.batch()
	if err != nil {
		return nil, nil, err
	}
	spec, err := b.Job([]byte(d.script), d.args, slurm.Submitter{Dir: d.folder, Host: "head1", User: "ann", Env: d.env})
	if err != nil {
		return nil, nil, d.refusal(err)
	}
	return spec, d.warnings, nil
}

// described returns a submit with these fields of the job.
func described(fields string) string {
	return `{"script":"#!/bin/sh\ntrue\n","job":{` + fields + `}}`
}

// labelled returns a label of a job.
func labelled(key string) func(*messages.JobSpec) string {
	return func(j *messages.JobSpec) string {
		for _, l := range j.GetLabels() {
			if l.GetKey() == key {
				return l.GetValue()
			}
		}
		return ""
	}
}

// variable returns a variable of a job.
func variable(name string) func(*messages.JobSpec) string {
	return func(j *messages.JobSpec) string {
		for _, v := range j.GetEnv() {
			if v.GetName() == name {
				return v.GetValue()
			}
		}
		return ""
	}
}

// written returns a value of a job as text.
func written[T any](of func(*messages.JobSpec) T) func(*messages.JobSpec) string {
	return func(j *messages.JobSpec) string { return fmt.Sprint(of(j)) }
}

// TestDescribe checks the effect of each field.
func TestDescribe(t *testing.T) {
	rack := func(j *messages.JobSpec) string {
		return fmt.Sprint(j.GetTopology().GetRequired(), j.GetTopology().GetPreferred(), j.GetTopology().GetPatienceMs())
	}
	args := func(j *messages.JobSpec) string { return fmt.Sprint(j.GetScript().GetArgs()) }
	never := func(j *messages.JobSpec) string { return fmt.Sprint(j.GetRestart().GetNever()) }
	for _, m := range []struct {
		fields, want string
		of           func(*messages.JobSpec) string
	}{
		{`"name":"a.b"`, "a.b", (*messages.JobSpec).Called}, {`"comment":"x"`, "rest", (*messages.JobSpec).Called},
		{`"partition":"gpu"`, "gpu", (*messages.JobSpec).GetQueue}, {`"account":"lab"`, "lab", labelled("account")},
		{`"comment":"y"`, "y", labelled("comment")}, {`"qos":"high"`, "high", labelled("qos")},
		{`"wckey":"w"`, "w", labelled("wckey")}, {`"time_limit":{"set":true,"number":3}`, "3", limit},
		{`"time_limit":4`, "4", limit}, {`"time_limit":"5"`, "5", limit}, {`"time_limit":null`, "0", limit},
		{`"time_limit":{"set":false,"number":3}`, "0", limit}, {`"time_limit":{"infinite":true,"number":0}`, "0", limit},
		{`"tasks":4`, "4", gang}, {`"tasks":"3"`, "3", gang}, {`"nodes":"2"`, "2", gang}, {`"minimum_nodes":3`, "3", gang},
		{`"minimum_nodes":2,"maximum_nodes":2`, "2", gang}, {`"tasks":8,"tasks_per_node":4`, "2", gang},
		{`"cpus_per_task":3`, "3000", milliCPU}, {`"minimum_cpus":5`, "5000", milliCPU},
		{`"memory_per_node":{"set":true,"number":64}`, "64", mebibytes},
		{`"memory_per_cpu":{"set":true,"number":10},"cpus_per_task":2`, "20", mebibytes},
		{`"tres_per_node":"gres/gpu:a100:2"`, "a100 2000", gpus}, {`"tres_per_node":"gres/gpu=1"`, " 1000", gpus},
		{`"tres_per_task":"gres:gpu:2"`, " 2000", gpus}, {`"tres_per_job":"gpu:4","nodes":"2"`, " 2000", gpus},
		{`"current_working_directory":"/data"`, "/data", (*messages.JobSpec).GetSubmitDir},
		{`"priority":{"set":true,"number":7}`, "7", written((*messages.JobSpec).GetPriority)},
		{`"nice":5`, "-5", written((*messages.JobSpec).GetPriority)}, {`"requeue":false`, "true", never},
		{`"excluded_nodes":["n1","n2"]`, "[n1 n2]", written((*messages.JobSpec).GetExclude)},
		{`"required_nodes":"n[3-4]","nodes":"2"`, "[n3 n4]", written((*messages.JobSpec).GetNodes)},
		{`"dependency":"afterok:7"`, "7", func(j *messages.JobSpec) string { return j.GetAfter()[0].GetJob() }},
		{`"environment":["A=b=c"]`, "b=c", variable("A")}, {`"environment":["PWD=/x"]`, "", variable("PWD")},
		{`"kill_warning_signal":"USR1","kill_warning_delay":30`, "30000",
			func(j *messages.JobSpec) string { return fmt.Sprint(j.GetWarn().GetAheadMs()) }},
		{`"array":"1-3%2"`, "3", func(j *messages.JobSpec) string { return fmt.Sprint(j.GetArray().Len()) }},
		{`"argv":["name","one","two"]`, "[one two]", args}, {`"argv":["name"]`, "[]", args},
		{`"constraints":"disk=ssd"`, "disk", func(j *messages.JobSpec) string { return j.GetNodeSelector()[0].GetKey() }},
		{`"required_switches":{"set":true,"number":1}`, "rack0", rack},
		{`"required_switches":1,"wait_for_switch":90`, "rack90000", rack},
		{`"kill_on_node_fail":true,"flags":["KILL_INVALID_DEPENDENCY"],"overcommit":false,"licenses":""`, "0", limit},
	} {
		spec, warnings, err := specOf(described(m.fields))
		if err != nil || m.of(spec) != m.want {
			t.Errorf("%s: %v, %v", m.fields, spec, err)
		}
		if len(warnings) > 0 && !strings.Contains(m.fields, "PWD") {
			t.Errorf("%s: warnings %v", m.fields, warnings)
		}
	}
}

func limit(j *messages.JobSpec) string { return fmt.Sprint(j.GetTimeLimitMs() / 60_000) }
func gang(j *messages.JobSpec) string  { return fmt.Sprint(j.GetGang().GetReplicasMin()) }
func milliCPU(j *messages.JobSpec) string {
	return fmt.Sprint(j.GetEach().GetMilliCpu())
}
func mebibytes(j *messages.JobSpec) string { return fmt.Sprint(j.GetEach().GetMemoryBytes() >> 20) }
func gpus(j *messages.JobSpec) string {
	return fmt.Sprint(j.GetGpuType(), " ", j.GetEach().GetMilliGpu())
}

// TestDescribeWarns checks that fields without an effect are named in warnings, and that defaults are not.
func TestDescribeWarns(t *testing.T) {
	_, warnings, err := specOf(`{"script":"#!/bin/sh\n","extra":1,"job":{"mail_user":"a","mail_type":["END"],"gpus":"8",
		"threads_per_core":2,"sockets_per_node":0,"group_id":"","contiguous":true,"x11":[],"oversubscribe":false}}`)
	var all []string
	for _, w := range warnings {
		all = append(all, w.Source+" "+w.Description)
	}
	slices.Sort(all)
	want := []string{
		`#/extra/ Ignoring unknown field "extra" of type integer`,
		"#/job/contiguous/ contiguous has no effect on this cluster",
		`#/job/gpus/ Ignoring unknown field "gpus" of type string`,
		"#/job/mail_type/ mail_type has no effect on this cluster",
		"#/job/mail_user/ mail_user has no effect on this cluster",
		"#/job/oversubscribe/ oversubscribe has no effect on this cluster",
		"#/job/threads_per_core/ threads_per_core has no effect on this cluster",
	}
	if err != nil || !slices.Equal(all, want) {
		t.Errorf("%v\n got %q\nwant %q", err, all, want)
	}
}

// TestDescribeRefused checks that each unsupported field and wrong value is refused by its name.
func TestDescribeRefused(t *testing.T) {
	for fields, words := range map[string]string{
		`"reservation":"r"`: "reservation is not supported", `"licenses":"a"`: "licenses are not supported",
		`"immediate":true`: "immediate is not", `"kill_on_node_fail":false`: "ends if it loses a node",
		`"maximum_nodes":3,"minimum_nodes":2`: "maximum_nodes: 2-3: ranges", `"shared":["user"]`: "only complete nodes",
		`"tasks":4,"minimum_cpus":8`: "use tasks and cpus_per_task", `"tres_per_node":"gres/fpga:1"`: "only GPUs",
		`"nodes":"x"`: "nodes: ", `"array":"x"`: "array: ", `"dependency":"never:1"`: "dependency: never:1",
		`"memory_per_node":-5`: "memory_per_node: ", `"time_limit":{"number":"x"}`: "time_limit: is not a number",
		`"time_limit":{"set":true,"nr":3}`: "time_limit: is not a number", `"hold":"maybe"`: "hold: is not true or false",
		`"name":["a"]`: "name: is not a text", `"environment":{"A":"b"}`: "environment: is not a list",
		`"environment":["A"]`: "is not NAME=value", `"current_working_directory":"here"`: "is not an absolute path",
		`"begin_time":-1`: "begin_time: -1", `"deadline":"soon"`: "deadline: is not a whole number",
		`"tasks":1,"tasks":2`: "twice", `"partition":"a,b"`: "partition: a,b", `"standard_input":"/x","name":1.5`: "name",
		`"required_switches":2`: "required_switches: 2", `"kill_warning_signal":"NONE"`: "kill_warning_signal: ",
	} { //order: each case is independent
		spec, _, err := specOf(described(fields))
		if p := problemOf(err); err == nil || !strings.Contains(p.description, words) || p.status != 400 || p.number == -1 {
			t.Errorf("%s: %v, %+v", fields, spec, err)
		}
	}
	for body, words := range map[string]string{
		"": "is no JSON object", "[]": "is no JSON object", `{"job":{}}{}`: "text after",
		`{"job":{},"jobs":[{}]}`: "never both",
		`{"script":"#!/bin/sh"}`: `"job" is missing`, `{"script":"#!/bin/sh","jobs":[{},{}]}`: "heterogeneous",
		`{"script":"#!/bin/sh","job":3}`: "job is no JSON object", `{"script":"","job":{}}`: `"script" field is required`,
		`{"script":["a"],"job":{}}`: "script is not a text",
	} { //order: each case is independent
		if _, err := describe([]byte(body)); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// TestFields checks that each field has one treatment, and that the options exist.
func TestFields(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range fields {
		ways := 0
		for _, way := range []bool{f.option != "", f.combined, f.same != "", f.warn, f.refuse != ""} {
			if way {
				ways++
			}
		}
		if ways != 1 || seen[f.name] {
			t.Errorf("%s has %d treatments, or is listed twice", f.name, ways)
		}
		seen[f.name] = true
	}
}

// FuzzDescribe checks that any request is a valid job, or is refused with a reason.
func FuzzDescribe(f *testing.F) {
	f.Add(described(`"name":"a","tasks":2,"environment":["A=b"],"time_limit":{"set":true,"infinite":false,"number":3}`))
	f.Add(`{"jobs":[{"script":"#!/bin/sh\n","tres_per_node":"gres/gpu:a100:2","array":"0-9%2"}]}`)
	f.Add(described(`"kill_warning_signal":"USR1","kill_warning_delay":{"set":true,"number":9}`))
	f.Add(described(`"priority":{"infinite":true}`))
	f.Add(described(`"nodes":"2-2","minimum_cpus":3,"dependency":"afterok:1,singleton","exclusive":["true"]`))
	f.Fuzz(func(t *testing.T, body string) {
		spec, _, err := specOf(body)
		if err != nil {
			if p := problemOf(err); p.status < 400 || p.description == "" || strings.Contains(p.description, "\n") &&
				strings.Contains(fmt.Sprint(p.object()["description"]), "\n") {
				t.Errorf("%q is refused with %+v", body, p)
			}
			return
		}
		if err := spec.Validate(); err != nil {
			t.Errorf("%q is an invalid job: %v", body, err)
		}
		if !json.Valid([]byte(body)) {
			t.Errorf("%q is not JSON", body)
		}
	})
}
