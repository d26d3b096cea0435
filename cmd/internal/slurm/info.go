package slurm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/yi-json/synapse/cmd/internal/sbatch"
)

// This file defines the fields of nodes and partitions for sinfo.

// The default formats of sinfo.
const (
	InfoFormat  = "%9P %.5a %.10l %.6D %.6t %N"
	InfoNodes   = "%N %.6D %.9P %6t"
	InfoLong    = "%N %.6D %.9P %.11T %.4c %.8m %.20G %20E"
	InfoSummary = "%9P %.5a %.10l %.16F %N"
	InfoReasons = "%20E %9u %19H %N"
)

// commonTo returns a function that returns the value of the first node, with a plus if another node differs.
func commonTo(of func(*Machine) string) func(*Partition) string {
	return func(p *Partition) string {
		if len(p.Machines) == 0 {
			return "n/a"
		}
		text := of(p.Machines[0])
		for _, m := range p.Machines {
			if of(m) != text {
				return text + "+"
			}
		}
		return text
	}
}

// sum returns the sum of a number of all nodes.
func (p *Partition) sum(of func(*Machine) int64) (n int64) {
	for _, m := range p.Machines {
		n += of(m)
	}
	return n
}

// out reports whether no job can use the node.
func (m *Machine) out() bool { return m.State == "down*" || m.State == "drained" }

// cpus counts the CPUs: allocated/idle/other/total.
func (p *Partition) cpus() string {
	all, used := p.sum(func(m *Machine) int64 { return m.CPUs }), p.sum(func(m *Machine) int64 { return m.UsedCPUs })
	out := p.sum(func(m *Machine) int64 {
		if m.out() {
			return m.CPUs - m.UsedCPUs
		}
		return 0
	})
	return fmt.Sprintf("%d/%d/%d/%d", used, all-used-out, out, all)
}

// counts returns how many nodes have jobs, are idle, and cannot be used.
func (p *Partition) counts() (busy, idle, out int) {
	for _, m := range p.Machines {
		switch {
		case m.out():
			out++
		case m.State == "idle":
			idle++
		default:
			busy++
		}
	}
	return busy, idle, out
}

// ByReason returns a line for each reason why nodes do not run new jobs.
func ByReason(all []*Machine) (lines []*Partition) {
	for _, m := range all {
		at := slices.IndexFunc(lines, func(p *Partition) bool { return p.Machines[0].Why == m.Why })
		if at < 0 {
			at, lines = len(lines), append(lines, &Partition{})
		}
		lines[at].Machines = append(lines[at].Machines, m)
	}
	return lines
}

// InfoFields returns the fields of sinfo.
func InfoFields() []Field[*Partition] {
	return append([]Field[*Partition]{
		{'P', []string{"Partition"}, "PARTITION", func(p *Partition) string {
			if p.Usual {
				return p.Name + "*"
			}
			return p.Name
		}},
		{'R', []string{"PartitionName"}, "PARTITION", func(p *Partition) string { return p.Name }},
		{'l', []string{"Time"}, "TIMELIMIT", func(p *Partition) string { return p.Limit }},
		{'D', []string{"Nodes"}, "NODES", func(p *Partition) string { return sbatch.Decimal(int64(len(p.Machines))) }},
		{'A', []string{"NodeAI"}, "NODES(A/I)", func(p *Partition) string {
			busy, idle, _ := p.counts()
			return fmt.Sprintf("%d/%d", busy, idle)
		}},
		{'F', []string{"NodeAIOT"}, "NODES(A/I/O/T)", func(p *Partition) string {
			busy, idle, out := p.counts()
			return fmt.Sprintf("%d/%d/%d/%d", busy, idle, out, len(p.Machines))
		}},
		{'C', []string{"CPUsState"}, "CPUS(A/I/O/T)", (*Partition).cpus},
		{'N', []string{"NodeList"}, "NODELIST", func(p *Partition) string { return Hostlist(p.names()) }},
		{'n', []string{"NodeHost"}, "HOSTNAMES", func(p *Partition) string { return strings.Join(p.names(), ",") }},
	}, append(ofMachines(), unchanging()...)...)
}

// Group returns the values of a node in the columns of a format that describe nodes. Nodes with equal values share a
// line, as in Slurm.
func Group(columns []Column[*Partition], m *Machine) (key string) {
	one := &Partition{Machines: []*Machine{m}}
	apart := ofMachines()
	for _, c := range columns {
		if c.Letter == 'n' || slices.ContainsFunc(apart, func(f Field[*Partition]) bool { return f.Head == c.Head }) {
			key += c.Of(one) + "\x00"
		}
	}
	return key
}

// ofMachines returns the fields of sinfo that describe the nodes of a line.
func ofMachines() (all []Field[*Partition]) {
	for _, f := range []Field[*Machine]{
		{'t', []string{"StateCompact"}, "STATE", func(m *Machine) string { return shortStates[m.State] }},
		{'T', []string{"StateLong", "StateComplete"}, "STATE", func(m *Machine) string { return m.State }},
		{'o', []string{"NodeAddr"}, "NODE_ADDR", func(m *Machine) string { return m.Address }},
		{'c', []string{"CPUs"}, "CPUS", func(m *Machine) string { return sbatch.Decimal(m.CPUs) }},
		{'m', []string{"Memory"}, "MEMORY", func(m *Machine) string { return sbatch.Decimal(m.Memory >> 20) }},
		{'e', []string{"FreeMem"}, "FREE_MEM", func(m *Machine) string {
			return sbatch.Decimal((m.Memory - m.UsedMemory) >> 20)
		}},
		{0, []string{"AllocMem"}, "ALLOCMEM", func(m *Machine) string { return sbatch.Decimal(m.UsedMemory >> 20) }},
		{'G', []string{"Gres"}, "GRES", (*Machine).gres},
		{0, []string{"GresUsed"}, "GRES_USED", func(m *Machine) string { return "gpu:" + sbatch.Decimal(m.UsedGPUs) }},
		{'f', []string{"Features"}, "AVAIL_FEATURES", func(m *Machine) string { return cmp.Or(m.Features, "(null)") }},
		{'b', []string{"features_act"}, "ACTIVE_FEATURES", func(m *Machine) string { return cmp.Or(m.Features, "(null)") }},
		{'E', []string{"Reason"}, "REASON", func(m *Machine) string { return cmp.Or(m.Why, "none") }},
		{'v', []string{"Version"}, "VERSION", func(m *Machine) string { return m.Version }},
		// The CPUs of a node are the cores of one socket, as in a cluster of Slurm whose configuration counts only CPUs.
		{'Y', []string{"Cores"}, "CORES", func(m *Machine) string { return sbatch.Decimal(m.CPUs) }},
		{'z', []string{"SocketCoreThread"}, "S:C:T", func(m *Machine) string { return fmt.Sprintf("1:%d:1", m.CPUs) }},
	} {
		all = append(all, Field[*Partition]{f.Letter, f.Names, f.Head, commonTo(f.Of)})
	}
	return all
}

// unchanging returns the fields of sinfo that are the same for all nodes, because no setting changes them.
func unchanging() (all []Field[*Partition]) {
	for _, f := range []struct {
		letter     byte
		name, head string
		value      string
	}{
		{'a', "Available", "AVAIL", "up"}, {'B', "MaxCPUsPerNode", "MAX_CPUS_PER_NODE", "UNLIMITED"},
		{'d', "Disk", "TMP_DISK", "0"}, {'g', "Groups", "GROUPS", "all"}, {'h', "OverSubscribe", "OVERSUBSCRIBE", "NO"},
		{'H', "TimeStamp", "TIMESTAMP", "Unknown"}, {'i', "Reservation", "RESERVATION", ""},
		{'I', "PriorityJobFactor", "PRIO_JOB_FACTOR", "1"}, {'L', "DefaultTime", "DEFAULTTIME", "n/a"},
		{'M', "PreemptMode", "PREEMPT_MODE", "OFF"}, {'O', "CPUsLoad", "CPU_LOAD", "N/A"},
		{'p', "PriorityTier", "PRIO_TIER", "1"}, {'r', "Root", "ROOT", "no"}, {'s', "Size", "JOB_SIZE", "1-infinite"},
		{'S', "AllocNodes", "ALLOCNODES", "all"}, {'u', "User", "USER", "Unknown"},
		{'U', "UserLong", "USER", "Unknown"}, {'V', "Cluster", "CLUSTER", ClusterName}, {'w', "Weight", "WEIGHT", "1"},
		{'X', "Sockets", "SOCKETS", "1"}, {'Z', "Threads", "THREADS", "1"}, {0, "Comment", "COMMENT", "(null)"},
		{0, "Extra", "EXTRA", "(null)"}, {0, "Port", "PORT", ""},
	} {
		all = append(all, Field[*Partition]{f.letter, []string{f.name}, f.head, func(*Partition) string { return f.value }})
	}
	return all
}
