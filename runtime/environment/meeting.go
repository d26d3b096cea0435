package environment

import (
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/messages"
)

// This file describes the rendezvous of a gang in the terms of the frameworks. Frameworks call a task a node: one
// launcher such as torchrun, which starts a process for each GPU of the task.

// maxListBytes bounds a list in one variable. The kernel refuses more than 128 KiB. A longer list is only in the
// hostfile.
const maxListBytes = 96 << 10

// host is one node of the gang.
type host struct {
	node, address string
	tasks         int
}

// Within returns the rendezvous as the gang's tasks see it. A gang on a single node without the host's network cannot
// reach the node's address, so it uses its own loopback.
func Within(r *messages.Rendezvous, network messages.Network) *messages.Rendezvous {
	if len(messages.NetworkLabels(network)) == 0 || len(hosts(r)) > 1 {
		return r
	}
	within := &messages.Rendezvous{Address: loopback, Port: r.GetPort()}
	for _, p := range r.GetPeers() {
		peer := &messages.Peer{Rank: p.GetRank(), Node: p.GetNode(), Rack: p.GetRack(), Address: loopback}
		within.Peers = append(within.Peers, peer)
	}
	return within
}

// hosts returns the gang's nodes in the order of their first ranks.
func hosts(r *messages.Rendezvous) []host {
	at := map[string]int{}
	var all []host
	for _, p := range r.GetPeers() {
		i, known := at[p.GetNode()]
		if !known {
			i = len(all)
			at[p.GetNode()] = i
			all = append(all, host{node: p.GetNode(), address: p.GetAddress()})
		}
		all[i].tasks++
	}
	return all
}

// meeting holds the rendezvous values for frameworks.
type meeting struct {
	subject   Subject
	start     *messages.StartTask
	rank      int
	world     int
	local     int // among the tasks of this node
	rack      string
	hosts     []host
	host      int // this node's number among them
	address   string
	port      string
	processes int
	attempt   string
}

func newMeeting(s Subject) *meeting {
	r := s.Start.GetRendezvous()
	m := &meeting{
		subject: s, start: s.Start, rank: int(s.Start.GetId().GetRank()), world: max(1, len(r.GetPeers())), hosts: hosts(r),
		address: r.GetAddress(), port: strconv.Itoa(int(r.GetPort())), processes: processes(s.Start.GetGrant()),
		attempt: messages.FromToken(s.Start.GetId().GetToken()).String(),
	}
	for _, p := range r.GetPeers() {
		if int(p.GetRank()) == m.rank {
			m.rack = p.GetRack()
		} else if p.GetNode() == s.Start.GetNode() && int(p.GetRank()) < m.rank {
			m.local++
		}
	}
	for i, h := range m.hosts {
		if h.node == s.Start.GetNode() {
			m.host = i
		}
	}
	return m
}

// list returns the nodes in one line, or an empty text if that would be too long.
func (m *meeting) list() string {
	addresses := make([]string, len(m.hosts))
	for i, h := range m.hosts {
		addresses[i] = h.address
	}
	if list := strings.Join(addresses, ","); len(list) <= maxListBytes {
		return list
	}
	return ""
}

func (m *meeting) endpoint() string { return net.JoinHostPort(m.address, m.port) }

func number(n int) string { return strconv.Itoa(n) }

// identity returns Synapse's own variables. SYNAPSE_ATTEMPT grows as text from attempt to attempt, so a task may use it
// to fence off earlier attempts.
func (m *meeting) identity() []variable {
	own := []variable{
		{"SYNAPSE_JOB_ID", m.start.GetJob()},
		{"SYNAPSE_JOB_NAME", m.start.Called()},
		{"SYNAPSE_ATTEMPT", m.attempt},
		{"SYNAPSE_RUN", number(int(m.start.GetRun()))},
		{"SYNAPSE_RANK", number(m.rank)},
		{"SYNAPSE_WORLD_SIZE", number(m.world)},
		{"SYNAPSE_NODE", m.start.GetNode()},
		{"SYNAPSE_RACK", m.rack},
		{"SYNAPSE_HOSTS", m.list()},
		{"SYNAPSE_HOSTFILE", m.subject.Hostfile},
		{"SYNAPSE_PROGRESS", m.subject.Progress},
	}
	if h := m.start.GetInherited(); h != nil {
		own = append(own, variable{"SYNAPSE_GENERATION", number(int(h.GetGeneration()))},
			variable{"SYNAPSE_RESTART_CAUSE", h.GetCause()}, variable{"SYNAPSE_RESTART_RANK", number(int(h.GetRank()))})
	}
	if m.subject.Helper != "" {
		own = append(own, variable{"SYNAPSE_EXEC", m.subject.Helper})
	}
	if e := m.start.GetSpec().GetElement(); e != nil {
		own = append(own, variable{"SYNAPSE_ARRAY_ID", e.GetArray()},
			variable{"SYNAPSE_ARRAY_INDEX", number(int(e.GetIndex()))},
			variable{"SYNAPSE_ARRAY_COUNT", number(int(e.GetCount()))})
	}
	if m.start.GetSpec().IsAnnounced() {
		own = append(own, variable{"SYNAPSE_NOTICE", m.subject.Notice})
	}
	if m.start.GetSpec().GetCheckpoint() != nil {
		own = append(own, variable{"SYNAPSE_CHECKPOINT_DIR", filepath.Dir(m.subject.Notice)})
	}
	return own
}

func (m *meeting) hasGPU() bool {
	return len(m.subject.Gpus) > 0 || m.start.GetGrant().GetAmount().GetMilliGpu() > 0
}

// hostAddress returns this node's name in the lists of nodes.
func (m *meeting) hostAddress() string {
	if m.host < len(m.hosts) {
		return m.hosts[m.host].address
	}
	return ""
}

func (m *meeting) tasksHere() int {
	if m.host < len(m.hosts) {
		return m.hosts[m.host].tasks
	}
	return 1
}

// tasksPerHost returns the number of tasks per node, in the order of the list and in Slurm's format: 4(x2),1.
func (m *meeting) tasksPerHost() string {
	var parts []string
	for i := 0; i < len(m.hosts); {
		j := i
		for j < len(m.hosts) && m.hosts[j].tasks == m.hosts[i].tasks {
			j++
		}
		part := number(m.hosts[i].tasks)
		if j-i > 1 {
			part += "(x" + number(j-i) + ")"
		}
		parts, i = append(parts, part), j
	}
	if parts == nil {
		return "1"
	}
	return strings.Join(parts, ",")
}
