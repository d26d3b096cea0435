package slurm

import (
	"cmp"
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/yi-json/synapse/cmd/internal/sbatch"
)

// This file builds Slurm's JSON. Each object has every key of Slurm with the right nesting and type; a key without a
// value here has the zero value of its type.

// json.txt lists the keys.
//
//go:embed json.txt
var jsonKeys string

// jsonKind names an object of json.txt.
type jsonKind string

// The objects.
const (
	jsonJob       jsonKind = "job"
	jsonPast      jsonKind = "past"
	jsonNode      jsonKind = "node"
	jsonPartition jsonKind = "partition"
	jsonSinfo     jsonKind = "sinfo"
	jsonMeta      jsonKind = "meta"
	jsonPing      jsonKind = "ping"
	jsonDiag      jsonKind = "diag"
	jsonKilled    jsonKind = "killed"
)

// Parser is the version of Slurm's JSON.
const Parser = "data_parser/v0.0.42"

// jsonPaths holds the paths of an object, with their types.
type jsonPaths struct{ paths, types []string }

// jsonTable has the paths by object.
var jsonTable = sync.OnceValue(func() map[jsonKind]*jsonPaths {
	all := map[jsonKind]*jsonPaths{}
	for line := range strings.Lines(jsonKeys) {
		words := strings.Fields(line)
		if len(words) != 3 {
			continue
		}
		kind := jsonKind(words[0])
		if all[kind] == nil {
			all[kind] = &jsonPaths{}
		}
		all[kind].paths, all[kind].types = append(all[kind].paths, words[1]), append(all[kind].types, words[2])
	}
	return all
})

// keysOf returns the paths of an object below a prefix, with their types.
func keysOf(kind jsonKind, prefix string) (paths, types []string) {
	all := jsonTable()[kind]
	if prefix == "" {
		return all.paths, all.types
	}
	for i, path := range all.paths {
		if strings.HasPrefix(path, prefix) {
			paths, types = append(paths, strings.TrimPrefix(path, prefix)), append(types, all.types[i])
		}
	}
	return paths, types
}

// zero returns the zero value of a type.
func zero(kind string) any {
	switch kind {
	case "string":
		return ""
	case "boolean":
		return false
	case "integer", "number":
		return 0
	case "count":
		return map[string]any{"set": false, "infinite": false, "number": 0}
	}
	return map[string]any{}
}

// counted returns a count that is set.
func counted(n int64) map[string]any {
	return map[string]any{"set": true, "infinite": false, "number": n}
}

// orInfinite returns a count, which is infinite for 0.
func orInfinite(n int64) map[string]any {
	if n == 0 {
		return map[string]any{"set": true, "infinite": true, "number": 0}
	}
	return counted(n)
}

// jsonObject returns an object with all its keys. The values belong to paths.
func jsonObject(kind jsonKind, prefix string, values map[string]any) map[string]any {
	all := map[string]any{}
	paths, types := keysOf(kind, prefix)
	used := 0
	for i, path := range paths {
		value := zero(types[i])
		if list, _, is := strings.Cut(path, "[]"); is {
			path, value = list, []any{}
		}
		if given, has := values[path]; has {
			value = given
			if i == 0 || !strings.HasPrefix(paths[i-1], path+"[]") {
				used++
			}
		}
		at := all
		parts := strings.Split(path, ".")
		for _, part := range parts[:len(parts)-1] {
			inner, is := at[part].(map[string]any)
			if !is {
				inner = map[string]any{}
				at[part] = inner
			}
			at = inner
		}
		at[parts[len(parts)-1]] = value
	}
	if used != len(values) {
		panic("a value of " + string(kind) + " has no key in json.txt")
	}
	return all
}

// Meta returns the description of the answer to a command.
func Meta(user string, command []string) map[string]any {
	values := versionKeys()
	values["plugin.data_parser"], values["client.user"], values["command"] = Parser, user, command
	return jsonObject(jsonMeta, "", values)
}

// versionKeys returns the keys that name the release of Slurm and the cluster.
func versionKeys() map[string]any {
	version := strings.SplitN(Version, ".", 3)
	return map[string]any{
		"slurm.version.major": version[0], "slurm.version.minor": version[1], "slurm.version.micro": version[2],
		"slurm.release": Version, "slurm.cluster": ClusterName,
	}
}

// ClusterName is the name of the cluster in JSON and in --clusters.
const ClusterName = "synapse"

// jsonExit returns the keys of an exit code.
func (e *Entry) jsonExit(values map[string]any) {
	status := "SUCCESS"
	switch {
	case e.Signal > 0:
		status = "SIGNALED"
		values["exit_code.signal.id"] = counted(int64(e.Signal))
	case e.Exit > 0:
		status = "ERROR"
	case e.EndMs == 0:
		status = "PENDING"
	}
	values["exit_code.status"] = []string{status}
	values["exit_code.return_code"] = counted(int64(e.Exit))
}

// number returns the number of the job.
func (e *Entry) number() int64 { return leading(e.raw()) }

// Object returns the job for squeue and scontrol.
func (e *Entry) Object() map[string]any {
	values := map[string]any{
		"job_id": e.number(), "name": e.Name, "user_name": e.User, "account": e.Account, "partition": e.Partition,
		"qos": e.QOS, "cluster": ClusterName, "job_state": []string{e.State}, "state_reason": e.Reason,
		"state_description": e.Text, "nodes": Hostlist(e.Machines), "node_count": counted(e.Nodes),
		"cpus": counted(e.CPUs), "tasks": counted(e.Tasks), "tres_req_str": e.tres(), "tres_alloc_str": e.allocated(),
		"submit_time": counted(e.SubmitMs / 1000), "eligible_time": counted(e.SubmitMs / 1000),
		"start_time": counted(e.began() / 1000), "end_time": counted(e.ends() / 1000),
		"time_limit": orInfinite(e.LimitMs / 60_000), "priority": counted(int64(e.Priority)),
		"deadline":    counted(e.DeadlineMs / 1000),
		"restart_cnt": e.Restarts, "dependency": e.Dependency, "current_working_directory": e.Workdir,
		"command": e.Command, "comment": cmp.Or(e.Comment, e.Job), "wckey": e.WCKey, "features": e.Features,
		"required_nodes": Hostlist(e.Requested), "excluded_nodes": Hostlist(e.Excluded),
		"scheduled_nodes": Hostlist(e.Kept), "batch_flag": e.Script, "requeue": !e.Never,
		"hold":                  strings.HasPrefix(e.Reason, "JobHeld"),
		"memory_per_node":       counted((e.Memory / max(e.Nodes, 1)) >> 20),
		"minimum_cpus_per_node": counted(e.CPUs / max(e.Nodes, 1)),
		"array_job_id":          counted(0), "het_job_id": counted(0), "het_job_offset": counted(0),
	}
	if e.GPUs > 0 {
		values["tres_per_node"] = "gres/gpu:" + sbatch.Decimal(e.GPUs/max(e.Nodes, 1))
	}
	if len(e.Machines) > 0 {
		values["batch_host"] = e.Machines[0]
		values["job_resources.nodes.count"], values["job_resources.nodes.list"] = len(e.Machines), Hostlist(e.Machines)
		values["job_resources.cpus"] = e.CPUs
		var nodes []any
		for i, name := range e.Machines {
			each := max(int64(len(e.Machines)), 1)
			nodes = append(nodes, jsonObject(jsonJob, "job_resources.nodes.allocation[].", map[string]any{
				"index": i, "name": name, "cpus.count": e.CPUs / each, "cpus.used": e.CPUs / each,
				"memory.allocated": (e.Memory / each) >> 20, "memory.used": int64(0),
			}))
		}
		values["job_resources.nodes.allocation"] = nodes
	}
	if e.ArrayID != "N/A" {
		values["array_job_id"] = counted(leading(e.ArrayID))
		if index, err := strconv.ParseInt(e.Element, 10, 64); err == nil {
			values["array_task_id"] = counted(index)
		} else {
			values["array_task_string"] = e.Element
		}
	}
	e.jsonExit(values)
	return jsonObject(jsonJob, "", values)
}

// PastObject returns the job for sacct. Steps are not stored, so there are none.
func (e *Entry) PastObject() map[string]any {
	values := map[string]any{
		"job_id": e.number(), "name": e.Name, "user": e.User, "account": e.Account, "partition": e.Partition, "qos": e.QOS,
		"cluster": ClusterName, "association.account": e.Account, "association.cluster": ClusterName,
		"association.user": e.User, "allocation_nodes": len(e.Machines), "comment.job": cmp.Or(e.Comment, e.Job),
		"constraints": e.Features, "nodes": cmp.Or(Hostlist(e.Machines), "None assigned"),
		"state.current": []string{e.State}, "state.reason": e.Reason, "restart_cnt": e.Restarts,
		"priority": counted(int64(e.Priority)), "required.CPUs": e.CPUs,
		"required.memory_per_node": counted((e.Memory / max(e.Nodes, 1)) >> 20),
		"time.elapsed":             e.ElapsedMs / 1000, "time.eligible": e.SubmitMs / 1000,
		"time.submission": e.SubmitMs / 1000,
		"time.start":      e.StartMs / 1000, "time.end": e.EndMs / 1000, "time.limit": orInfinite(e.LimitMs / 60_000),
		"time.planned": counted(e.WaitedMs / 1000), "wckey.wckey": e.WCKey, "working_directory": e.Workdir,
		"tres.requested": e.jsonTres(1), "tres.allocated": e.jsonTres(e.given(1)), "submit_line": e.Command,
	}
	if e.ArrayID != "N/A" {
		values["array.job_id"] = leading(e.ArrayID)
		if index, err := strconv.ParseInt(e.Element, 10, 64); err == nil {
			values["array.task_id"] = counted(index)
		} else {
			values["array.task"] = e.Element
		}
	}
	e.jsonExit(values)
	return jsonObject(jsonPast, "", values)
}

// jsonTres returns the resources of a job: the requested or the allocated ones. times is 0 if there are none.
func (e *Entry) jsonTres(times int64) []any {
	all := []any{}
	for _, one := range []struct {
		kind, name string
		id, count  int64
	}{{"cpu", "", 1, e.CPUs}, {"mem", "", 2, e.Memory >> 20}, {"node", "", 4, e.Nodes}, {"billing", "", 5, e.CPUs},
		{"gres", "gpu", 1001, e.GPUs}} {
		if one.count*times > 0 {
			all = append(all, map[string]any{"type": one.kind, "name": one.name, "id": one.id, "count": one.count})
		}
	}
	return all
}

// jsonStates maps the states of nodes to those of JSON.
var jsonStates = map[string][]string{"down*": {"DOWN", "NOT_RESPONDING"}, "draining": {"MIXED", "DRAIN"},
	"drained": {"IDLE", "DRAIN"}, "idle": {"IDLE"}, "allocated": {"ALLOCATED"}, "mixed": {"MIXED"}}

// Object returns the node for scontrol. The partitions are those that may use it.
func (m *Machine) Object(partitions []string) map[string]any {
	features := strings.FieldsFunc(m.Features, func(r rune) bool { return r == ',' })
	values := map[string]any{
		"name": m.Name, "hostname": m.Name, "address": m.Address, "state": jsonStates[m.State], "reason": m.Why,
		"cluster_name": ClusterName, "version": m.Version, "cpus": m.CPUs, "effective_cpus": m.CPUs, "alloc_cpus": m.UsedCPUs,
		"alloc_idle_cpus": m.CPUs - m.UsedCPUs, "real_memory": m.Memory >> 20, "alloc_memory": m.UsedMemory >> 20,
		"free_mem": counted((m.Memory - m.UsedMemory) >> 20), "features": append([]string{}, features...),
		"active_features": append([]string{}, features...), "partitions": append([]string{}, partitions...),
		"tres":      "cpu=" + sbatch.Decimal(m.CPUs) + ",mem=" + mebibytes(m.Memory) + gpus(m.GPUs),
		"tres_used": "cpu=" + sbatch.Decimal(m.UsedCPUs) + ",mem=" + mebibytes(m.UsedMemory) + gpus(m.UsedGPUs),
	}
	if m.GPUs > 0 {
		values["gres"], values["gres_used"] = m.gres(), "gpu:"+sbatch.Decimal(m.UsedGPUs)
	}
	return jsonObject(jsonNode, "", values)
}

// Object returns the partition for scontrol.
func (p *Partition) Object() map[string]any {
	var cpus int64
	for _, m := range p.Machines {
		cpus += m.CPUs
	}
	limit, err := sbatch.ParseTime(p.Limit)
	if err != nil {
		limit = 0
	}
	return jsonObject(jsonPartition, "", map[string]any{
		"name": p.Name, "cluster": ClusterName, "nodes.configured": Hostlist(p.names()), "nodes.total": len(p.Machines),
		"cpus.total": cpus, "maximums.time": orInfinite(limit / 60_000), "maximums.nodes": orInfinite(0), "minimums.nodes": 1,
		"partition.state": []string{"UP"},
		"tres.configured": "cpu=" + sbatch.Decimal(cpus) + ",node=" + strconv.Itoa(len(p.Machines)),
	})
}

// Line returns the nodes of a partition in one state for sinfo.
func (p *Partition) Line() map[string]any {
	values := map[string]any{"cluster": ClusterName, "partition": p.Object(), "nodes.total": len(p.Machines)}
	var cpus, used, memory, gres, usedGPUs int64
	addresses := []string{}
	for _, m := range p.Machines {
		cpus, used, memory = cpus+m.CPUs, used+m.UsedCPUs, memory+m.UsedMemory
		gres, usedGPUs = gres+m.GPUs, usedGPUs+m.UsedGPUs
		addresses = append(addresses, m.Address)
	}
	values["cpus.allocated"], values["cpus.total"], values["memory.allocated"] = used, cpus, memory>>20
	values["nodes.hostnames"], values["nodes.nodes"] = append([]string{}, p.names()...), append([]string{}, p.names()...)
	values["nodes.addresses"] = addresses
	if len(p.Machines) == 0 {
		return jsonObject(jsonSinfo, "", values)
	}
	first := p.Machines[0]
	values["node.state"], values["features.total"], values["features.active"] = jsonStates[first.State], first.Features,
		first.Features
	values["reason.description"] = first.Why
	if gres > 0 {
		values["gres.total"], values["gres.used"] = first.gres(), "gpu:"+sbatch.Decimal(usedGPUs)
	}
	least := func(of func(*Machine) int64) int64 {
		return of(slices.MinFunc(p.Machines, func(a, b *Machine) int { return int(of(a) - of(b)) }))
	}
	most := func(of func(*Machine) int64) int64 { return -least(func(m *Machine) int64 { return -of(m) }) }
	memoryOf := func(m *Machine) int64 { return m.Memory >> 20 }
	free := func(m *Machine) int64 { return (m.Memory - m.UsedMemory) >> 20 }
	cpusOf := func(m *Machine) int64 { return m.CPUs }
	values["cpus.minimum"], values["cpus.maximum"] = least(cpusOf), most(cpusOf)
	values["memory.minimum"], values["memory.maximum"] = least(memoryOf), most(memoryOf)
	values["memory.free.minimum"], values["memory.free.maximum"] = counted(least(free)), counted(most(free))
	switch first.State {
	case "idle":
		values["nodes.idle"], values["cpus.idle"] = len(p.Machines), cpus-used
	case "allocated", "mixed":
		values["nodes.allocated"], values["cpus.idle"] = len(p.Machines), cpus-used
	default:
		values["nodes.other"], values["cpus.other"] = len(p.Machines), cpus-used
	}
	return jsonObject(jsonSinfo, "", values)
}
