package jobfile

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/messages"
)

// This file formats a job as a job file. Parse reads the result as the same job.

// File holds a job in the structure of a job file, for JSON and YAML.
type File struct {
	APIVersion string   `json:"apiVersion" yaml:"apiVersion"`
	Kind       string   `json:"kind" yaml:"kind"`
	Metadata   Metadata `json:"metadata" yaml:"metadata"`
	Spec       Spec     `json:"spec" yaml:"spec"`
}

// Metadata holds the name and labels of a job.
type Metadata struct {
	Name   string            `json:"name" yaml:"name"`
	Labels map[string]string `json:"labels,omitempty" yaml:"labels,omitempty,flow"`
}

// Spec holds the request of a job.
type Spec struct {
	Queue          string            `json:"queue,omitempty" yaml:"queue,omitempty"`
	Priority       *int32            `json:"priority,omitempty" yaml:"priority,omitempty"`
	Gang           Gang              `json:"gang" yaml:"gang"`
	Resources      *Resources        `json:"resources,omitempty" yaml:"resources,omitempty,flow"`
	Topology       *Topology         `json:"topology,omitempty" yaml:"topology,omitempty,flow"`
	NodeSelector   map[string]string `json:"nodeSelector,omitempty" yaml:"nodeSelector,omitempty,flow"`
	Nodes          []string          `json:"nodes,omitempty" yaml:"nodes,omitempty,flow"`
	Exclude        []string          `json:"exclude,omitempty" yaml:"exclude,omitempty,flow"`
	Image          string            `json:"image" yaml:"image"`
	Command        []string          `json:"command,omitempty" yaml:"command,omitempty,flow"`
	Script         Text              `json:"script,omitempty" yaml:"script,omitempty"`
	ScriptName     string            `json:"scriptName,omitempty" yaml:"scriptName,omitempty"`
	Args           []string          `json:"args,omitempty" yaml:"args,omitempty,flow"`
	Workdir        string            `json:"workdir,omitempty" yaml:"workdir,omitempty"`
	User           string            `json:"user,omitempty" yaml:"user,omitempty"`
	Network        string            `json:"network,omitempty" yaml:"network,omitempty"`
	Launcher       string            `json:"launcher,omitempty" yaml:"launcher,omitempty"`
	Env            map[string]string `json:"env,omitempty" yaml:"env,omitempty"`
	Secrets        []Secret          `json:"secrets,omitempty" yaml:"secrets,omitempty"`
	Mounts         []Mount           `json:"mounts,omitempty" yaml:"mounts,omitempty"`
	After          []string          `json:"after,omitempty" yaml:"after,omitempty"`
	Array          string            `json:"array,omitempty" yaml:"array,omitempty"`
	Begin          Amount            `json:"begin,omitempty" yaml:"begin,omitempty"`
	Deadline       Amount            `json:"deadline,omitempty" yaml:"deadline,omitempty"`
	TimeLimit      Amount            `json:"timeLimit,omitempty" yaml:"timeLimit,omitempty"`
	PrepareTimeout Amount            `json:"prepareTimeout,omitempty" yaml:"prepareTimeout,omitempty"`
	Warn           string            `json:"warn,omitempty" yaml:"warn,omitempty"`
	Preemptible    *bool             `json:"preemptible,omitempty" yaml:"preemptible,omitempty"`
	Checkpoint     any               `json:"checkpoint,omitempty" yaml:"checkpoint,omitempty,flow"`
	Stop           *Stop             `json:"stop,omitempty" yaml:"stop,omitempty,flow"`
	Progress       *Progress         `json:"progress,omitempty" yaml:"progress,omitempty,flow"`
	Hang           *Hang             `json:"hang,omitempty" yaml:"hang,omitempty,flow"`
	Restart        *Restart          `json:"restart,omitempty" yaml:"restart,omitempty,flow"`
	LostGrace      Amount            `json:"lostGrace,omitempty" yaml:"lostGrace,omitempty"`
	StopWhenLost   Amount            `json:"stopWhenLost,omitempty" yaml:"stopWhenLost,omitempty"`
}

// Gang holds the tasks of a job and how they start together.
type Gang struct {
	Replicas int32      `json:"replicas,omitempty" yaml:"replicas,omitempty"`
	Total    *Resources `json:"total,omitempty" yaml:"total,omitempty,flow"`
	Split    string     `json:"split,omitempty" yaml:"split,omitempty"`
	Apart    bool       `json:"apart,omitempty" yaml:"apart,omitempty"`
}

// Resources holds the resources of one task.
type Resources struct {
	GPU     Amount `json:"gpu,omitempty" yaml:"gpu,omitempty"`
	GPUType string `json:"gpuType,omitempty" yaml:"gpuType,omitempty"`
	CPU     Amount `json:"cpu,omitempty" yaml:"cpu,omitempty"`
	Memory  Amount `json:"memory,omitempty" yaml:"memory,omitempty"`
	Shm     Amount `json:"shm,omitempty" yaml:"shm,omitempty"`
	Disk    Amount `json:"disk,omitempty" yaml:"disk,omitempty"`
}

// Topology holds the topology request of a gang.
type Topology struct {
	Required  string `json:"required,omitempty" yaml:"required,omitempty"`
	Preferred string `json:"preferred,omitempty" yaml:"preferred,omitempty"`
	Patience  Amount `json:"patience,omitempty" yaml:"patience,omitempty"`
}

// Mount holds one mount of a host path.
type Mount struct {
	Source   string `json:"source" yaml:"source"`
	Target   string `json:"target" yaml:"target"`
	ReadOnly bool   `json:"readOnly,omitempty" yaml:"readOnly,omitempty"`
}

// Stop holds the signal and the grace period for stopping a task.
type Stop struct {
	Signal string `json:"signal,omitempty" yaml:"signal,omitempty"`
	Grace  Amount `json:"grace,omitempty" yaml:"grace,omitempty"`
}

// Progress holds the settings for reading the progress of the tasks.
type Progress struct {
	Pattern  string `json:"pattern,omitempty" yaml:"pattern,omitempty"`
	Kubeflow string `json:"kubeflow,omitempty" yaml:"kubeflow,omitempty"`
}

// Never is the value of restart.limit for a job whose tasks must not run twice.
const Never = "never"

// Restart holds how often a job is tried again.
type Restart struct {
	Limit   any    `json:"limit,omitempty" yaml:"limit,omitempty"` // a number, or Never
	Backoff Amount `json:"backoff,omitempty" yaml:"backoff,omitempty"`
	InPlace bool   `json:"inPlace,omitempty" yaml:"inPlace,omitempty"`
	Grace   Amount `json:"grace,omitempty" yaml:"grace,omitempty"`

	SwapWait Amount `json:"swapWait,omitempty" yaml:"swapWait,omitempty"`
	Spares   int32  `json:"spares,omitempty" yaml:"spares,omitempty"`
}

// Amount is a quantity or a duration in the notation of a job file.
type Amount string

// MarshalYAML writes digits without the quotes that YAML would add to a string.
func (a Amount) MarshalYAML() (any, error) {
	return &yaml.Node{Kind: yaml.ScalarNode, Value: string(a)}, nil
}

// Text is a text of several lines in a job file.
type Text string

// MarshalYAML writes the lines unquoted if a reader gets the same text back.
func (t Text) MarshalYAML() (any, error) {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: string(t), Style: TextStyle(string(t))}, nil
}

// TextStyle returns the YAML style of a text. A text is quoted if it contains characters that only YAML takes
// for line ends.
func TextStyle(s string) yaml.Style {
	if strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && r != '\t' && messages.Steers(r) }) {
		return yaml.DoubleQuotedStyle
	}
	return 0
}

// priorityOf returns the priority of a job, or nil if the job sets none.
func priorityOf(s *messages.JobSpec) *int32 {
	if n := s.GetPriority(); n != 0 || s.GetPriorityZero() {
		return &n
	}
	return nil
}

// preemptibleOf returns nil if the job may be preempted, which is the default.
func preemptibleOf(s *messages.JobSpec) *bool {
	if !s.GetNotPreemptible() {
		return nil
	}
	return new(bool)
}

// Format returns the job file of a job.
func Format(s *messages.JobSpec) File {
	f := File{
		APIVersion: "synapse/v1", Kind: "Job",
		Metadata: Metadata{Name: s.Called(), Labels: labelsOf(s.GetLabels())},
		Spec: Spec{
			Queue: s.GetQueue(), Priority: priorityOf(s), Gang: gangOf(s.GetGang()), Resources: resourcesOf(s),
			NodeSelector: labelsOf(s.GetNodeSelector()), Nodes: s.GetNodes(), Exclude: s.GetExclude(),
			Image: s.GetImage(), Command: s.GetCommand(), Workdir: s.GetWorkdir(), User: s.GetUser(),
			Network: s.GetNetwork().Word(), Launcher: s.GetLauncher().Word(),
			After:          FormatAfter(s.GetAfter()),
			Array:          FormatArray(s.GetArray()),
			Secrets:        FormatSecrets(s.GetSecrets()),
			Begin:          amount(s.GetBeginUnixMs(), FormatMoment),
			Deadline:       amount(s.GetDeadlineUnixMs(), FormatMoment),
			TimeLimit:      amount(s.GetTimeLimitMs(), FormatDuration),
			PrepareTimeout: amount(s.GetPrepareTimeoutMs(), FormatDuration),
			Warn:           FormatWarn(s.GetWarn()),
			Preemptible:    preemptibleOf(s),
			Checkpoint:     checkpointOf(s),
			LostGrace:      amount(s.GetLostGraceMs(), FormatDuration),
			StopWhenLost:   amount(s.GetStopWhenLostMs(), FormatDuration),
		},
	}
	if t := s.GetScript(); t != nil {
		f.Spec.Script, f.Spec.Args = Text(t.GetText()), t.GetArgs()
		if t.GetName() != messages.DefaultScriptName {
			f.Spec.ScriptName = t.GetName()
		}
	}
	if t := s.GetTopology(); t != nil {
		f.Spec.Topology = &Topology{t.GetRequired(), t.GetPreferred(), amount(t.GetPatienceMs(), FormatDuration)}
	}
	if t := s.GetStop(); t != nil {
		f.Spec.Stop = &Stop{Grace: amount(t.GetGraceMs(), FormatDuration)}
		if t.GetSignal() != 0 {
			f.Spec.Stop.Signal = SignalName(t.GetSignal())
		}
	}
	if t := s.GetProgress(); t != nil {
		f.Spec.Progress = &Progress{Pattern: t.GetPattern()}
		if t.GetKubeflowOff() {
			f.Spec.Progress.Kubeflow = "off"
		}
	}
	f.Spec.Hang = hangOf(s)
	if t := s.GetRestart(); t != nil {
		f.Spec.Restart = &Restart{Backoff: amount(t.GetBackoffMs(), FormatDuration), InPlace: t.GetInPlace(),
			Grace:    amount(t.GetInPlaceGraceMs(), FormatDuration),
			SwapWait: amount(t.GetSwapWaitMs(), FormatDuration), Spares: t.GetSpares()}
		if t.GetNever() {
			f.Spec.Restart.Limit = Never
		} else if t.GetLimit() != 0 {
			f.Spec.Restart.Limit = t.GetLimit()
		}
	}
	for _, m := range s.GetMounts() {
		f.Spec.Mounts = append(f.Spec.Mounts, Mount{m.GetSource(), m.GetTarget(), m.GetReadOnly()})
	}
	if len(s.GetEnv()) > 0 {
		f.Spec.Env = map[string]string{}
	}
	for _, v := range s.GetEnv() {
		f.Spec.Env[v.GetName()] = v.GetValue()
	}
	return f
}

func gangOf(g *messages.GangSpec) Gang {
	if g.GetTotal() == nil {
		return Gang{Replicas: g.GetReplicasMin(), Apart: g.GetApart()}
	}
	split := "whole"
	if g.GetSplit() == messages.Split_SPLIT_ANY {
		split = "any"
	}
	return Gang{Total: amountsOf(g.GetTotal()), Split: split}
}

func resourcesOf(s *messages.JobSpec) *Resources {
	if s.GetEach() == nil && s.GetGpuType() == "" && s.GetShmBytes() == 0 && s.GetDiskBytes() == 0 {
		return nil
	}
	r := amountsOf(s.GetEach())
	r.GPUType, r.Shm, r.Disk = s.GetGpuType(), amount(s.GetShmBytes(), FormatBytes), amount(s.GetDiskBytes(), FormatBytes)
	return r
}

func amountsOf(r *messages.Resources) *Resources {
	return &Resources{GPU: amount(r.GetMilliGpu(), FormatMilli), CPU: amount(r.GetMilliCpu(), FormatMilli),
		Memory: amount(r.GetMemoryBytes(), FormatBytes)}
}

func labelsOf(list []*messages.Label) map[string]string {
	if len(list) == 0 {
		return nil
	}
	m := make(map[string]string, len(list))
	for _, l := range list {
		m[l.GetKey()] = l.GetValue()
	}
	return m
}

// amount formats the value of a key, or returns nothing if the value is unset.
func amount(n int64, format func(int64) string) Amount {
	if n == 0 {
		return ""
	}
	return Amount(format(n))
}

// FormatMilli formats thousandths as a number: 8, 0.5.
func FormatMilli(n int64) string {
	s := strconv.FormatInt(n/1000, 10)
	if n%1000 != 0 {
		s += "." + strings.TrimRight(strconv.FormatInt(1000+n%1000, 10)[1:], "0")
	}
	return s
}

// FormatBytes formats an exact amount of memory in the largest unit that needs no fraction. Less than 1Ki
// becomes a fraction of 1Ki, because ParseMemory refuses small numbers of plain bytes.
func FormatBytes(n int64) string {
	units := []string{"Pi", "Ti", "Gi", "Mi", "Ki"}
	for i, unit := range units {
		if worth := int64(1) << (50 - 10*i); n != 0 && n%worth == 0 {
			return strconv.FormatInt(n/worth, 10) + unit
		}
	}
	if n < 1<<20 && n > 0 {
		return strconv.FormatFloat(float64(n)/1024, 'f', -1, 64) + "Ki"
	}
	return strconv.FormatInt(n, 10)
}

// FormatDuration formats an exact duration: 24h, 1m30s.
func FormatDuration(ms int64) string {
	if ms == 0 {
		return "0s"
	}
	var s strings.Builder
	for _, unit := range []string{"h", "m", "s", "ms"} {
		if n := ms / msOfSpan[unit]; n > 0 {
			s.WriteString(strconv.FormatInt(n, 10) + unit)
			ms -= n * msOfSpan[unit]
		}
	}
	return s.String()
}
