package worker

import (
	"strconv"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// Node owns the state of one node: its ledger, the ledger's record on disk, and the Tasks. No other actor allocates the
// node's devices, so a stale view on the leader costs a retry but never a double allocation. A fact is on disk before
// it is sent, and a device becomes free only on evidence.
//
// The Node sends facts to the Jobs of the newest leader (Reserved to Ended), to its Rack (Heartbeat, Report), to the
// Scheduler (Hello), and to its Tasks. It sends requests to the disk (DiskLoaded, DiskSaved) and to the launcher
// (TaskList, MachineChecked, and TaskGone of unknown tasks).
//
// Its files: start.go startup until the first message; join.go the choice of the leader; fence.go valid commands;
// reserve.go phase one; commit.go phase two and the barrier; warn.go warnings before the end; stop.go the end; slice.go
// the next step of an allocation; health.go the effect of health checks; disk.go and record.go durability; report.go
// reports to the leader; progress.go the progress of tasks; check.go the invariants.
type Node struct {
	p      *Ports
	states actors.States[nodeState]
	ledger *topology.Ledger
	slices map[topology.Token]*nodeAllocation

	record   *messages.LedgerRecord    // as loaded, until it is reconciled
	strays   map[topology.TaskKey]bool // tasks without an allocation, which are being stopped
	newer    []byte                    // fields of the record that a newer agent wrote
	rebooted bool                      // a reboot ended allocations: that must be on disk before anything is sent

	cluster string                                    // the first leader's; empty: no leader has come yet
	epoch   uint64                                    // the highest accepted
	oath    uint64                                    // the change that puts the epoch on disk
	lead    *leadHeard                                // a leader that is not yet accepted
	leader  *actor.PID                                // of the newest leader
	rack    *actor.PID                                // receiver of heartbeats
	about   about                                     // the header of the last fact
	said    lastSaid                                  // the amount and the devices in the last message
	refusal string                                    // the last refusal by another cluster's leader
	users   struct{ said, known *messages.NodeUsers } // in the last Hello, and in the last Hello that was welcomed

	disk  nodeDisk
	pulse nodePulse
	uids  []uint32 // in use here, according to the launcher

	health *messages.MachineHealth // as last reported by the launcher

	expiryAt actors.Instant // time of the scheduled timer; 0: none

	taskProps *actor.Props // of every Task here
	newborn   taskWork     // of the Task that is being created
}

func newNode(p *Ports) actor.Actor {
	own := *p
	p = &own
	p.Announcement = actors.CopyOf(p.Announcement)
	p.Announcement.Vocabulary = messages.Vocabulary // the vocabulary of this code, whatever the announcement says
	n := &Node{p: p, states: actors.NewStates(&nodeTable, p.Host), slices: map[topology.Token]*nodeAllocation{}}
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

// Ledger returns the node's ledger for checks. The caller must not change it.
func (n *Node) Ledger() *topology.Ledger { return n.ledger }

// Epoch returns the highest accepted epoch.
func (n *Node) Epoch() uint64 { return n.epoch }

// Sworn reports whether the accepted epoch is on disk.
func (n *Node) Sworn() bool { return n.sworn() }

// State returns the Node's state in its table.
func (n *Node) State() string { return string(n.states.At()) }

// Alone reports whether the Node follows no leader.
func (n *Node) Alone() bool { return n.states.In(nodeAlone) }

// Member reports whether its leader has welcomed it.
func (n *Node) Member() bool { return n.states.In(nodeMember) }

// Ready reports whether the Node has reconciled its disk with its launcher.
func (n *Node) Ready() bool { return !n.states.In(nodeLoading, nodeListing, nodeAdopting) }

// Receive dispatches a message. Commands pass through the fence. After each message, the Node starts a save if needed,
// sets the timers and checks the invariants.
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

// onOwn handles the messages of the Node's Tasks and timers.
func (n *Node) onOwn(ctx actor.Context, m any) {
	switch m := m.(type) {
	case rankPrepared:
		n.onRankPrepared(ctx, m)
	case rankStarted:
		n.onRankStarted(ctx, m)
	case rankWarned:
		n.onRankWarned(ctx, m)
	case rankSaved:
		n.onRankSaved(ctx, m)
	case rankProgress:
		n.onRankProgress(ctx, m)
	case rankGone:
		n.onRankGone(ctx, m)
	case pulseDue:
		n.onPulse(ctx, m)
	case progressDue:
		n.onProgressDue(ctx)
	case reportDue:
		n.onReportDue(ctx)
	case expiryDue:
		n.onExpiryDue(m)
	case holdOver:
		n.onHoldOver(ctx, m)
	case leadLate:
		n.onLeadLate(ctx, m)
	case actors.ResendDue:
		n.onRetry(ctx, m)
	case actor.SystemMessage, actor.AutoReceiveMessage:
		// A stopped Task has ended.
	default:
		n.p.Host.Count("node.unknown_message", 1)
	}
}

func (n *Node) onBorn(ctx actor.Context) {
	n.p.Log.Info("Starting Worker Node - ID: %s", n.p.Node)
	n.p.Disk.Load(ctx.Self())
}

func (n *Node) now() int64 { return int64(n.p.Clock.Now()) }

// spawnTask creates the Task of one rank. The argument spawned reports that an earlier agent started its container.
func (n *Node) spawnTask(ctx actor.Context, s *nodeAllocation, i int, spawned bool) {
	r := &s.ranks[i]
	n.newborn = taskWork{
		key: topology.TaskKey{Token: s.page.Token, Rank: r.rank}, id: r.id, job: s.page.Job, node: n.p.Node, spec: s.spec,
		uid:   s.uid,
		owner: s.owner, proven: s.proven,
		grant: s.grants[i], spawned: spawned, inherits: s.bequestTo(r), inherited: s.inherited,
	}
	name := s.page.Token.AppendTo(append(make([]byte, 0, 32), "task-"...))
	name = strconv.AppendInt(append(name, '-'), int64(r.rank), 10)
	r.pid = actors.SpawnAs(ctx, n.taskProps, string(name))
}
