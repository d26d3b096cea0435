package worker

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the script language of the Node's scenarios: the effect of each line, and the text form of the Node's
// messages.

// step runs one line of a script.
func (r *nodeRig) step(t *testing.T, d *datadriven.TestData) {
	switch d.Cmd {
	case "machine":
	case "agent":
		r.again(t, d)
	case "lead":
		d.MaybeScanArgs(t, "epoch", &r.epoch)
		epoch := r.epoch
		d.MaybeScanArgs(t, "as", &epoch) // another leader, which does not send the rig's commands
		if d.HasArg("of") {              // another cluster
			var other string
			d.ScanArgs(t, "of", &other)
			r.tell(&messages.Lead{Epoch: epoch, ClusterId: other}, "leader-of-"+other)
			return
		}
		r.tell(&messages.Lead{Epoch: epoch, ClusterId: "c"}, "leader")
	case "welcome":
		r.tell(&messages.Welcome{Epoch: r.epoch, Text: "Welcome to Synapse", Incarnation: r.incarnation()}, "leader")
	case "rejected":
		m := &messages.Rejected{Epoch: r.epoch, Text: "node already registered", Incarnation: r.incarnation()}
		if d.HasArg("of") {
			m.Reason, m.Text = messages.RejectReason_REJECT_REASON_ANOTHER_CLUSTER, "belongs to another cluster"
		}
		d.MaybeScanArgs(t, "agent", &m.Incarnation.StartedNs)
		r.tell(m, "leader")
	case "ack":
		m := &messages.HeartbeatAck{Epoch: r.epoch, Incarnation: r.incarnation()}
		d.MaybeScanArgs(t, "seq", &m.Seq)
		d.MaybeScanArgs(t, "version", &m.LedgerVersion)
		d.MaybeScanArgs(t, "epoch", &m.Epoch)
		r.tell(m, "leader")
	case "reserve", "abort", "commit", "start", "stop", "forget":
		r.order(r.command(t, d))
	case "replay":
		for _, m := range r.sent {
			r.say("> %s", strings.ToLower(kindOf(m)))
			r.tell(m, "leader")
		}
	case "advance":
		wait, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		r.hush = d.HasArg("hush")
		r.pass(wait)
		r.hush = false
	case "disk":
		r.diskStep(t, d)
	case "launcher":
		r.launcherStep(t, d)
	case "ledger":
		r.sayLedger()
	default:
		d.Fatalf(t, "no such step")
	}
	r.settle()
}

// again starts the first agent, or the next one after the last has ended.
func (r *nodeRig) again(t *testing.T, d *datadriven.TestData) {
	if d.HasArg("boot") {
		r.reboot()
	}
	if d.HasArg("gpus") {
		var n int
		d.ScanArgs(t, "gpus", &n)
		r.haveGPUs(n)
	}
	r.start()
}

// rewrite changes the record on disk.
func (r *nodeRig) rewrite(t *testing.T, d *datadriven.TestData, change func(*messages.LedgerRecord)) {
	record, err := decodeRecord(r.disk.content)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	change(record)
	r.disk.content = encodeRecord(record)
}

func (r *nodeRig) diskStep(t *testing.T, d *datadriven.TestData) {
	switch what := d.CmdArgs[0].Key; what {
	case "fails":
		r.disk.fault, r.disk.keep = d.CmdArgs[1].Key, d.HasArg("kept")
	case "works":
		r.disk.fault = ""
	case "holds":
		r.disk.held = true
	case "answers":
		r.disk.held = false
		r.finishSave()
	case "corrupt":
		r.disk.content[len(r.disk.content)-1] ^= 1
	case "newer":
		r.disk.content = encodeRecord(&messages.LedgerRecord{})
		r.disk.content[4]++
	case "earlier": // written by an agent that knew no cluster
		r.rewrite(t, d, func(record *messages.LedgerRecord) { record.ClusterId = "" })
	case "quotes": // written by an agent that stored a launcher's text unchanged
		r.rewrite(t, d, func(record *messages.LedgerRecord) {
			for _, s := range record.Slices {
				for _, e := range s.Exits {
					e.Detail = "execute /train\r: no such file"
				}
			}
		})
	case "shows":
		r.say("%s", recordWords(r.disk.content))
	default:
		d.Fatalf(t, "the disk cannot %s", what)
	}
}

func (r *nodeRig) launcherStep(t *testing.T, d *datadriven.TestData) {
	l := &r.launcher
	if what := d.CmdArgs[0].Key; what == "waits" || what == "works" {
		l.auto = what == "works"
		return
	}
	if d.CmdArgs[0].Key == "unwell" { // the agent does not learn of it before it asks
		l.ill = "a port is down"
		return
	}
	if d.CmdArgs[0].Key == "checked" { // the agent learns of it
		l.ill = "a port is down"
		r.tell(&messages.MachineChecked{Health: &messages.MachineHealth{Unwell: l.ill}}, "node-a")
		return
	}
	if d.CmdArgs[0].Key == "gpu-fault" {
		r.tell(&messages.GpuFaulted{GpuId: d.CmdArgs[1].Key, Detail: "fell off the bus"}, "node-a")
		return
	}
	if d.CmdArgs[0].Key == "gpu-well" {
		r.tell(&messages.GpuRecovered{GpuId: d.CmdArgs[1].Key}, "node-a")
		return
	}
	k := keyIn(t, d, d.CmdArgs[1].Key)
	var code int32
	d.MaybeScanArgs(t, "code", &code)
	switch what := d.CmdArgs[0].Key; what {
	case "prepared":
		l.task(k).prepared = true
		l.answer(k)
	case "started":
		l.task(k).spawned = true
		if d.HasArg("now") {
			l.task(k).began = r.now
		}
		l.answer(k)
	case "gone":
		l.end(k, messages.ExitKind_EXIT_KIND_EXITED, code)
	case "prepare-failed":
		l.end(k, messages.ExitKind_EXIT_KIND_PREPARE_FAILED, 0)
	case "launch-failed":
		l.end(k, messages.ExitKind_EXIT_KIND_LAUNCH_FAILED, 125)
	case "stray": // a container that is not in the ledger
		l.task(k).spawned = true
	default:
		d.Fatalf(t, "the launcher cannot be %s", what)
	}
}

func keyIn(t *testing.T, d *datadriven.TestData, text string) topology.TaskKey {
	name, rank, _ := strings.Cut(text, "/")
	n, err := strconv.Atoi(rank)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return topology.TaskKey{Token: tokenIn(t, d, name), Rank: topology.Rank(n)}
}

// tokenIn reads epoch.counter.
func tokenIn(t *testing.T, d *datadriven.TestData, text string) topology.Token {
	var k topology.Token
	if _, err := fmt.Sscanf(text, "%d.%d", &k.Epoch, &k.Counter); err != nil {
		d.Fatalf(t, "%s: %v", text, err)
	}
	return k
}

// command reads an order: its token first, then the fields that differ from the default.
func (r *nodeRig) command(t *testing.T, d *datadriven.TestData) proto.Message {
	o := &messages.Order{
		Epoch: r.epoch, Token: messages.ToToken(tokenIn(t, d, d.CmdArgs[0].Key)), Job: "j", Node: "a",
		Incarnation: r.incarnation(), Seq: uint64(len(r.sent) + 1),
	}
	d.MaybeScanArgs(t, "job", &o.Job)
	d.MaybeScanArgs(t, "node", &o.Node)
	d.MaybeScanArgs(t, "epoch", &o.Epoch)
	d.MaybeScanArgs(t, "agent", &o.Incarnation.StartedNs)
	switch d.Cmd {
	case "reserve":
		m := &messages.Reserve{Order: o, TtlMs: 10_000, Members: membersIn(t, d), Rendezvous: d.HasArg("port")}
		d.MaybeScanArgs(t, "ttl", &m.TtlMs)
		d.MaybeScanArgs(t, "type", &m.GpuType)
		return m
	case "abort":
		return &messages.Abort{Order: o}
	case "commit":
		spec := &messages.JobSpec{
			Name: "train", Image: "img", Gang: &messages.GangSpec{ReplicasMin: 1, ReplicasMax: 1},
			Each: &messages.Resources{MilliCpu: 1000, MemoryBytes: 1 << 30},
		}
		if d.HasArg("in-place") {
			spec.Restart = &messages.RestartSpec{InPlace: true, Limit: 1}
		}
		m := &messages.Commit{Order: o, Spec: spec, Members: membersIn(t, d)}
		if d.HasArg("from") {
			var from string
			d.ScanArgs(t, "from", &from)
			m.Inherited = &messages.Inherited{From: messages.ToToken(tokenIn(t, d, from)), Generation: 1}
		}
		d.MaybeScanArgs(t, "owner", &m.Owner)
		return m
	case "start":
		return &messages.Start{Order: o, JobName: "train", Run: 1, Rendezvous: &messages.Rendezvous{
			Address: "10.0.0.1", Port: 30000, Peers: []*messages.Peer{{Rank: 0, Node: "a", Address: "10.0.0.1"}},
		}}
	case "stop":
		m := &messages.Stop{Order: o, Cause: messages.Cause_CAUSE_CANCELLED}
		d.MaybeScanArgs(t, "grace", &m.GraceMs)
		d.MaybeScanArgs(t, "hold", &m.HoldMs)
		return m
	default:
		return &messages.Forget{Order: o}
	}
}

// membersIn reads gpus=(1000,500) as one rank for each number, with the given CPU and memory.
func membersIn(t *testing.T, d *datadriven.TestData) []*messages.Member {
	amounts, gib := []int64{1000}, int64(1)
	d.MaybeScanArgs(t, "mem", &gib)
	if d.HasArg("gpus") {
		amounts = nil
		for _, arg := range d.CmdArgs {
			if arg.Key != "gpus" {
				continue
			}
			for _, v := range arg.Vals {
				n, err := strconv.ParseInt(v, 10, 64)
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				amounts = append(amounts, n)
			}
		}
	}
	var all []*messages.Member
	for i, n := range amounts {
		all = append(all,
			&messages.Member{Rank: int32(i), Amount: &messages.Resources{MilliCpu: 1000, MemoryBytes: gib << 30, MilliGpu: n}})
	}
	return all
}

func (r *nodeRig) sayLedger() {
	b := r.node.Ledger().Books()
	r.say("%s, epoch %d, version %d", r.node.State(), r.node.Epoch(), r.node.Ledger().Version())
	line := func(name string, x topology.Resources) {
		r.say("%-9s cpu=%d mem=%dGiB gpu=%d", name, x.MilliCPU, x.MemoryBytes>>30, x.MilliGPU)
	}
	line("total", b.Total)
	line("free", b.Free)
	line("reserved", b.Reserved)
	line("committed", b.Committed)
	line("stopping", b.Stopping)
	line("withdrawn", b.Withdrawn)
	for _, s := range r.node.Ledger().Allocations() {
		r.say("%d.%d %v shown as %v", s.Token.Epoch, s.Token.Counter, s.State, r.node.slices[s.Token].shown)
	}
}

func kindOf(m any) string {
	name := fmt.Sprintf("%T", m)
	return name[strings.LastIndexByte(name, '.')+1:]
}

// spoken returns a message as one line of text.
func spoken(m any) string {
	words := []string{kindOf(m)}
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	if o, is := m.(interface{ GetOrigin() *messages.Origin }); is {
		if t := o.GetOrigin().Token; t != nil {
			add("%d.%d", t.Epoch, t.Counter)
		}
		add("v%d", o.GetOrigin().LedgerVersion)
	}
	if o, is := m.(interface{ GetId() *messages.TaskId }); is {
		add("%d.%d/%d", o.GetId().Token.Epoch, o.GetId().Token.Counter, o.GetId().Rank)
	}
	switch m := m.(type) {
	case *messages.Reserved:
		add("%s", grantWords(m.Grants))
		if m.RendezvousPort != 0 {
			add("at %s:%d", m.Address, m.RendezvousPort)
		}
	case *messages.Refused:
		add("%s (%s)", strings.TrimPrefix(m.Reason.String(), "REFUSAL_REASON_"), m.Detail)
		add("[%s]", reportWords(m.Ledger))
	case *messages.Exited:
		add("%s", exitWords(m.Exits))
	case *messages.Ended:
		add("%s", exitWords(m.Exits))
		if m.Held {
			add("held, next port %d", m.NextPort)
		}
	case *messages.Hello:
		add("epoch=%d of %q [%s]", m.Epoch, m.ClusterId, reportWords(m.Ledger))
	case *messages.Heartbeat:
		add("epoch=%d seq=%d running=%d load=%d%% [%s]", m.Epoch, m.Seq, m.RunningTasks, m.LoadPercent, reportWords(m.Ledger))
	case *messages.Report:
		add("epoch=%d [%s]", m.Epoch, reportWords(m.Ledger))
	case *messages.PrepareTask:
		if from := m.Inherits; from != nil {
			add("takes over %d.%d/%d", from.Token.Epoch, from.Token.Counter, from.Rank)
		}
		if m.Owner != "" {
			add("of %s", m.Owner)
		}
	case *messages.StopTask:
		add("grace=%dms", m.GraceMs)
	case *messages.KeepTasks:
		add("heard=%v", time.Duration(m.HeardNs))
	}
	return strings.Join(words, " ")
}

func grantWords(grants []*messages.Grant) string {
	var words []string
	for _, g := range grants {
		var gpus []string
		for _, s := range g.Gpus {
			gpus = append(gpus, fmt.Sprintf("%s=%d", s.GpuId, s.Milli))
		}
		words = append(words, fmt.Sprintf("%d:%s", g.Rank, strings.Join(gpus, "+")))
	}
	return strings.Join(words, " ")
}

func exitWords(exits []*messages.Exit) string {
	var words []string
	for _, e := range exits {
		words = append(words, fmt.Sprintf("%d:%s", e.Rank, strings.TrimPrefix(e.Kind.String(), "EXIT_KIND_")))
		if e.Code != 0 {
			words[len(words)-1] += fmt.Sprintf("(%d)", e.Code)
		}
	}
	if len(words) == 0 {
		return "no exits"
	}
	return strings.Join(words, " ")
}

func reportWords(l *messages.LedgerReport) string {
	if l == nil {
		return "no ledger"
	}
	words := []string{fmt.Sprintf("v%d free cpu=%d mem=%dGiB gpu=%d", l.Version, l.Free.MilliCpu, l.Free.MemoryBytes>>30,
		l.Free.MilliGpu)}
	for _, s := range l.Slices {
		state := allocationStateName(messages.FromAllocationState(s.State))
		word := fmt.Sprintf("%d.%d %s", s.Token.Epoch, s.Token.Counter, state)
		if s.Vacated {
			word += " vacated"
		}
		if s.Held {
			word += " held"
		}
		if s.RanMs > 0 {
			word += fmt.Sprintf(" ran %dms", s.RanMs)
		}
		if len(s.Exits) > 0 {
			word += " " + exitWords(s.Exits)
		}
		words = append(words, word)
	}
	for _, g := range l.WithdrawnGpus {
		words = append(words, "withdrawn "+g)
	}
	if l.Trouble != "" {
		words = append(words, "trouble: "+l.Trouble)
	}
	return strings.Join(words, "; ")
}

func recordWords(data []byte) string {
	if data == nil {
		return "nothing"
	}
	rec, err := decodeRecord(data)
	if err != nil {
		return err.Error()
	}
	words := []string{fmt.Sprintf("epoch=%d", rec.Epoch)}
	if rec.ClusterId != "" {
		words[0] += " of " + rec.ClusterId
	}
	for _, s := range rec.Slices {
		words = append(words,
			fmt.Sprintf("%d.%d %s", s.Token.Epoch, s.Token.Counter, allocationStateName(messages.FromAllocationState(s.State))))
		if s.Cause != 0 {
			words[len(words)-1] += " (" + actors.WordOf(s.Cause.String(), "CAUSE_") + ")"
		}
		if s.RendezvousPort != 0 {
			words[len(words)-1] += fmt.Sprintf(" port %d", s.RendezvousPort)
		}
		if len(s.Exits) > 0 {
			words[len(words)-1] += " " + exitWords(s.Exits)
		}
		if s.HeldUntilNs > 0 {
			words[len(words)-1] += fmt.Sprintf(" held until %v", time.Duration(s.HeldUntilNs))
		}
		if s.GoneBeganNs > 0 {
			words[len(words)-1] += fmt.Sprintf(" began at %v", time.Duration(s.GoneBeganNs))
		}
	}
	for _, g := range rec.WithdrawnGpus {
		words = append(words, "withdrawn "+g)
	}
	return strings.Join(words, "; ")
}
