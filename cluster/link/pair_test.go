package link

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// samples returns one valid message of each type that crosses the link, as the node n sends or receives it.
func samples(n *cabin) []spoken {
	token := &messages.Token{Epoch: 1, Counter: 3}
	order := &messages.Order{Epoch: 2, Token: token, Job: "j-1", Node: string(n.o.Node), Incarnation: n.o.Incarnation}
	members := []*messages.Member{{Amount: &messages.Resources{MilliGpu: 1000}}}
	shares := []*messages.GpuShare{{GpuId: "a", Milli: 1000}}
	grants := []*messages.Grant{{Amount: &messages.Resources{MilliGpu: 1000}, Gpus: shares}}
	exits := []*messages.Exit{{Kind: messages.ExitKind_EXIT_KIND_EXITED, Code: 1}}
	ledger := &messages.LedgerReport{
		Version: 4, Total: &messages.Resources{MilliGpu: 1000}, Free: &messages.Resources{MilliGpu: 1000}, FreeGpus: shares,
	}
	task := &messages.TaskId{Token: token}
	return []spoken{
		&messages.Hello{Origin: n.origin(), Epoch: 1, Ledger: ledger, Announcement: &messages.Announcement{
			Total: &messages.Resources{MilliGpu: 1000}, Gpus: []*messages.Gpu{{Id: "a"}},
			Address: "10.0.0.1", PortFirst: 1, PortLast: 2}},
		&messages.Heartbeat{Origin: n.origin(), Epoch: 1, Seq: 9, Ledger: ledger},
		&messages.Report{Origin: n.origin(), Epoch: 1, Ledger: ledger},
		&messages.Reserved{Origin: n.origin(), Grants: grants},
		&messages.Refused{Origin: n.origin(), Reason: messages.RefusalReason_REFUSAL_REASON_OVER},
		&messages.Aborted{Origin: n.origin()}, &messages.Committed{Origin: n.origin()},
		&messages.Prepared{Origin: n.origin()}, &messages.Expired{Origin: n.origin()},
		&messages.Started{Origin: n.origin()}, &messages.Exited{Origin: n.origin(), Exits: exits},
		&messages.Ended{Origin: n.origin()}, &messages.TaskLogs{Id: task, Data: []byte("a line\n")},

		&messages.Lead{Epoch: 1, ClusterId: "c1"}, &messages.Welcome{Epoch: 1, Incarnation: n.o.Incarnation},
		&messages.Rejected{Epoch: 1, Reason: messages.RejectReason_REJECT_REASON_REMOVED},
		&messages.HeartbeatAck{Epoch: 1, Incarnation: n.o.Incarnation},
		&messages.Reserve{Order: order, Members: members, TtlMs: 1}, &messages.Abort{Order: order},
		&messages.Commit{Order: order, Members: members, Spec: &messages.JobSpec{Name: "a"}},
		&messages.Start{Order: order, Run: 1, Rendezvous: &messages.Rendezvous{
			Address: "10.0.0.1", Port: 1, Peers: []*messages.Peer{{Node: "n1"}}}},
		&messages.Stop{Order: order, Cause: messages.Cause_CAUSE_CANCELLED}, &messages.Forget{Order: order},
		&messages.LogsTask{Id: task, LimitBytes: 1}, &messages.Lacking{Origin: n.origin(), Digest: 7},
		&messages.Warn{Order: order, Number: 1, Cause: messages.Cause_CAUSE_TIME_LIMIT, Of: 60_000, LeftMs: 1000},
		&messages.Warned{Origin: n.origin(), Number: 1},
		&messages.ExecRefused{Id: task, Session: "s"}, &messages.ExecTask{Id: task, Job: "j1", Epoch: 1, Session: "s"},
	}
}

// concrete returns a path that matches a row's pattern.
func concrete(pattern string) string {
	switch pattern {
	case anyJob, anyScheduler:
		return jobPath
	case anyRack:
		return rackPath
	case gatewayPath + "**":
		return logsPath
	}
	return pattern
}

// TestTooLongIsLogged checks that a message which is too long is logged. Its receiver waits forever, and the log is the
// only hint.
func TestTooLongIsLogged(t *testing.T) {
	log := make(lines, 2)
	var counts tally
	find := func(*actor.PID, any) *line { t.Error("it was sent"); return nil }
	w := &sender{o: &Options{Log: log, Count: counts.count}, may: towardNode, ours: "scheduler", find: find}
	commit := &messages.Commit{Spec: &messages.JobSpec{Image: strings.Repeat("x", maxMessageBytes)}}
	for range 2 {
		sent := &actor.MessageEnvelope{Message: commit, Sender: actor.NewPID("scheduler", jobPath)}
		w.SendUserMessage(actor.NewPID("node-n1", actors.NodePath), sent)
	}
	if len(log) != 1 || counts.of(countUnsayable) != 2 {
		t.Fatalf("%d lines are logged, counted %v", len(log), counts.by)
	}
	if line := <-log; !strings.HasPrefix(line, "[ERROR] Dropped a synapse.v1.Commit for node-n1: it has 4194") {
		t.Error(line)
	}
}

// TestEveryRowCrosses checks that every row of the table crosses: same message, same actor, and a sender that can be
// answered.
func TestEveryRowCrosses(t *testing.T) {
	h, n := pair(t)
	tried := 0
	for _, m := range samples(n) {
		if row := towardScheduler[typeName(m)]; row != nil {
			tried++
			n.say(actor.NewPID("scheduler", concrete(row.to)), m)
			checkCrossed(t, m, hears(t, h.ears, typeName(m), sameAs(m)), row, "node-n1")
		}
		if row := towardNode[typeName(m)]; row != nil {
			tried++
			h.say(h.server.Node("n1"), m, concrete(row.from))
			checkCrossed(t, m, hears(t, n.ears, typeName(m), sameAs(m)), row, "scheduler")
		}
	}
	if want := len(towardNode) + len(towardScheduler); tried != want {
		t.Errorf("%d of %d rows were tried", tried, want)
	}
	// Actors of Proto.Actor answer at the sender's PID.
	h.say(h.server.Node("n1"), samples(n)[13], actors.SchedulerPath)
	lead := hearsType[*messages.Lead](t, n.ears)
	n.say(actors.At(lead.sender, actors.SchedulerPath), samples(n)[0])
	hearsType[*messages.Hello](t, h.ears)
}

func sameAs(m proto.Message) func(heard) bool {
	return func(h heard) bool {
		got, is := h.message.(proto.Message)
		return is && typeName(got) == typeName(m)
	}
}

func checkCrossed(t *testing.T, m proto.Message, got heard, row *rule, from string) {
	t.Helper()
	if !proto.Equal(m, got.message.(proto.Message)) {
		t.Errorf("%s came as %v", typeName(m), got.message)
	}
	if got.path != concrete(row.to) {
		t.Errorf("%s came to %s", typeName(m), got.path)
	}
	switch {
	case row.from == "" && got.sender != nil:
		t.Errorf("%s has a sender, %v", typeName(m), got.sender)
	case row.from != "" && (got.sender == nil || got.sender.Address != from || got.sender.Id != concrete(row.from)):
		t.Errorf("the sender of %s is %v", typeName(m), got.sender)
	}
}

// TestTableIsTheVocabulary checks that the table contains exactly the messages that cross between processes according
// to messages/README.md, and logs.
func TestTableIsTheVocabulary(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "messages", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	crosses := string(text)
	crosses = crosses[strings.Index(crosses, "## A gang"):strings.Index(crosses, "## Clients")]
	toNode, toScheduler := map[string]bool{}, map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\w+) → (\\w+)").FindAllStringSubmatch(crosses, -1) {
		if m[2] == "Node" {
			toScheduler["synapse.v1."+m[1]] = true
		} else if m[3] == "Node" {
			toNode["synapse.v1."+m[1]] = true
		}
	}
	if len(toNode) < 9 || len(toScheduler) < 12 {
		t.Fatalf("only %d and %d rows were found", len(toNode), len(toScheduler))
	}
	toNode["synapse.v1.LogsTask"], toScheduler["synapse.v1.TaskLogs"] = true, true
	toNode["synapse.v1.ExecTask"], toScheduler["synapse.v1.ExecRefused"] = true, true
	check := func(have table, want map[string]bool) {
		for name := range want {
			if have[name] == nil {
				t.Errorf("%s is not in the table", name)
			}
		}
		for name := range have {
			if !want[name] {
				t.Errorf("%s is in the table only", name)
			}
		}
	}
	check(towardNode, toNode)
	check(towardScheduler, toScheduler)
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"a/b", "a/b", true}, {"a/b", "a/bc", false}, {"a/b", "a", false}, {"a/b", "", false},
		{"a/job-*", "a/job-1", true}, {"a/job-*", "a/job-", false},
		{"a/job-*", "a/job-1/attempt", false}, {"a/job-*", "b", false},
		{"a/**", "a/", true}, {"a/**", "a/b/c", true}, {"a/**", "b/a/", false},
		{"a**", "a" + strings.Repeat("b", maxPathBytes), false},
	} {
		if got := covers(c.pattern, c.path); got != c.want {
			t.Errorf("%s covers %s: %v", c.pattern, c.path, got)
		}
	}
}

// TestNothingElseLeaves checks that messages outside the table and Proto.Actor's own messages are not sent, and are
// counted.
func TestNothingElseLeaves(t *testing.T) {
	h, n := pair(t)
	node := h.server.Node("n1")
	for _, m := range []any{
		"text", actors.LinkUp{}, &actor.PoisonPill{}, &messages.Submit{}, &messages.Hello{}, nil,
		&actor.DeadLetterResponse{}, &messages.Commit{Spec: &messages.JobSpec{Image: strings.Repeat("x", maxMessageBytes)}},
	} {
		h.say(node, m, actors.SchedulerPath)
	}
	lead := &messages.Lead{Epoch: 1, ClusterId: "c1"}
	h.say(node, lead, "")                                                                      // without a sender
	h.say(node, lead, "synapse/else")                                                          // not from there
	h.say(actor.NewPID("node-n1", "synapse"), lead, actors.SchedulerPath)                      // not to there
	h.system.Root.RequestWithCustomSender(node, lead, actor.NewPID("node-n2", "synapse/node")) // for another node
	h.await(t, countUnsayable, 12)
	h.system.Root.Stop(node)
	h.system.Root.Poison(node)
	h.await(t, countSystem, 1)
	h.say(h.server.Node("n2"), samples(n)[13], actors.SchedulerPath)
	h.await(t, countNoLink, 1)
	works(t, h, n, 1)
	if len(n.ears) > 0 {
		t.Errorf("the node received %v", <-n.ears)
	}
	if _, resolves := h.system.ProcessRegistry.Get(actor.NewPID("elsewhere", "x")); resolves {
		t.Error("an unknown address resolves")
	}
}
