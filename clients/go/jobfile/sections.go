package jobfile

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/renamed"
	"github.com/yi-json/synapse/messages/spelling"
)

// This file defines the keys of a job file. To add a key, add a line to the table: suggestions for misspelled
// keys and the positions of errors follow from the table.

// section describes one mapping with fixed keys.
type section struct {
	path string
	keys []key
}

type key struct {
	name  string
	field string // name in package messages; empty if only the file has it
	// read is nil for values that only a scheduler sets. The reader skips them, so that the output of
	// `get job JOB -o yaml` can be submitted unchanged.
	read read
}

type spec = messages.JobSpec

// sections is a function and not a variable, because its readers use sections.
func sections() []section {
	return []section{
		{"", []key{
			{"apiVersion", "", readWord("a supported version", []string{"synapse/v1"}, func(*spec, string) {})},
			{"kind", "", readWord("a supported kind", []string{"Job"}, func(*spec, string) {})},
			{"metadata", "", readSection},
			{"spec", "", readSection},
			{"status", "", nil},
		}},
		{"metadata", []key{
			{"name", "name", readTitle},
			{"labels", "labels", readLabels("labels", func(s *spec) *[]*messages.Label { return &s.Labels })},
			{"id", "", nil}, {"owner", "", nil}, {"requestId", "", nil}, {"revision", "", nil},
		}},
		{"spec", specKeys()},
		{"spec.gang", []key{
			{"replicas", "gang.replicas_min", readCount(func(s *spec) *int32 { return &s.Gang.ReplicasMin })},
			{"total", "gang.total", readTotal},
			{"split", "gang.split", readWord("a supported split", []string{"whole", "any"}, setSplit)},
			{"apart", "gang.apart", func(r *reader, n *yaml.Node, path string) { r.spec.Gang.Apart = r.boolean(n, path) }},
		}},
		{"spec.resources", []key{
			{"gpu", "each.milli_gpu", readAmount(ParseGPU, func(s *spec) *int64 { return &each(s).MilliGpu })},
			{"gpuType", "gpu_type", readText(func(s *spec) *string { return &s.GpuType })},
			{"cpu", "each.milli_cpu", readAmount(ParseCPU, func(s *spec) *int64 { return &each(s).MilliCpu })},
			{"memory", "each.memory_bytes", readAmount(ParseMemory, func(s *spec) *int64 { return &each(s).MemoryBytes })},
			{"shm", "shm_bytes", readAmount(ParseMemory, func(s *spec) *int64 { return &s.ShmBytes })},
			{"disk", "disk_bytes", readAmount(ParseMemory, func(s *spec) *int64 { return &s.DiskBytes })},
		}},
		{"spec.gang.total", []key{
			{"gpu", "gang.total.milli_gpu", readAmount(ParseGPU, func(s *spec) *int64 { return &s.Gang.Total.MilliGpu })},
			{"cpu", "gang.total.milli_cpu", readAmount(ParseCPU, func(s *spec) *int64 { return &s.Gang.Total.MilliCpu })},
			{"memory", "gang.total.memory_bytes", readAmount(ParseMemory, func(s *spec) *int64 {
				return &s.Gang.Total.MemoryBytes
			})},
		}},
		{"spec.topology", []key{
			{"required", "topology.required", readName(func(s *spec) *string { return &topology(s).Required })},
			{"preferred", "topology.preferred", readName(func(s *spec) *string { return &topology(s).Preferred })},
			{"patience", "topology.patience_ms", readAmount(ParseDuration, func(s *spec) *int64 {
				return &topology(s).PatienceMs
			})},
		}},
		{"spec.progress", []key{
			{"pattern", "progress.pattern", readText(func(s *spec) *string { return &progress(s).Pattern })},
			{"kubeflow", "progress.kubeflow_off", readWord("a supported value", []string{"on", "off"},
				func(s *spec, word string) { progress(s).KubeflowOff = word == "off" })},
		}},
		{"spec.checkpoint", checkpointKeys()},
		{"spec.hang", hangKeys()},
		{"spec.stop", []key{
			{"signal", "stop.signal", readSignal},
			{"grace", "stop.grace_ms", readAmount(ParseDuration, func(s *spec) *int64 { return &stop(s).GraceMs })},
		}},
		{"spec.restart", []key{
			{"limit", "restart.limit", readRestarts},
			{"backoff", "restart.backoff_ms", readAmount(ParseDuration, func(s *spec) *int64 { return &restart(s).BackoffMs })},
			{"inPlace", "restart.in_place", func(r *reader, n *yaml.Node, path string) {
				restart(r.spec).InPlace = r.boolean(n, path)
			}},
			{"grace", "restart.in_place_grace_ms", readAmount(ParseDuration,
				func(s *spec) *int64 { return &restart(s).InPlaceGraceMs })},
			{"swapWait", "restart.swap_wait_ms", readAmount(ParseDuration,
				func(s *spec) *int64 { return &restart(s).SwapWaitMs })},
			{"spares", "restart.spares", readCount(func(s *spec) *int32 { return &restart(s).Spares })},
		}},
	}
}

// specKeys returns the keys of the job itself.
func specKeys() []key {
	return []key{
		{"queue", "queue", readName(func(s *spec) *string { return &s.Queue })},
		{"priority", "priority", readPriority},
		{"gang", "gang", readSection},
		{"resources", "each", readSection},
		{"topology", "topology", readSection},
		{"nodeSelector", "node_selector", readLabels("node_selector",
			func(s *spec) *[]*messages.Label { return &s.NodeSelector })},
		{"nodes", "nodes", readMachines("nodes", func(s *spec) *[]string { return &s.Nodes })},
		{"exclude", "exclude", readMachines("exclude", func(s *spec) *[]string { return &s.Exclude })},
		{"image", "image", readText(func(s *spec) *string { return &s.Image })},
		{"command", "command", readArguments("command", func(s *spec) *[]string { return &s.Command })},
		{"script", "script.text", readScript},
		{"scriptName", "script.name", readText(func(s *spec) *string { return &script(s).Name })},
		{"args", "script.args", readArguments("script.args", func(s *spec) *[]string { return &script(s).Args })},
		{"workdir", "workdir", readText(func(s *spec) *string { return &s.Workdir })},
		{"user", "user", readText(func(s *spec) *string { return &s.User })},
		{"network", "network", readWord("a supported network", messages.NetworkWords(), setNetwork)},
		{"launcher", "launcher", readWord("a launcher", messages.LaunchWords(), setLauncher)},
		{"env", "env", readEnv},
		{"secrets", "secrets", readSecrets},
		{"mounts", "mounts", readMounts},
		{"after", "after", readAfter},
		{"array", "array", readArray},
		{"begin", "begin_unix_ms", readAmount(ParseMoment, func(s *spec) *int64 { return &s.BeginUnixMs })},
		{"deadline", "deadline_unix_ms", readAmount(ParseMoment, func(s *spec) *int64 { return &s.DeadlineUnixMs })},
		{"timeLimit", "time_limit_ms", readAmount(ParseDuration, func(s *spec) *int64 { return &s.TimeLimitMs })},
		{"prepareTimeout", "prepare_timeout_ms", readAmount(ParseDuration,
			func(s *spec) *int64 { return &s.PrepareTimeoutMs })},
		{"warn", "warn", readWarn},
		{"preemptible", "not_preemptible", func(r *reader, n *yaml.Node, path string) {
			r.spec.NotPreemptible = !r.boolean(n, path)
		}},
		{"checkpoint", "checkpoint", readCheckpoint},
		{"progress", "progress", readSection},
		{"hang", "hang", readSection},
		{"stop", "stop", readSection},
		{"restart", "restart", readSection},
		{"lostGrace", "lost_grace_ms", readAmount(ParseDuration, func(s *spec) *int64 { return &s.LostGraceMs })},
		{"stopWhenLost", "stop_when_lost_ms", readAmount(ParseDuration,
			func(s *spec) *int64 { return &s.StopWhenLostMs })},
	}
}

// made returns *p, and creates it first if it is nil. Parts that the file omits therefore stay nil.
func made[T any](p **T) *T {
	if *p == nil {
		*p = new(T)
	}
	return *p
}

func each(s *spec) *messages.Resources        { return made(&s.Each) }
func topology(s *spec) *messages.TopologySpec { return made(&s.Topology) }
func progress(s *spec) *messages.ProgressSpec { return made(&s.Progress) }
func stop(s *spec) *messages.StopSpec         { return made(&s.Stop) }
func restart(s *spec) *messages.RestartSpec   { return made(&s.Restart) }
func script(s *spec) *messages.Script         { return made(&s.Script) }

func readScript(r *reader, n *yaml.Node, path string) {
	if text, ok := r.scalar(n, path, "the text of a script"); ok {
		script(r.spec).Text = []byte(text)
	}
}

// readPriority records an explicit 0. A queue's default applies only to jobs that set no priority.
func readPriority(r *reader, n *yaml.Node, path string) {
	if count, ok := r.number(n, path, 32); ok {
		r.spec.Priority, r.spec.PriorityZero = int32(count), count == 0
	}
}

func readTotal(r *reader, n *yaml.Node, path string) {
	r.spec.Gang.Total = &messages.Resources{}
	readSection(r, n, path)
}

func setSplit(s *spec, word string) {
	s.Gang.Split = messages.Split_SPLIT_WHOLE
	if word == "any" {
		s.Gang.Split = messages.Split_SPLIT_ANY
	}
}

func setNetwork(s *spec, word string) { s.Network, _ = messages.NetworkOf(word) }

func setLauncher(s *spec, word string) { s.Launcher, _ = messages.LaunchOf(word) }

func readSignal(r *reader, n *yaml.Node, path string) {
	if number, ok := parsed(r, n, path, "a signal", ParseSignal); ok {
		stop(r.spec).Signal = number
	}
}

// parsed reads a word with the given parse function.
func parsed[T any](r *reader, n *yaml.Node, path, what string, parse func(string) (T, *Problem)) (T, bool) {
	s, ok := r.scalar(n, path, what)
	if !ok {
		var none T
		return none, false
	}
	value, p := parse(s)
	if p != nil {
		r.refuse(n, path, p)
	}
	return value, p == nil
}

// sectionOf returns the section for a path. All entries of a list share one section.
func (r *reader) sectionOf(path string) section {
	path = inLists().ReplaceAllString(path, "[]")
	for _, s := range r.file.sections {
		if s.path == path {
			return s
		}
	}
	panic("jobfile: no section " + path)
}

var inLists = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\[[0-9]+\]`)
})

func (s section) find(name string) *key {
	for i := range s.keys {
		if s.keys[i].name == name {
			return &s.keys[i]
		}
	}
	return nil
}

func (s section) names() []string {
	var names []string
	for _, k := range s.keys {
		if k.read != nil {
			names = append(names, k.name)
		}
	}
	return names
}

// elsewhere suggests a fix for a key that this section does not have: another spelling, or another section.
func (r *reader) elsewhere(s section, name string) string {
	if now, is := renamed.Key(r.file.table, join(s.path, name)); is {
		return "use " + now
	}
	for _, other := range r.file.sections {
		if other.find(name) != nil {
			return "move it to " + orRoot(other.path)
		}
	}
	if near := spelling.Nearest(name, s.names()); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	for _, other := range r.file.sections {
		if near := spelling.Nearest(name, other.names()); near != "" {
			return fmt.Sprintf("did you mean %q? Move it to %s", near, orRoot(other.path))
		}
	}
	return "use " + strings.Join(s.names(), ", ")
}

func orRoot(path string) string {
	if path == "" {
		return "the top of the file"
	}
	return path
}
