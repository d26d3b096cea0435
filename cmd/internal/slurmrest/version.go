package slurmrest

import "strings"

// This file has the versions of the data parser. Package slurm builds objects of the newest one. The older ones differ
// in a few keys, which the answers of slurmrestd 24.11 (v0.0.41) and 23.11 (v0.0.40) show.

// version is a version of the data parser.
type version struct {
	number string
	change func(kind string, object map[string]any) // nil: none
}

// versions lists the versions that Slurm 24.11 serves, the newest first.
var versions = []version{{"v0.0.42", nil}, {"v0.0.41", to41}, {"v0.0.40", to40}}

// served lists the versions as text.
func served() string {
	var all []string
	for _, v := range versions {
		all = append(all, v.number)
	}
	return strings.Join(all, ", ")
}

// The kinds of objects.
const (
	ofJob       = "job"
	ofPast      = "past"
	ofNode      = "node"
	ofPartition = "partition"
)

// shaped returns a function that converts the objects of a kind.
func shaped[T any](v *version, kind string, of func(T) map[string]any) func(T) map[string]any {
	if v.change == nil {
		return of
	}
	return func(one T) map[string]any {
		object := of(one)
		v.change(kind, object)
		return object
	}
}

func to41(kind string, o map[string]any) {
	switch kind {
	case ofPast:
		delete(o, "restart_cnt")
		delete(o, "qosreq")
	case ofJob:
		delete(o, "priority_by_partition")
		delete(o, "required_switches")
		o["minimum_switches"], o["oversubscribe"], o["exclusive"], o["show_flags"] = 0, false, []any{}, []any{}
	}
}

func to40(kind string, o map[string]any) {
	to41(kind, o)
	unset := func() map[string]any { return map[string]any{"set": false, "infinite": false, "number": 0} }
	switch kind {
	case ofJob:
		o["job_resources"] = resources40(o["job_resources"].(map[string]any))
	case ofNode:
		delete(o, "gpu_spec")
		delete(o, "res_cores_per_gpu")
		o["external_sensors"] = map[string]any{"consumed_energy": unset(), "temperature": unset(),
			"energy_update_time": 0, "current_watts": 0}
		o["power"] = map[string]any{"maximum_watts": unset(), "current_watts": 0, "total_energy": 0, "new_maximum_watts": 0,
			"peak_watts": 0, "lowest_watts": 0, "new_job_time": unset(), "state": 0, "time_start_day": 0}
	case ofPartition:
		delete(o, "select_type")
	}
}

// resources40 converts the resources of a job.
func resources40(now map[string]any) map[string]any {
	nodes := now["nodes"].(map[string]any)
	all := []any{}
	list, _ := nodes["allocation"].([]any)
	for _, one := range list {
		of := one.(map[string]any)
		memory := of["memory"].(map[string]any)
		all = append(all, map[string]any{"sockets": map[string]any{}, "nodename": of["name"],
			"cpus_used": of["cpus"].(map[string]any)["used"], "memory_used": memory["used"],
			"memory_allocated": memory["allocated"]})
	}
	return map[string]any{"nodes": nodes["list"], "allocated_cores": now["cpus"], "allocated_cpus": now["cpus"],
		"allocated_hosts": nodes["count"], "allocated_nodes": all}
}
