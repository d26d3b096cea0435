package slurm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/yi-json/synapse/messages"
)

// This file converts a node into Slurm's terms, and a queue into a partition.

// Machine is a node in the form of sinfo and scontrol.
type Machine struct {
	Name, Address, State, Why, GPUType, Features, Version string
	Partition                                             string // the partition of its line
	CPUs, UsedCPUs, GPUs, UsedGPUs                        int64
	Memory, UsedMemory                                    int64
	labels                                                []*messages.Label
}

// MachineOf returns the Machine of a node.
func MachineOf(n *messages.NodeStatus) *Machine {
	r := n.GetRecord()
	a, total, free := r.GetAnnouncement(), r.GetAnnouncement().GetTotal(), n.GetLedger().GetFree()
	m := &Machine{
		Name: r.GetId(), Address: a.GetAddress(), Why: n.GetClosed(), Version: a.GetAgentVersion(),
		CPUs: total.GetMilliCpu() / 1000, Memory: total.GetMemoryBytes(), GPUs: int64(len(a.GetGpus())),
		labels: slices.Concat(a.GetLabels(), a.GetPlace()),
	}
	if n.GetLedger() != nil {
		m.UsedCPUs = (total.GetMilliCpu() - free.GetMilliCpu() + 999) / 1000
		m.UsedMemory = total.GetMemoryBytes() - free.GetMemoryBytes()
		m.UsedGPUs = (total.GetMilliGpu() - free.GetMilliGpu() + 999) / 1000
	}
	if len(a.GetGpus()) > 0 {
		m.GPUType = a.GetGpus()[0].GetType()
	}
	for _, l := range a.GetLabels() {
		m.Features = strings.TrimPrefix(m.Features+","+l.GetKey()+"="+l.GetValue(), ",")
	}
	m.State = m.state(n)
	return visible(m)
}

// state returns Slurm's word for the state of a node.
func (m *Machine) state(n *messages.NodeStatus) string {
	busy := len(n.GetLedger().GetSlices()) > 0
	switch condition := messages.ConditionOf(n); condition {
	case messages.NodeDead, messages.NodeUnknown:
		return "down*"
	case messages.NodeUp:
	default:
		if busy {
			return "draining"
		}
		return "drained"
	}
	switch {
	case !busy:
		return "idle"
	case m.UsedCPUs >= m.CPUs, m.GPUs > 0 && m.UsedGPUs >= m.GPUs:
		return "allocated"
	}
	return "mixed"
}

// shortStates maps the states of nodes to their short forms.
var shortStates = map[string]string{"down*": "down*", "draining": "drng", "drained": "drain", "idle": "idle",
	"allocated": "alloc", "mixed": "mix"}

// HasState reports whether a node is in a state, in either form of the word.
func (m *Machine) HasState(word string) bool {
	word = strings.ToLower(strings.TrimSuffix(word, "*"))
	state := strings.TrimSuffix(m.State, "*")
	return word == state || word == strings.TrimSuffix(shortStates[m.State], "*") || word == "drain" &&
		strings.HasPrefix(state, "drain") || word == "all"
}

// Fits reports whether a node has all labels of a queue's selector.
func (m *Machine) Fits(selector []*messages.Label) bool {
	for _, want := range selector {
		if label(m.labels, want.GetKey()) != want.GetValue() {
			return false
		}
	}
	return true
}

// Partition holds the nodes of one queue in one state: a line of sinfo.
type Partition struct {
	Name, Limit string
	Usual       bool
	Machines    []*Machine
}

func (p *Partition) names() (all []string) {
	for _, m := range p.Machines {
		all = append(all, m.Name)
	}
	return all
}

func (m *Machine) gres() string {
	switch {
	case m.GPUs == 0:
		return "(null)"
	case m.GPUType == "":
		return fmt.Sprintf("gpu:%d", m.GPUs)
	}
	return fmt.Sprintf("gpu:%s:%d", m.GPUType, m.GPUs)
}

// Show formats a node like scontrol.
func (m *Machine) Show() string {
	text := fmt.Sprintf(
		"NodeName=%s CPUAlloc=%d CPUTot=%d\n   AvailableFeatures=%s\n   Gres=%s\n   NodeAddr=%s NodeHostName=%s Version=%s\n"+
			"   RealMemory=%d AllocMem=%d\n   State=%s\n   CfgTRES=cpu=%d,mem=%s%s\n   AllocTRES=cpu=%d,mem=%s%s\n",
		m.Name, m.UsedCPUs, m.CPUs, cmp.Or(m.Features, "(null)"), m.gres(), m.Address, m.Name, m.Version, m.Memory>>20,
		m.UsedMemory>>20,
		strings.ToUpper(m.State), m.CPUs, mebibytes(m.Memory), gpus(m.GPUs), m.UsedCPUs, mebibytes(m.UsedMemory),
		gpus(m.UsedGPUs))
	if m.Why != "" {
		text += "   Reason=" + m.Why + "\n"
	}
	return text
}

// Show formats a partition like scontrol.
func (p *Partition) Show() string {
	var cpus, memory, devices int64
	names := make([]string, 0, len(p.Machines))
	for _, m := range p.Machines {
		cpus, memory, devices, names = cpus+m.CPUs, memory+m.Memory, devices+m.GPUs, append(names, m.Name)
	}
	usual, most := "NO", strings.ToUpper(p.Limit)
	if p.Usual {
		usual = "YES"
	}
	if most == "INFINITE" {
		most = "UNLIMITED"
	}
	return fmt.Sprintf("PartitionName=%s\n   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL\n   Default=%s QoS=N/A\n"+
		"   DefaultTime=NONE Hidden=NO\n   MaxNodes=UNLIMITED MaxTime=%s MinNodes=1\n   Nodes=%s\n"+
		"   OverSubscribe=NO State=UP TotalCPUs=%d TotalNodes=%d\n   DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED\n"+
		"   TRES=cpu=%d,mem=%s,node=%d%s\n", p.Name, usual, most, cmp.Or(Hostlist(names), "(null)"), cpus,
		len(p.Machines), cpus, mebibytes(memory), len(p.Machines), gpus(devices))
}

func gpus(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(",gres/gpu=%d", n)
}

// Show formats a job like scontrol.
func (e *Entry) Show() string {
	text := "JobId=" + strings.SplitN(e.ID, "_", 2)[0]
	if e.ArrayID != "N/A" {
		text = "JobId=" + e.ArrayID + " ArrayJobId=" + e.ArrayID + " ArrayTaskId=" + e.Element
	}
	batch := strings.Join(e.Machines[:min(1, len(e.Machines))], "")
	return text +
		fmt.Sprintf(" JobName=%s\n   UserId=%s Account=%s QOS=%s WCKey=%s\n   Priority=%d\n"+
			"   JobState=%s Reason=%s Dependency=%s\n"+
			"   Requeue=%d Restarts=%d BatchFlag=%d ExitCode=%d:%d\n   RunTime=%s TimeLimit=%s\n   SubmitTime=%s\n   "+
			"StartTime=%s EndTime=%s Deadline=%s\n"+
			"   Partition=%s\n   ReqNodeList=%s ExcNodeList=%s\n   NodeList=%s\n   BatchHost=%s\n   NumNodes=%d NumCPUs=%d "+
			"NumTasks=%d\n   ReqTRES=%s\n"+
			"   Features=%s\n   Command=%s\n   WorkDir=%s\n   Comment=%s\n",
			e.Name, e.User, cmp.Or(e.Account, "(null)"), e.QOS, cmp.Or(e.WCKey, "(null)"), e.Priority,
			e.State, e.Reason,
			cmp.Or(e.Dependency, "(null)"),
			bit(!e.Never), e.Restarts, bit(e.Script), e.Exit, e.Signal, wide(e.ElapsedMs), limit(e.LimitMs, wide),
			moment(e.SubmitMs, "Unknown"),
			moment(e.began(), "Unknown"), moment(e.ends(), "Unknown"),
			moment(e.DeadlineMs, "N/A"), cmp.Or(e.Partition, "(null)"),
			cmp.Or(Hostlist(e.Requested), "(null)"),
			cmp.Or(Hostlist(e.Excluded), "(null)"), cmp.Or(Hostlist(e.Machines), "(null)"), cmp.Or(batch, "(null)"),
			e.Nodes, e.CPUs, e.Tasks,
			e.tres(), cmp.Or(e.Features, "(null)"), cmp.Or(e.Command, "(null)"), cmp.Or(e.Workdir, "(null)"),
			cmp.Or(e.Comment, e.Job+": "+e.Text))
}

func bit(is bool) int {
	if is {
		return 1
	}
	return 0
}
