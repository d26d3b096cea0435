package worker

import (
	"strconv"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// Node owns one machine: its ledger, what of it is on the machine's disk, and
// the Tasks. Nobody else gives its devices away, so a stale view on the leader costs a retry and never a double
// allocation. A fact is on disk before it is sent, and a device is free again only on evidence.
//
// It tells: Jobs at the newest leader (Reserved … Ended), its Rack (Heartbeat,
// Report), the Scheduler (Hello), its Tasks. It asks: the disk (DiskLoaded,
// DiskSaved), the launcher (TaskList, MachineChecked, and TaskGone of tasks nobody knows).
//
// Its files: start.go from the disk to the first message; join.go who leads; fence.go which commands count; reserve.go
// phase one; commit.go phase two and the barrier; warn.go what is said before the end; stop.go the end; slice.go what a
// slice does next; health.go what the checks of the machine mean; disk.go and record.go durability; report.go what the
// leader receives; check.go the invariants.
type Node struct {
	p      *Ports
	states actors.States[nodeState]
	ledger *topology.Ledger
	slices map[topology.Token]*nodeSlice

	record   *messages.LedgerRecord    // as loaded, until it is reconciled
	strays   map[topology.TaskKey]bool // tasks without a slice, which are being stopped
	newer    []byte                    // of the record, what a newer agent wrote
	rebooted bool                      // slices ended by a reboot: that must be on disk before anything is sent

	cluster string                                    // the first leader's; empty: none has come yet
	epoch   uint64                                    // the highest accepted
	oath    uint64                                    // the change that puts it on disk
	lead    *leadHeard                                // a leader that is not yet accepted
	leader  *actor.PID                                // of the newest leader
	rack    *actor.PID                                // where heartbeats go
	about   about                                     // the header of the last fact
	said    lastSaid                                  // the amount and the devices in the last message
	refusal string                                    // what another cluster's leader said last
	users   struct{ said, known *messages.NodeUsers } // in the last Hello, and in the last that was welcomed

	disk  nodeDisk
	pulse nodePulse
	uids  []uint32 // in use here, as the launcher last said

	health *messages.MachineHealth // as the launcher last said

	expiryAt actors.Instant // of the timer that is armed; 0: none

	taskProps *actor.Props // of every Task here
	newborn   taskWork     // of the Task that is being spawned
}

func newNode(p *Ports) actor.Actor {
	own := *p
	p = &own
	p.Announcement = actors.CopyOf(p.Announcement)
	p.Announcement.Vocabulary = messages.Vocabulary // what this code understands, whatever the announcement said
	n := &Node{p: p, states: actors.NewStates(&nodeTable, p.Host), slices: map[topology.Token]*nodeSlice{}}
	n.ledger = n.emptyLedger()
	n.taskProps = p.Props(actors.KindTask, func() actor.Actor { return newTask(p, n.newborn) })
	return n
}

func (n *Node) emptyLedger() *topology.Ledger {
	a := n.p.Announcement
	c := topology.LedgerConfig{
		MilliCPU: a.GetTotal().GetMilliCpu(), MemoryBytes: a.GetTotal().GetMemoryBytes(),
		PortFirst: a.GetPortFirst(), PortLast: a.GetPortLast(),
		TombstoneAgeNs: n.p.Constants.TombstoneAge.Nanoseconds(),
	}
	for _, g := range a.GetGpus() {
		c.GPUs = append(c.GPUs, messages.FromGPU(g))
	}
	return topology.NewLedger(c)
}

// Ledger is the machine's books, for checks. Read only.
func (n *Node) Ledger() *topology.Ledger { return n.ledger }

// Epoch is the highest epoch that was accepted.
func (n *Node) Epoch() uint64 { return n.epoch }

// Sworn reports whether the disk has that epoch.
func (n *Node) Sworn() bool { return n.sworn() }

// State is the Node's place in its table.
func (n *Node) State() string { return string(n.states.At()) }

// Alone reports whether the Node follows no leader.
func (n *Node) Alone() bool { return n.states.In(nodeAlone) }

// Member reports whether its leader has welcomed it.
func (n *Node) Member() bool { return n.states.In(nodeMember) }

// Ready reports whether the Node has reconciled its disk with its launcher.
func (n *Node) Ready() bool { return !n.states.In(nodeLoading, nodeListing, nodeAdopting) }

// Receive dispatches; commands go through the fence. After any message it starts a save if needed, arms the timers and
// checks the invariants.
func (n *Node) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		n.onBorn(ctx)
	case command:
		n.onCommand(ctx, m)
	case *messages.Lead:
		n.onLead(ctx, m)
	case *messages.Welcome:
		n.onWelcome(ctx, m)
	case *messages.Rejected:
		n.onRejected(m)
	case *messages.HeartbeatAck:
		n.onHeartbeatAck(ctx, m)
	case *messages.TaskList:
		n.onTaskList(ctx, m)
	case *messages.TaskGone:
		n.onStrayGone(ctx, m)
	case *messages.GpuFaulted:
		n.onGpuFaulted(m)
	case *messages.GpuRecovered:
		n.onGpuRecovered(m)
	case *messages.MachineChecked:
		n.onMachineChecked(ctx, m)
	case CountAll:
		n.onCountAll(ctx)
	case *messages.UidsInUse:
		n.onUidsInUse(m)
	case *messages.LogsTask:
		n.p.Launcher.Tell(m, ctx.Sender()) // a reader's question: the launcher answers the reader
	case *messages.ExecTask:
		n.onExec(ctx, m)
	case actors.DiskLoaded:
		n.onDiskLoaded(ctx, m)
	case actors.DiskSaved:
		n.onDiskSaved(ctx, m)
	default:
		n.onOwn(ctx, m)
	}
	n.save(ctx)
	n.armReport(ctx)
	n.armExpiry(ctx)
	n.check()
}

// onOwn handles what the Node's Tasks and timers send.
func (n *Node) onOwn(ctx actor.Context, m any) {
	switch m := m.(type) {
	case rankPrepared:
		n.onRankPrepared(ctx, m)
	case rankStarted:
		n.onRankStarted(ctx, m)
	case rankWarned:
		n.onRankWarned(ctx, m)
	case rankGone:
		n.onRankGone(ctx, m)
	case pulseDue:
		n.onPulse(ctx, m)
	case reportDue:
		n.onReportDue(ctx)
	case expiryDue:
		n.onExpiryDue(m)
	case leadLate:
		n.onLeadLate(ctx, m)
	case actors.ResendDue:
		n.onRetry(ctx, m)
	case actor.SystemMessage, actor.AutoReceiveMessage:
		// A Task that was stopped has ended.
	default:
		n.p.Host.Count("node.unknown_message", 1)
	}
}

func (n *Node) onBorn(ctx actor.Context) {
	n.p.Log.Info("Starting Worker Node - ID: %s", n.p.Node)
	n.p.Disk.Load(ctx.Self())
}

func (n *Node) now() int64 { return int64(n.p.Clock.Now()) }

// spawnTask makes the Task of one rank; spawned says that an earlier agent
// started its container.
func (n *Node) spawnTask(ctx actor.Context, s *nodeSlice, i int, spawned bool) {
	r := &s.ranks[i]
	n.newborn = taskWork{
		key: topology.TaskKey{Token: s.page.Token, Rank: r.rank}, id: r.id, job: s.page.Job, node: n.p.Node, spec: s.spec,
		uid:   s.uid,
		owner: s.owner, proven: s.proven,
		grant: s.grants[i], spawned: spawned,
	}
	name := s.page.Token.AppendTo(append(make([]byte, 0, 32), "task-"...))
	name = strconv.AppendInt(append(name, '-'), int64(r.rank), 10)
	r.pid = actors.SpawnAs(ctx, n.taskProps, string(name))
}
