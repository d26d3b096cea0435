package messages

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/topology"
)

// goodSpec returns a typical job.
func goodSpec() *JobSpec {
	return &JobSpec{
		Name: "llama-70b", Labels: []*Label{{Key: "team", Value: "nlp"}}, Queue: "research", Priority: 100,
		Gang: &GangSpec{ReplicasMin: 8, ReplicasMax: 8}, Each: &Resources{
			MilliCpu: 64_000, MemoryBytes: 512 << 30, MilliGpu: 8_000,
		},
		GpuType: "h100", ShmBytes: 64 << 30, Topology: &TopologySpec{
			Required: "zone", Preferred: "rack", PatienceMs: 300_000,
		},
		NodeSelector: []*Label{{Key: "pool", Value: "a"}}, Image: "reg.example/train@sha256:0123",
		Command: []string{"torchrun", "train.py", ""},
		Workdir: "/work", User: "alice", Env: []*EnvVar{{Name: "NCCL_DEBUG", Value: "WARN"}, {Name: "EMPTY"}},
		Mounts:      []*Mount{{Source: "/data", Target: "/data", ReadOnly: true}, {Source: "/", Target: "/host"}},
		TimeLimitMs: 86_400_000, PrepareTimeoutMs: 1_800_000, Stop: &StopSpec{Signal: 15, GraceMs: 60_000},
		Restart: &RestartSpec{Limit: 3, BackoffMs: 10_000}, LostGraceMs: 120_000, StopWhenLostMs: 120_000,
	}
}

func total(split Split, cpu, memory, gpu int64) func(*JobSpec) {
	return func(s *JobSpec) {
		s.Each = nil
		s.Gang = &GangSpec{Split: split, Total: &Resources{MilliCpu: cpu, MemoryBytes: memory, MilliGpu: gpu}}
	}
}

// specCases has edits of a valid spec, and the field that the error must name, or "" if the spec stays valid.
var specCases = []struct {
	name  string
	edit  func(*JobSpec)
	field string
}{
	{"as it is", func(*JobSpec) {}, ""},
	{"the least there is", func(s *JobSpec) {
		*s = JobSpec{Name: "a", Image: "host", Gang: &GangSpec{ReplicasMin: 1, ReplicasMax: 1}, Each: &Resources{MilliCpu: 1}}
	}, ""},
	{"a total of whole machines", total(Split_SPLIT_WHOLE, 512_000, 4<<40, 64_000), ""},
	{"a total of cores, memory left out", total(Split_SPLIT_ANY, 512_000, 0, 0), "gpu_type"},
	{"a part of a GPU for one task",
		func(s *JobSpec) { s.Gang, s.Each.MilliGpu = &GangSpec{ReplicasMin: 1, ReplicasMax: 1}, 500 }, ""},
	{
		"the largest gang", func(s *JobSpec) { s.Gang = &GangSpec{ReplicasMin: MaxGangTasks, ReplicasMax: MaxGangTasks} }, "",
	},

	{"no name", func(s *JobSpec) { s.Name = "" }, "name"},
	{"a name with capitals", func(s *JobSpec) { s.Name = "Llama" }, "name"},
	{"a name that is a path", func(s *JobSpec) { s.Name = "../../etc" }, "name"},
	{"a name of 64", func(s *JobSpec) { s.Name = strings.Repeat("a", 64) }, "name"},
	{"a label without a key", func(s *JobSpec) { s.Labels = []*Label{{Value: "x"}} }, "labels[0].key"},
	{"a label twice", func(s *JobSpec) { s.Labels = []*Label{{Key: "a"}, {Key: "b"}, {Key: "a"}} }, "labels[2]"},
	{"a label that is not there", func(s *JobSpec) { s.Labels = []*Label{nil} }, "labels[0]"},
	{"too many labels", func(s *JobSpec) {
		for i := range MaxLabels + 1 {
			s.Labels = append(s.Labels, &Label{Key: fmt.Sprint("k", i)})
		}
	}, "labels"},
	{"a value that rings", func(s *JobSpec) { s.Labels = []*Label{{Key: "a", Value: "\a"}} }, "labels[0].value"},
	{"a queue that is no name", func(s *JobSpec) { s.Queue = "a b" }, "queue"},
	{"a priority beyond", func(s *JobSpec) { s.Priority = MaxPriority + 1 }, "priority"},
	{"a priority below", func(s *JobSpec) { s.Priority = -MaxPriority - 1 }, "priority"},

	{"no gang", func(s *JobSpec) { s.Gang = nil }, "gang"},
	{"a gang of none", func(s *JobSpec) { s.Gang = &GangSpec{} }, "gang.replicas_min"},
	{"a gang of less than none", func(s *JobSpec) { s.Gang.ReplicasMin = -1 }, "gang.replicas_min"},
	{"a gang of too many", func(s *JobSpec) { s.Gang.ReplicasMin = MaxGangTasks + 1 }, "gang.replicas_min"},
	{"an elastic gang", func(s *JobSpec) { s.Gang.ReplicasMax = 16 }, "gang.replicas_max"},
	{"a split of replicas", func(s *JobSpec) { s.Gang.Split = Split_SPLIT_ANY }, "gang.split"},
	{"nothing asked", func(s *JobSpec) { s.Each = &Resources{} }, "each"},
	{"nothing said", func(s *JobSpec) { s.Each = nil }, "each"},
	{"negative cores", func(s *JobSpec) { s.Each.MilliCpu = -1 }, "each.milli_cpu"},
	{"negative memory", func(s *JobSpec) { s.Each.MemoryBytes = math.MinInt64 }, "each.memory_bytes"},
	{"negative GPUs", func(s *JobSpec) { s.Each.MilliGpu = -1000 }, "each.milli_gpu"},
	{"a task beyond any machine", func(s *JobSpec) { s.Each.MemoryBytes = MaxMemoryBytes + 1 }, "each.memory_bytes"},
	{"a part of a GPU for each of many", func(s *JobSpec) { s.Each.MilliGpu = 500 }, "each.milli_gpu"},
	{"one and a half GPUs", func(s *JobSpec) { s.Each.MilliGpu = 1500 }, "each.milli_gpu"},
	{"a sum that wraps around", func(s *JobSpec) {
		s.Gang, s.Each.MemoryBytes = &GangSpec{ReplicasMin: 65_536, ReplicasMax: 65_536}, MaxMemoryBytes
	}, "gang.replicas_min"},
	{"a total beside an amount",
		func(s *JobSpec) { s.Gang = &GangSpec{Split: Split_SPLIT_ANY, Total: &Resources{MilliCpu: 1}} }, "each"},
	{"a total beside replicas", func(s *JobSpec) { s.Gang.Total = &Resources{MilliCpu: 1} }, "gang.replicas_min"},
	{"a total of nothing", func(s *JobSpec) { total(Split_SPLIT_ANY, 0, 0, 0)(s); s.GpuType = "" }, "gang.total"},
	{"a network that nobody knows", func(s *JobSpec) { s.Network = 9 }, "network"},
	{"a launcher that nobody knows", func(s *JobSpec) { s.Launcher = 9 }, "launcher"},
	{"a launcher", func(s *JobSpec) { s.Launcher = Launch_LAUNCH_SLURM }, ""},
	{"a warning", func(s *JobSpec) { s.Warn = &WarnSpec{Signal: 10, AheadMs: 1} }, ""},
	{"a warning by no signal", func(s *JobSpec) { s.Warn = &WarnSpec{AheadMs: 1} }, "warn.signal"},
	{"a warning that kills", func(s *JobSpec) { s.Warn = &WarnSpec{Signal: 9, AheadMs: 1} }, "warn.signal"},
	{"a warning at the end", func(s *JobSpec) { s.Warn = &WarnSpec{Signal: 10} }, "warn.ahead_ms"},
	{"a request to save", func(s *JobSpec) { s.Checkpoint = &CheckpointSpec{Signal: 10, GraceMs: 1} }, ""},
	{"a request to save without a signal", func(s *JobSpec) { s.Checkpoint = &CheckpointSpec{} }, ""},
	{"a request to save that kills", func(s *JobSpec) { s.Checkpoint = &CheckpointSpec{Signal: 9} }, "checkpoint.signal"},
	{"two hours to save", func(s *JobSpec) { s.Checkpoint = &CheckpointSpec{GraceMs: 72e5} }, "checkpoint.grace_ms"},
	{"a negative time to save", func(s *JobSpec) { s.Checkpoint = &CheckpointSpec{GraceMs: -1} }, "checkpoint.grace_ms"},
	{"an unknown acknowledgement", func(s *JobSpec) { s.Checkpoint = &CheckpointSpec{Ack: 9} }, "checkpoint.ack"},
	{"an unknown set of ranks", func(s *JobSpec) { s.Checkpoint = &CheckpointSpec{Commit: 9} }, "checkpoint.commit"},
	{"a warning and a request to save", func(s *JobSpec) {
		s.Warn, s.Checkpoint = &WarnSpec{Signal: 10, AheadMs: 1}, &CheckpointSpec{Signal: 12}
	}, "warn"},
	{"a warning after the end", func(s *JobSpec) { s.Warn = &WarnSpec{Signal: 10, AheadMs: -1} }, "warn.ahead_ms"},
	{"a pattern", func(s *JobSpec) { s.Progress = &ProgressSpec{Pattern: `step (\d+)/(\d+)`} }, ""},
	{"a pattern without a group", func(s *JobSpec) { s.Progress = &ProgressSpec{Pattern: `step \d+`} }, "progress.pattern"},
	{"a pattern of three groups", func(s *JobSpec) { s.Progress = &ProgressSpec{Pattern: `(a)(b)(c)`} }, "progress.pattern"},
	{"no pattern", func(s *JobSpec) { s.Progress = &ProgressSpec{Pattern: `step (\d+`} }, "progress.pattern"},
	{"a long pattern", func(s *JobSpec) {
		s.Progress = &ProgressSpec{Pattern: "(" + strings.Repeat("x", MaxPatternBytes) + ")"}
	}, "progress.pattern"},
	{"a pattern that is expensive to match", func(s *JobSpec) {
		s.Progress = &ProgressSpec{Pattern: `(([a-z]{10}){99})`}
	}, "progress.pattern"},
	{"a private network of several machines", func(s *JobSpec) { s.Network = Network_NETWORK_PRIVATE }, "network"},
	{"a private network of one machine", func(s *JobSpec) {
		s.Network, s.Topology = Network_NETWORK_PRIVATE, &TopologySpec{Required: topology.NodeLevel}
	}, ""},
	{"a private network of one task", func(s *JobSpec) {
		s.Network, s.Gang = Network_NETWORK_PRIVATE, &GangSpec{ReplicasMin: 1, ReplicasMax: 1}
	}, ""},
	{"no network of several machines", func(s *JobSpec) { s.Network = Network_NETWORK_NONE }, ""},
	{"a total that does not say how", total(Split_SPLIT_UNSPECIFIED, 1, 1, 1000), "gang.split"},
	{"a total of half a GPU", total(Split_SPLIT_ANY, 1, 1, 500), "gang.total.milli_gpu"},
	{"a negative total", total(Split_SPLIT_ANY, -1, 1, 1000), "gang.total.milli_cpu"},

	{"a kind of no GPU", func(s *JobSpec) { s.Each.MilliGpu = 0 }, "gpu_type"},
	{"patience for nothing", func(s *JobSpec) { s.Topology = &TopologySpec{PatienceMs: 1} }, "topology.patience_ms"},
	{"negative patience", func(s *JobSpec) { s.Topology.PatienceMs = -1 }, "topology.patience_ms"},
	{"a level that is no name", func(s *JobSpec) { s.Topology.Required = "Rack!" }, "topology.required"},
	{"a selector that asks twice",
		func(s *JobSpec) { s.NodeSelector = []*Label{{Key: "a", Value: "x"}, {Key: "a", Value: "y"}} }, "node_selector[1]"},

	{"no image", func(s *JobSpec) { s.Image = "" }, "image"},
	{"a command cut short", func(s *JobSpec) { s.Command = []string{"sh", "-c", "a\x00b"} }, "command[2]"},
	{"a command too long", func(s *JobSpec) { s.Command = []string{strings.Repeat("a", MaxCommandBytes+1)} }, "command"},
	{"a command of too many words", func(s *JobSpec) { s.Command = make([]string, MaxCommandArgs+1) }, "command"},
	{"a relative workdir", func(s *JobSpec) { s.Workdir = "work" }, "workdir"},
	{"an env too large",
		func(s *JobSpec) { s.Env = []*EnvVar{{Name: "A", Value: strings.Repeat("a", MaxEnvBytes)}} }, "env"},
	{"a variable twice", func(s *JobSpec) { s.Env = []*EnvVar{{Name: "A"}, {Name: "A"}} }, "env[1]"},
	{"a variable with an equals sign", func(s *JobSpec) { s.Env = []*EnvVar{{Name: "A=B"}} }, "env[0].name"},
	{"a mount from nowhere", func(s *JobSpec) { s.Mounts = []*Mount{{Target: "/a"}} }, "mounts[0].source"},
	{"a mount that climbs", func(s *JobSpec) { s.Mounts = []*Mount{{Source: "/a/../../b", Target: "/a"}} },
		"mounts[0].source"},
	{"two mounts in one place",
		func(s *JobSpec) { s.Mounts = []*Mount{{Source: "/a", Target: "/x"}, {Source: "/b", Target: "/x"}} }, "mounts[1]"},
	{"more shared memory than memory", func(s *JobSpec) { s.ShmBytes = s.Each.MemoryBytes + 1 }, "shm_bytes"},
	{"negative shared memory", func(s *JobSpec) { s.ShmBytes = -1 }, "shm_bytes"},

	{"a begin before there were clocks", func(s *JobSpec) { s.BeginUnixMs = -1 }, "begin_unix_ms"},
	{"a begin beyond all years", func(s *JobSpec) { s.BeginUnixMs = MaxTimeUnixMs + 1 }, "begin_unix_ms"},
	{"a negative limit", func(s *JobSpec) { s.TimeLimitMs = -1 }, "time_limit_ms"},
	{"a limit of ages", func(s *JobSpec) { s.TimeLimitMs = math.MaxInt64 }, "time_limit_ms"},
	{"a signal that is none", func(s *JobSpec) { s.Stop.Signal = 65 }, "stop.signal"},
	{"a negative grace", func(s *JobSpec) { s.Stop.GraceMs = -1 }, "stop.grace_ms"},
	{"negative restarts", func(s *JobSpec) { s.Restart.Limit = -1 }, "restart.limit"},
	{"a fence that stops the healthy", func(s *JobSpec) { s.StopWhenLostMs = 5_000 }, "stop_when_lost_ms"},
	{"more than the disk takes", func(s *JobSpec) {
		for i := range MaxMounts {
			s.Mounts = append(s.Mounts, &Mount{Source: "/" + strings.Repeat("s", 300), Target: fmt.Sprint("/", i)})
		}
		s.Mounts = s.Mounts[2:]
	}, ""}, // the field is the spec itself
}

func TestJobSpecAtTheDoor(t *testing.T) {
	for _, c := range specCases {
		s := goodSpec()
		c.edit(s)
		err := s.Validate()
		if c.name == "more than the disk takes" {
			if err == nil {
				t.Errorf("%s: let through at %d bytes", c.name, proto.Size(s))
			}
			continue
		}
		wantField(t, c.name, err, c.field)
		if err != nil {
			// A client sees the path in its own message.
			submit := &Submit{Principal: &Principal{Name: "alice"}, RequestId: "r-1", Spec: s}
			wantField(t, c.name+", submitted", submit.Validate(), "spec."+c.field)
		}
	}
}

// wantField checks that an error names this field. "" means that no error is expected.
func wantField(t *testing.T, name string, err error, field string) {
	t.Helper()
	var f *FieldError
	switch {
	case err == nil && field == "":
	case err == nil:
		t.Errorf("%s: let through, want %s refused", name, field)
	case !errors.As(err, &f):
		t.Errorf("%s: %T is no FieldError", name, err)
	case f.Field != field:
		t.Errorf("%s: %q, want %q to be named", name, err, field)
	}
}

func TestRefusalsNameTheWayOut(t *testing.T) {
	s := goodSpec()
	s.Each.MilliGpu = 1500
	err := (&Submit{Principal: &Principal{Name: "alice"}, Spec: s}).Validate()
	want := "spec.each.milli_gpu: is 1500 thousandths of a GPU, neither a whole number of GPUs nor a fraction of one " +
		"(request 1 or 2 " +
		"whole GPUs)"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// TestGoodMessagesPass checks that every valid message passes, also after encoding and decoding, and that the error for
// each missing field names it.
func TestGoodMessagesPass(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range goodMessages() {
		seen[string(m.ProtoReflect().Descriptor().Name())] = true
		if err := m.Validate(); err != nil {
			t.Errorf("%T: %v", m, err)
		}
		data, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		again := m.ProtoReflect().New().Interface().(validator)
		if err := proto.Unmarshal(data, again); err != nil || again.Validate() != nil {
			t.Errorf("%T after the wire: %v, %v", m, err, again.Validate())
		}
	}
	for _, m := range validated(t) {
		if !seen[string(m.Descriptor().Name())] {
			t.Errorf("no good %s is tried", m.Descriptor().Name())
		}
	}
}

func TestBadMessagesAreRefused(t *testing.T) {
	for _, c := range []struct {
		m     validator
		field string
	}{
		{&Reserve{Order: goodOrder, Members: goodMembers}, "ttl_ms"},
		{&Reserve{Order: goodOrder, TtlMs: 1}, "members"},
		{&Reserve{Members: goodMembers, TtlMs: 1}, "order"},
		{&Reserve{Order: goodOrder, TtlMs: 1, Members: []*Member{{Rank: -1, Amount: &Resources{MilliCpu: 1}}}},
			"members[0].rank"},
		{&Reserve{Order: goodOrder, TtlMs: 1, Members: []*Member{{Amount: &Resources{}}}}, "members[0].amount"},
		{&Reserve{Order: goodOrder, TtlMs: 1, Members: append(goodMembers[:1:1], goodMembers[0])}, "members[1]"},
		{&Reserve{Order: goodOrder, TtlMs: 1, Members: []*Member{{Amount: &Resources{MilliGpu: 1001}}}},
			"members[0].amount.milli_gpu"},
		{&Abort{Order: &Order{Token: goodOrder.Token, Job: "j", Node: "n", Incarnation: goodIncarnation}}, "order.epoch"},
		{&Abort{Order: &Order{Epoch: 1, Job: "j", Node: "n", Incarnation: goodIncarnation}}, "order.token"},
		{&Abort{Order: &Order{Epoch: 1, Token: &Token{Counter: 1}, Job: "j", Node: "n", Incarnation: goodIncarnation}},
			"order.token.epoch"},
		{&Abort{Order: &Order{Epoch: 1, Token: goodOrder.Token, Job: "a/b", Node: "n", Incarnation: goodIncarnation}},
			"order.job"},
		{&Abort{Order: &Order{Epoch: 1, Token: goodOrder.Token, Job: "j", Node: "n"}}, "order.incarnation"},
		{&Aborted{Origin: &Origin{Node: "n", MachineId: "m", Incarnation: goodIncarnation}}, "origin.token"},
		{&Aborted{Origin: &Origin{Token: goodOrder.Token, Job: "j", Node: "n", Incarnation: goodIncarnation}},
			"origin.machine_id"},
		{
			&Reserved{
				Origin: goodOrigin, Grants: []*Grant{
					{Amount: &Resources{MilliGpu: 1000}, Gpus: []*GpuShare{{GpuId: "a", Milli: 500}}},
				},
			}, "grants[0].gpus",
		},
		{&Reserved{Origin: goodOrigin, Grants: []*Grant{{Amount: &Resources{MilliGpu: 1000},
			Gpus: []*GpuShare{{GpuId: "a", Milli: 500}, {GpuId: "a", Milli: 500}}}}}, "grants[0].gpus[1]"},
		{
			&Reserved{
				Origin: goodOrigin, Grants: []*Grant{
					{Amount: &Resources{MilliGpu: 2000}, Gpus: []*GpuShare{{GpuId: "a", Milli: 2000}}},
				},
			}, "grants[0].gpus[0].milli",
		},
		{&Refused{Origin: goodOrigin}, "reason"},
		{&Refused{Origin: goodOrigin, Reason: RefusalReason_REFUSAL_REASON_SHORTAGE}, "ledger"},
		{&Commit{Order: goodOrder, Members: goodMembers}, "spec"},
		{&Start{Order: goodOrder, Run: 1}, "rendezvous"},
		{&Start{Order: goodOrder, Rendezvous: goodMeeting}, "run"},
		{
			&Start{Order: goodOrder, Run: 1, Rendezvous: &Rendezvous{Address: "a", Port: 1,
				Peers: []*Peer{{Rank: 1, Node: "n"}, {Rank: 0, Node: "m"}}}}, "rendezvous.peers[1].rank",
		},
		{&Start{Order: goodOrder, Run: 1, Rendezvous: &Rendezvous{Port: 1, Peers: goodMeeting.Peers}}, "rendezvous.address"},
		{&Start{Order: goodOrder, Run: 1, Rendezvous: &Rendezvous{Address: "a", Peers: goodMeeting.Peers}},
			"rendezvous.port"},
		{
			&Start{
				Order: goodOrder, Run: 1, Rendezvous: &Rendezvous{Address: "a", Port: 1, Peers: []*Peer{{Node: "n"}, {Node: "m"}}},
			}, "rendezvous.peers[1].rank",
		},
		{&Start{Order: goodOrder, Run: 1, Rendezvous: &Rendezvous{Address: "a", Port: 1}}, "rendezvous.peers"},
		{&Start{Order: goodOrder, Run: 1, Rendezvous: &Rendezvous{Address: "a"}, Roster: &Roster{SizeBytes: 1}},
			"rendezvous.port"},
		{&Start{Order: goodOrder, Run: 1, Rendezvous: &Rendezvous{Address: "a", Port: 1}, Roster: &Roster{}},
			"roster.size_bytes"},
		{
			&Start{Order: goodOrder, Run: 1, Rendezvous: &Rendezvous{Address: "a", Port: 1},
				Roster: &Roster{SizeBytes: 9, OffsetBytes: 9, Data: []byte{1}}}, "roster.offset_bytes",
		},
		{&Lacking{Origin: goodOrigin, HaveBytes: -1}, "have_bytes"},
		{&Warn{Order: goodOrder}, "number"}, {&Warn{Order: goodOrder, Number: 1, Cause: Cause_CAUSE_SUCCEEDED}, "cause"},
		{&Warn{Order: goodOrder, Number: 1, LeftMs: -1}, "left_ms"},
		{&Stop{Order: goodOrder}, "cause"},
		{&Exited{Origin: goodOrigin}, "exits"},
		{&Exited{Origin: goodOrigin, Exits: []*Exit{{Rank: 1}}}, "exits[0].kind"},
		{&Ended{Origin: goodOrigin, Exits: []*Exit{goodExit, goodExit}}, "exits[1]"},
		{&Lead{ClusterId: "c"}, "epoch"},
		{&Lead{Epoch: 1}, "cluster_id"},
		{&Hello{Origin: goodOrigin, Epoch: 1, Ledger: goodLedger}, "announcement"},
		{&Hello{Origin: goodOrigin, Epoch: 1, Announcement: goodAnnouncement, ClusterId: "a/b"}, "cluster_id"},
		{&LedgerRecord{ClusterId: "a b"}, "cluster_id"},
		{&Report{Origin: goodOrigin, Epoch: 1}, "ledger"},
		{
			&Report{
				Origin: goodOrigin, Epoch: 1, Ledger: &LedgerReport{Total: &Resources{MilliCpu: 1}, Free: &Resources{MilliCpu: 2}},
			}, "ledger.free",
		},
		{&Report{Origin: goodOrigin, Epoch: 1, Ledger: &LedgerReport{Total: &Resources{}, Free: &Resources{MilliGpu: -1}}},
			"ledger.free.milli_gpu"},
		{&Report{Origin: goodOrigin, Epoch: 1, Ledger: &LedgerReport{Total: &Resources{}, Free: &Resources{},
			Slices: []*SliceReport{{Token: goodOrder.Token, Job: "j"}}}}, "ledger.slices[0].state"},
		{&Submit{Spec: goodSpec()}, "principal"},
		{&Submit{Principal: &Principal{}, Spec: goodSpec()}, "principal.name"},
		{&Submit{Principal: goodCaller}, "spec"},
		{&Cancel{Principal: goodCaller}, "job"},
		{&ChangeNode{Principal: goodCaller, Node: "n"}, "verb"},
		{&ChangeNode{Principal: goodCaller, Node: "n", Verb: 99}, "verb"},
		{&ChangeNode{Principal: goodCaller, Node: "n", Verb: NodeVerb_NODE_VERB_CORDON}, "reason"},
		{&ChangeNode{Principal: goodCaller, Node: "n", Verb: NodeVerb_NODE_VERB_REMOVE, DeadlineMs: 1}, "deadline_ms"},
		{&ChangeNode{Principal: goodCaller, Node: "n", Verb: NodeVerb_NODE_VERB_CORDON, Reason: "x", AtUnixMs: 1},
			"at_unix_ms"},
		{&ChangeNode{Principal: goodCaller, Node: "n", Verb: NodeVerb_NODE_VERB_DRAIN, Reason: "x", AtUnixMs: -1},
			"at_unix_ms"},
		{&Update{Principal: goodCaller, Job: "j", GiveTo: Anonymous}, "give_to"},
		{&Update{Principal: goodCaller, Job: "j", GiveTo: "a/b"}, "give_to"},
		{&Update{Principal: goodCaller, Job: "j", SetBegin: true, BeginUnixMs: -1}, "begin_unix_ms"},
		{&ListJobs{Principal: goodCaller, Limit: -1}, "limit"},
		{&History{}, "principal"},
		{&History{Principal: goodCaller, Limit: MaxPageEntries + 1}, "limit"},
		{&History{Principal: goodCaller, States: []JobState{JobState_JOB_STATE_FAILED, JobState_JOB_STATE_ACTIVE}},
			"states[1]"},
		{&History{Principal: goodCaller, States: []JobState{0}}, "states[0]"},
		{&History{Principal: goodCaller, States: make([]JobState, maxFilterValues+1)}, "states"},
		{&History{Principal: goodCaller, SinceUnixMs: 5, UntilUnixMs: 5}, "until_unix_ms"},
		{&History{Principal: goodCaller, SinceUnixMs: -1}, "since_unix_ms"},
		{&History{Principal: goodCaller, UntilUnixMs: MaxTimeUnixMs + 1}, "until_unix_ms"},
		{&History{Principal: goodCaller, Name: "a b"}, "name"},
		{&History{Principal: goodCaller, After: strings.Repeat("a", 300)}, "after"},
		{&HistoryReply{Outcome: okay, Jobs: []*PastJob{{Id: "j1"}}}, "jobs[0].state"},
		{&HistoryReply{Outcome: okay, Jobs: []*PastJob{{Id: "j1", State: 3, Attempts: []*PastAttempt{{Members: 1}}}}},
			"jobs[0].attempts[0].token"},
		{&ListJobs{Principal: goodCaller, Phases: []string{""}}, "phases[0]"},
		{&SubmitReply{}, "outcome"},
		{&SubmitReply{Outcome: okay}, "job"},
		{&SubmitReply{Outcome: &Outcome{Code: Code_CODE_CONFLICT}}, "outcome.text"},
		{&GetJobReply{Outcome: okay}, "job"},
		{&JobRecord{Id: "j", WrittenBy: &Token{Epoch: 1}, Spec: &JobSpec{}, State: 1}, "revision"},
		{
			&JobRecord{
				Id: "j", Revision: 1, WrittenBy: &Token{Epoch: 1}, Spec: &JobSpec{}, State: 1, Promise: &Promise{Run: 1},
			}, "promise.kept",
		},
		{&PassRecord{}, "id"},
		{&PassRecord{Id: "a1", Hash: []byte("short")}, "hash"},
		{&PassRecord{Id: "a1", Hash: make([]byte, PassHashBytes)}, "role"},
		{&PassRecord{Id: "a1", Hash: make([]byte, PassHashBytes), Role: "admin"}, "name"},
		{&PassRecord{Id: "a1", Hash: make([]byte, PassHashBytes), Role: "admin", Name: "ann"}, "until_unix_ms"},
		{&PolicyRecord{}, "written_by"},
		{gpuTimeOf(&GpuTimeRow{Kind: 9}), "gpu_time.rows[0].kind"},
		{gpuTimeOf(&GpuTimeRow{Kind: 1, Day: -1}), "gpu_time.rows[0].day"},
		{gpuTimeOf(&GpuTimeRow{Kind: 1, Amounts: []*GpuAmount{{}}}), "gpu_time.rows[0].amounts[0].class"},
		{&GetEfficiency{Principal: goodCaller, Kind: 9}, "kind"},
		{&GetEfficiency{Principal: goodCaller, Days: -1}, "days"},
		{&PolicyRecord{WrittenBy: &Token{Epoch: 1}, Cells: []*Cell{{Level: 9, Count: 1}}}, "cells[0].level"},
		{&PolicyRecord{WrittenBy: &Token{Epoch: 1}, Cells: []*Cell{{Level: 1}}}, "cells[0].count"},
		{&PolicyRecord{WrittenBy: &Token{Epoch: 1}, Cells: []*Cell{{Level: 1, Count: 1, Sum: -1}}}, "cells[0].sum"},
		{
			&PolicyRecord{
				WrittenBy: &Token{Epoch: 1}, Cells: []*Cell{{Level: 3, Count: 1, Owner: "a"}, {Level: 3, Count: 1, Owner: "a"}},
			}, "cells[1]",
		},
		{&PolicyRecord{WrittenBy: &Token{Epoch: 1}, Cells: make([]*Cell, MaxCells+1)}, "cells"},
		{&PolicyRecord{WrittenBy: &Token{Epoch: 1}, Uses: []*QueueUse{{MilliGpuMs: -1}}}, "uses[0].milli_gpu_ms"},
		{&QueuesRecord{WrittenBy: &Token{Epoch: 1}, Queues: goodQueues()}, "revision"},
		{&QueuesRecord{WrittenBy: &Token{Epoch: 1}, Revision: 1}, "queues"},
		{&ApplyQueues{Principal: goodCaller, Queues: &Queues{}}, "queues.queues"},
		{&ApplyQueues{Principal: goodCaller, Queues: &Queues{Queues: []*QueueSpec{{Name: "Nlp"}}}}, "queues.queues[0].name"},
		{&ApplyQueues{Principal: goodCaller, Queues: &Queues{Queues: []*QueueSpec{
			{Name: "a", Order: 9},
		}}}, "queues.queues[0].order"},
		{&ApplyQueues{Principal: goodCaller, Queues: &Queues{Queues: []*QueueSpec{
			{Name: "a", Quota: []*Amount{{Name: "gpu"}, {Name: "gpu"}}},
		}}}, "queues.queues[0].quota[1]"},
		{&ApplyQueues{Principal: goodCaller, Queues: &Queues{Queues: []*QueueSpec{
			{Name: "a", Limit: []*Amount{{Name: "gpu", Amount: -1}}},
		}}}, "queues.queues[0].limit[0].amount"},
		{&AttemptRecord{Job: "j", Token: &Token{Epoch: 1}, Run: 1}, "places"},
		{&AttemptRecord{Job: "j", Token: &Token{Epoch: 1}, Run: 1, Places: []*Place{goodPlace, goodPlace}}, "places[1]"},
		{&LedgerRecord{Slices: []*SliceRecord{{Job: "j"}}}, "slices[0].token"},
		{&TaskGone{Id: goodTask, Exit: goodExit}, "exit.rank"},
		{&TaskGone{Id: goodTask, Exit: &Exit{Rank: 2, Kind: ExitKind_EXIT_KIND_EXITED}}, "exit.rank"},
		{&TaskList{Tasks: []*TaskEntry{{Id: goodTask}, {Id: goodTask}}}, "tasks[1]"},
		{&TaskList{Tasks: []*TaskEntry{{Id: goodTask, Stop: &StopSpec{GraceMs: -1}}}}, "tasks[0].stop.grace_ms"},
		{&SignalTask{Id: goodTask}, "signal"},
		{&WarnTask{Id: goodTask, Cause: Cause_CAUSE_TIME_LIMIT}, "signal"},
		{&TaskSaved{Id: goodTask, Saved: &RankSaved{Rank: 1}}, "saved.request"},
		{&RankSaved{Request: 1, Steps: []int64{-1}}, "steps"},
		{&Saved{Step: 1}, "request"}, {&MissedSave{Required: 1}, "request"}, {&MissedSave{Request: 7}, "required"},
		{&Checkpoint{Principal: goodCaller}, "job"},
		{&CheckpointReply{Outcome: OK()}, "job"},
		{&WarnTask{Id: goodTask, Signal: 10, Cause: Cause_CAUSE_CANCELLED}, "cause"},
	} {
		wantField(t, fmt.Sprintf("%T", c.m), c.m.Validate(), c.field)
	}
}

// TestAnnouncements checks the sum of the devices and the topology in an announcement.
func TestAnnouncements(t *testing.T) {
	for field, edit := range map[string]func(*Announcement){
		"total.milli_gpu": func(a *Announcement) { a.Total.MilliGpu = 1500 },
		"gpus[1]":         func(a *Announcement) { a.Gpus[1].Id = "a" },
		"port_last":       func(a *Announcement) { a.PortLast = 1 },
		"port_first":      func(a *Announcement) { a.PortFirst = 0 },
		"place[1]":        func(a *Announcement) { a.Place[1].Key = "zone" },
		"place[0].value":  func(a *Announcement) { a.Place[0].Value = "" },
		"address":         func(a *Announcement) { a.Address = "" },
	} {
		a := proto.Clone(goodAnnouncement).(*Announcement)
		edit(a)
		hello := &Hello{Origin: goodOrigin, Epoch: 1, Announcement: a, Ledger: goodLedger}
		wantField(t, field, hello.Validate(), "announcement."+field)
	}
	more := proto.Clone(goodAnnouncement).(*Announcement)
	more.Total.MilliGpu = 2500
	wantField(t, "more than the devices", (&Hello{Origin: goodOrigin, Epoch: 1, Announcement: more}).Validate(),
		"announcement.total.milli_gpu")
}

func BenchmarkValidate(b *testing.B) {
	peers := make([]*Peer, 512)
	for i := range peers {
		peers[i] = &Peer{Rank: int32(i), Node: "n"}
	}
	spec := goodSpec()
	for name, m := range map[string]validator{
		"Submit":  &Submit{Principal: goodCaller, Spec: spec},
		"Commit":  &Commit{Order: goodOrder, Spec: spec, Members: goodMembers},
		"Start":   &Start{Order: goodOrder, Run: 1, Rendezvous: &Rendezvous{Address: "a", Port: 1, Peers: peers}},
		"Reserve": &Reserve{Order: goodOrder, Members: goodMembers, TtlMs: 1},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := m.Validate(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestAsText checks that any text from outside becomes valid, and that valid text does not change.
func TestAsText(t *testing.T) {
	for said, want := range map[string]string{
		"":                       "",
		"a line,\n\tand another": "a line,\n\tand another",
		"naïve €":                "naïve €",
		"to\r\x1b[2J\x00\x7fthe": "to??[2J??the",
		"caf\xe9 \xff\xfe.tar":   "caf? ?.tar",
		strings.Repeat("é", maxTextBytes/2) + "é":       strings.Repeat("é", maxTextBytes/2),
		"." + strings.Repeat("é", maxTextBytes/2) + "é": "." + strings.Repeat("é", maxTextBytes/2-1),
	} {
		got := AsText(said)
		if got != want {
			t.Errorf("%.20q became %.20q of %d bytes, want %.20q of %d", said, got, len(got), want, len(want))
		}
		if err := text("detail", got, maxTextBytes); err != nil {
			t.Errorf("%.20q: %v", said, err)
		}
	}
}

func gpuTimeOf(row *GpuTimeRow) *PolicyRecord {
	return &PolicyRecord{WrittenBy: &Token{Epoch: 1}, GpuTime: &GpuTime{Rows: []*GpuTimeRow{row}}}
}
