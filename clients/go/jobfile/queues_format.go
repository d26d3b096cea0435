package jobfile

import (
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/policy/share"
)

// This file formats queues. ParseQueues reads the result as the same queues.

// QueuesFile holds the queues in the structure of a queue file.
type QueuesFile struct {
	APIVersion string      `json:"apiVersion" yaml:"apiVersion"`
	Kind       string      `json:"kind" yaml:"kind"`
	Revision   uint64      `json:"revision,omitempty" yaml:"revision,omitempty"`
	Default    string      `json:"default,omitempty" yaml:"default,omitempty"`
	Queues     []QueueFile `json:"queues" yaml:"queues"`
	// Barred lists the queues that the caller may not use. Servers set it in answers. ParseQueues ignores
	// it.
	Barred []string `json:"notAllowed,omitempty" yaml:"notAllowed,omitempty,flow"`
}

// QueueFile holds one queue of a queue file.
type QueueFile struct {
	Name         string            `json:"name" yaml:"name"`
	Parent       string            `json:"parent,omitempty" yaml:"parent,omitempty"`
	Quota        Mapping           `json:"quota,omitempty" yaml:"quota,omitempty,flow"`
	Limit        Mapping           `json:"limit,omitempty" yaml:"limit,omitempty,flow"`
	Weight       *int64            `json:"weight,omitempty" yaml:"weight,omitempty"`
	Order        string            `json:"order,omitempty" yaml:"order,omitempty"`
	TimeLimit    *DefaultMost      `json:"timeLimit,omitempty" yaml:"timeLimit,omitempty,flow"`
	NodeSelector map[string]string `json:"nodeSelector,omitempty" yaml:"nodeSelector,omitempty,flow"`
	PerOwner     Mapping           `json:"perOwner,omitempty" yaml:"perOwner,omitempty,flow"`
	Priority     *DefaultMost      `json:"priority,omitempty" yaml:"priority,omitempty,flow"`
	Preemption   *PreemptionFile   `json:"preemption,omitempty" yaml:"preemption,omitempty,flow"`
	Idle         *IdleFile         `json:"idle,omitempty" yaml:"idle,omitempty,flow"`
	Owners       []string          `json:"owners,omitempty" yaml:"owners,omitempty,flow"`
}

// DefaultMost holds a default and the largest permitted value.
type DefaultMost struct {
	Default Amount `json:"default,omitempty" yaml:"default,omitempty"`
	Most    Amount `json:"max,omitempty" yaml:"max,omitempty"`
}

// PreemptionFile holds which jobs may be preempted for a queue.
type PreemptionFile struct {
	ByPriority *bool  `json:"byPriority,omitempty" yaml:"byPriority,omitempty"`
	Reclaim    *bool  `json:"reclaim,omitempty" yaml:"reclaim,omitempty"`
	Shortest   *bool  `json:"shortest,omitempty" yaml:"shortest,omitempty"`
	MinRun     Amount `json:"minRuntime,omitempty" yaml:"minRuntime,omitempty"`
	MostGrace  Amount `json:"maxGrace,omitempty" yaml:"maxGrace,omitempty"`
}

// IdleFile holds what happens to jobs that hold resources and do nothing.
type IdleFile struct {
	After Amount `json:"after,omitempty" yaml:"after,omitempty"`
	Then  string `json:"then,omitempty" yaml:"then,omitempty"`
}

// Mapping holds amounts by name. It is written in a readable order.
type Mapping map[string]Amount

// MarshalYAML writes GPUs first and memory last.
func (m Mapping) MarshalYAML() (any, error) {
	n := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
	for _, name := range m.names() {
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name},
			&yaml.Node{Kind: yaml.ScalarNode, Value: string(m[name])})
	}
	return n, nil
}

func (m Mapping) names() []string {
	fixed := []string{share.AmountGPU, share.AmountCPU, share.AmountMemory, "nodes", "running", "waiting"}
	var names, types []string
	for _, name := range fixed {
		if _, ok := m[name]; ok {
			names = append(names, name)
		}
	}
	for name := range m { //order: sorted below
		if !slices.Contains(fixed, name) {
			types = append(types, name)
		}
	}
	slices.Sort(types)
	if len(names) > 0 && names[0] == share.AmountGPU {
		return slices.Concat(names[:1], types, names[1:])
	}
	return append(types, names...)
}

// FormatQueues returns the queue file of a set of queues.
func FormatQueues(q *share.Queues) QueuesFile {
	f := QueuesFile{APIVersion: "synapse/v1", Kind: "Queues", Revision: q.Revision, Default: q.Default}
	for i := range q.Queues {
		f.Queues = append(f.Queues, formatQueue(&q.Queues[i]))
	}
	return f
}

func formatQueue(q *share.QueueSpec) QueueFile {
	f := QueueFile{
		Name: q.Name, Parent: q.Parent, Quota: mappingOf(q.Quota), Limit: mappingOf(q.Limit), Weight: q.Weight,
		PerOwner: mappingOf(q.Owner.Amounts), Owners: q.Owners,
		TimeLimit: defaultMost(written(q.DefaultLimit, formatNs), written(q.MostLimit, formatNs)),
		Priority:  defaultMost(written(q.DefaultPriority, formatNumber), written(q.MostPriority, formatNumber)),
	}
	for word, order := range orders { //order: only one matches
		if q.Order != nil && *q.Order == order {
			f.Order = word
		}
	}
	if len(q.Selector) > 0 {
		f.NodeSelector = map[string]string{}
	}
	for _, l := range q.Selector {
		f.NodeSelector[l.Key] = l.Value
	}
	for name, n := range map[string]*int64{ //order: each is independent
		"nodes": q.Owner.Machines, "running": q.Owner.Running, "waiting": q.Owner.Waiting,
	} {
		if n != nil {
			f.PerOwner[name] = Amount(strconv.FormatInt(*n, 10))
		}
	}
	if q.Preemption != (share.Preemption{}) {
		f.Preemption = &PreemptionFile{
			q.Preemption.ByPriority, q.Preemption.Reclaim, q.Preemption.Shortest, written(q.Preemption.MinRun, formatNs),
			written(q.Preemption.MostGrace, formatNs),
		}
	}
	if q.Idle != (share.Idle{}) {
		f.Idle = &IdleFile{After: written(q.Idle.After, formatNs)}
		if q.Idle.Then != nil {
			f.Idle.Then = idleActions[*q.Idle.Then]
		}
	}
	return f
}

func mappingOf(amounts share.Amounts) Mapping {
	m := Mapping{}
	for _, a := range amounts {
		if m[a.Name] = Amount(FormatMilli(a.Amount)); a.Name == share.AmountMemory {
			m[a.Name] = Amount(FormatBytes(a.Amount))
		}
	}
	return m
}

func written[N any](n *N, format func(N) string) Amount {
	if n == nil {
		return ""
	}
	return Amount(format(*n))
}

func formatNs(ns int64) string { return FormatDuration(ns / nsOfMs) }

func formatNumber(n int32) string { return strconv.Itoa(int(n)) }

func defaultMost(usual, most Amount) *DefaultMost {
	if usual == "" && most == "" {
		return nil
	}
	return &DefaultMost{usual, most}
}
