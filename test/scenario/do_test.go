// This file holds the commands of users and operators in a scenario: submit, cancel, hold, changes of nodes, and the
// end of the scenario.
package scenario

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/sim"
	"github.com/yi-json/synapse/topology"
)

// submit submits a job, or many equal jobs.
func (s *stage) submit(l commandLine) string {
	count := l.number("count", 0)
	if count == 0 {
		return s.submitOne(l, l.first(0))
	}
	var odd []string
	for i := range count {
		if out := s.submitOne(l, l.first(0)+"-"+strconv.Itoa(i+1)); out != "" {
			odd = append(odd, out)
		}
	}
	return strings.Join(odd, "\n")
}

func (s *stage) submitOne(l commandLine, name string) string {
	if s.orders[name] != nil {
		l.d.Fatalf(l.t, "there is a job %s", name)
	}
	o := s.w.SubmitAs(l.word("owner", ""), s.spec(l, name), l.has("held"))
	s.orders[name], s.specs[name] = o, s.spec(l, name)
	s.names = append(s.names, name)
	if l.has("unheard") {
		return ""
	}
	if !s.w.StepUntil(func() bool { return o.ID() != "" || o.Refused() }, 30*time.Second) {
		return "no answer"
	}
	if o.Refused() {
		return "refused: " + s.ask(o, s.specs[name])
	}
	return ""
}

// spec returns the job that a command's words describe.
func (s *stage) spec(l commandLine, name string) *messages.JobSpec {
	n := int32(l.number("replicas", 1))
	spec := &messages.JobSpec{
		Name: name, Image: "host", Queue: l.word("queue", "default"), Priority: int32(l.number("priority", 0)),
		GpuType: l.word("type", ""),
		Gang:    &messages.GangSpec{ReplicasMin: n, ReplicasMax: n},
		Each:    l.amount("gpu"),
		Stop:    &messages.StopSpec{GraceMs: l.time("grace", 2*time.Second).Milliseconds()},
		Restart: &messages.RestartSpec{
			Limit: int32(l.number("limit", 0)), BackoffMs: l.time("backoff", 0).Milliseconds(),
			InPlace: l.has("in-place"), Spares: int32(l.number("spares", 0)),
		},
		TimeLimitMs: l.time("time-limit", 0).Milliseconds(), LostGraceMs: l.time("lost-grace", 0).Milliseconds(),
		StopWhenLostMs:   l.time("stop-when-lost", 0).Milliseconds(),
		PrepareTimeoutMs: l.time("prepare-timeout", 0).Milliseconds(),
		CheckpointMs:     l.time("checkpoint", 0).Milliseconds(), NotPreemptible: l.has("fixed"),
	}
	if l.word("total", "") != "" {
		split := messages.Split_SPLIT_WHOLE
		if l.word("split", "whole") == "any" {
			split = messages.Split_SPLIT_ANY
		}
		spec.Gang, spec.Each = &messages.GangSpec{Total: l.amount("total"), Split: split}, nil
	}
	if l.word("required", "")+l.word("preferred", "") != "" {
		spec.Topology = &messages.TopologySpec{Required: l.word("required", ""), Preferred: l.word("preferred", ""),
			PatienceMs: l.time("patience", 0).Milliseconds()}
	}
	if key, value, ok := strings.Cut(l.word("selector", ""), ":"); ok {
		spec.NodeSelector = []*messages.Label{{Key: key, Value: value}}
	}
	spec.Nodes, spec.Exclude, spec.Gang.Apart = l.machines("nodes"), l.machines("exclude"), l.has("apart")
	spec.Network, _ = messages.NetworkOf(l.word("network", ""))
	if spec.Command = l.command(); l.has("script") {
		spec.Script = &messages.Script{Name: "train.sh", Digest: strings.Repeat("5c", 32), SizeBytes: 1,
			Args: spec.Command}
		spec.Command = nil
	}
	spec.User, spec.ShmBytes = l.word("user", ""), int64(l.number("shm", 0))<<30
	spec.BeginUnixMs, spec.DeadlineUnixMs = l.moment("begin"), l.moment("deadline")
	if text := l.word("array", ""); text != "" {
		indices, most, _ := strings.Cut(text, "%")
		spec.Array = &messages.ArraySpec{Most: l.parsed(most)}
		for _, part := range strings.Split(indices, ";") {
			first, last, _ := strings.Cut(part, "-")
			spec.Array.Indices = append(spec.Array.Indices, &messages.IndexRange{
				First: l.parsed(first), Last: max(l.parsed(first), l.parsed(last)),
			})
		}
	}
	for _, word := range l.list("after") { // a job by its name, or by an unknown ID
		job, end, _ := strings.Cut(word, ":")
		after := &messages.After{Job: job}
		if o := s.orders[job]; o != nil {
			after.Job = o.ID()
		}
		end, later, _ := strings.Cut(end, "+")
		after.End, _ = messages.AfterEndOf(end)
		if delay, err := time.ParseDuration(later); err == nil {
			after.DelayMs = delay.Milliseconds()
		}
		spec.After = append(spec.After, after)
	}
	if ahead := l.time("warn", 0); ahead > 0 {
		spec.Warn = &messages.WarnSpec{Signal: 1, AheadMs: ahead.Milliseconds()}
	}
	if grace := l.time("save", 0); grace > 0 {
		spec.Checkpoint = &messages.CheckpointSpec{Signal: 10, GraceMs: grace.Milliseconds()}
		if l.word("acks", "") == "exit" {
			spec.Checkpoint.Ack = messages.SaveAck_SAVE_ACK_EXIT
		}
		if l.has("rank0") {
			spec.Checkpoint.Commit = messages.SaveCommit_SAVE_COMMIT_RANK0
		}
	}
	return spec
}

// parsed returns a number, or 0 for an empty text.
func (l commandLine) parsed(text string) int32 {
	n, err := strconv.ParseInt(cmp.Or(text, "0"), 10, 32)
	l.must(err)
	return int32(n)
}

// moment returns the time of day of a command, such as 00:30. Every world begins at midnight by undisturbed clocks. The
// result is 0 for now or for a missing time.
func (l commandLine) moment(key string) int64 {
	text := l.word(key, "now")
	if text == "now" {
		return 0
	}
	at, err := time.Parse(time.TimeOnly, text+":00")
	l.must(err)
	return sim.WallBeganMs + int64(at.Hour()*60+at.Minute())*60_000
}

// machines returns the names of nodes that are given by number. The nodes need not exist.
func (l commandLine) machines(key string) (names []string) {
	for _, number := range l.list(key) {
		n, err := strconv.Atoi(number)
		if err != nil {
			l.d.Fatalf(l.t, "%s=%s: machines have numbers", key, number)
		}
		names = append(names, fmt.Sprintf("n%05d", n))
	}
	return names
}

// amount returns the request of one task, or of all together. A part of a GPU has the form 0.5.
func (l commandLine) amount(gpus string) *messages.Resources {
	if l.list("cpu") == nil && l.list("mem") == nil && l.list(gpus) == nil {
		return nil
	}
	return &messages.Resources{
		MilliCpu:    int64(l.number("cpu", 0)) * 1000,
		MemoryBytes: int64(l.number("mem", 0)) << 30,
		MilliGpu:    int64(l.fraction(gpus) * topology.WholeGPU),
	}
}

// command returns the script that the simulated node plays.
func (l commandLine) command() []string {
	words := []string{"sim", "run=" + l.time("run", time.Hour).String()}
	for _, key := range []string{"exit", "rank", "runs", "image", "acks", "idle"} {
		if v := l.word(key, ""); v != "" {
			words = append(words, key+"="+v)
		}
	}
	for _, key := range []string{"oom", "deaf", "saves", "heeds"} {
		if l.has(key) {
			words = append(words, key)
		}
	}
	return words
}

// again repeats a request, with the same body or another.
func (s *stage) again(l commandLine) string {
	name := l.first(0)
	spec := proto.Clone(s.specs[name]).(*messages.JobSpec)
	if n := int32(l.number("replicas", 0)); n > 0 {
		spec.Gang.ReplicasMin, spec.Gang.ReplicasMax = n, n
	}
	return s.ask(s.order(l, name), spec)
}

// ask submits under an order's request ID, and prints the answer.
func (s *stage) ask(o *sim.Order, spec *messages.JobSpec) string {
	out := "no answer"
	q := &messages.Submit{Principal: o.Owner(), RequestId: o.RequestID(), Spec: spec}
	s.asked(actors.SchedulerPath, q, func(m messages.Message) {
		r := m.(*messages.SubmitReply)
		out = strings.TrimSpace(codeOf(r.Outcome) + " " + s.plain(r.Job) + told(r.Outcome))
	})
	return s.plain(out)
}

// asked waits for an answer of the leader.
func (s *stage) asked(path string, q messages.Message, answered func(messages.Message)) {
	done := false
	s.w.Ask(path, q, func(m messages.Message) { done = true; answered(m) })
	s.w.StepUntil(func() bool { return done }, 10*time.Second)
}

func codeOf(o *messages.Outcome) string {
	return strings.ToLower(strings.TrimPrefix(o.GetCode().String(), "CODE_"))
}

func told(o *messages.Outcome) string {
	if o.GetCode() == messages.Code_CODE_OK {
		return ""
	}
	return strings.TrimSpace(o.GetField()+": "+o.GetText()) + " (" + o.GetHint() + ")"
}

func (s *stage) cancel(l commandLine) string {
	s.w.Cancel(s.order(l, l.first(0)))
	return ""
}

func (s *stage) hold(l commandLine) string {
	s.w.Hold(s.order(l, l.first(0)))
	s.w.RunFor(50 * time.Millisecond)
	return ""
}

func (s *stage) release(l commandLine) string {
	s.w.Release(s.order(l, l.first(0)))
	return ""
}

// requeue prints the attempt that is being stopped, or the error.
func (s *stage) requeue(l commandLine) string {
	out := "no answer"
	q := &messages.Requeue{Principal: &messages.Principal{Name: "anonymous"}, Job: s.order(l, l.first(0)).ID(),
		Reason: "slow disk",
		Run:    int32(l.number("run", 0)), Hold: l.has("hold"), Checkpoint: l.has("checkpoint")}
	s.asked(actors.SchedulerPath, q, func(m messages.Message) {
		r := m.(*messages.RequeueReply)
		out = told(r.Outcome)
		if out == "" {
			out = "run " + strconv.Itoa(int(r.Run))
		}
	})
	return s.plain(out)
}

// checkpoint requests a checkpoint of a running job, and prints the error.
func (s *stage) checkpoint(l commandLine) string {
	out := "no answer"
	q := &messages.Checkpoint{Principal: &messages.Principal{Name: "anonymous"}, Job: s.order(l, l.first(0)).ID()}
	s.asked(actors.SchedulerPath, q, func(m messages.Message) { out = told(m.(*messages.CheckpointReply).Outcome) })
	return s.plain(out)
}

// dryRun prints the outcome of a submit.
func (s *stage) dryRun(l commandLine) string {
	out := "no answer"
	q := &messages.DryRun{Principal: &messages.Principal{Name: "anonymous"}, Spec: s.spec(l, "dry")}
	s.asked(actors.SchedulerPath, q, func(m messages.Message) {
		r := m.(*messages.DryRunReply)
		if out = told(r.Outcome); out == "" {
			out = strconv.Itoa(int(r.Ahead)) + " ahead; " + cmp.Or(r.Waits, "there is room")
		}
	})
	return s.plain(out)
}

// update prints a job's new request, or the error.
func (s *stage) update(l commandLine) string {
	out := "no answer"
	q := &messages.Update{
		Principal: &messages.Principal{Name: l.word("by", "anonymous")}, Job: s.order(l, l.first(0)).ID(),
		GiveTo: l.word("give-to", ""), Reason: "it takes longer",
		SetPriority: l.word("priority", "") != "", Priority: int32(l.number("priority", 0)),
		SetTimeLimit: l.word("time-limit", "") != "", TimeLimitMs: l.time("time-limit", 0).Milliseconds(),
		SetBegin: l.word("begin", "") != "", BeginUnixMs: l.moment("begin"),
		SetDeadline: l.word("deadline", "") != "", DeadlineUnixMs: l.moment("deadline"),
		SetArrayMost: l.word("most", "") != "", ArrayMost: int32(l.number("most", 0)),
	}
	s.asked(actors.SchedulerPath, q, func(m messages.Message) {
		r := m.(*messages.UpdateReply)
		if out = told(r.Outcome); out == "" {
			out = "priority " + strconv.Itoa(int(r.Priority)) + ", time limit " +
				(time.Duration(r.TimeLimitMs) * time.Millisecond).String()
		}
		if r.GivenTo != "" {
			out += ", of " + r.GivenTo
		}
		if r.TimeIsUp {
			out += ", which is over"
		}
		if r.ArrayMost > 0 {
			out += ", " + strconv.Itoa(int(r.ArrayMost)) + " at once"
		}
	})
	return s.plain(out)
}

func (s *stage) change(verb messages.NodeVerb) func(commandLine) string {
	return func(l commandLine) string {
		if at := l.moment("at"); at > 0 {
			s.w.Close(l.machine(0), at, l.time("deadline", 0))
		} else {
			s.w.Change(l.machine(0), verb, l.time("deadline", 0))
		}
		if verb != messages.NodeVerb_NODE_VERB_UNCORDON {
			s.w.RunFor(50 * time.Millisecond) // it is on disk before the next request
		}
		return ""
	}
}

// finish undoes the faults of the scenario and runs the world to its end.
func (s *stage) finish(commandLine) string {
	s.finished = true
	for n := 1; n <= s.machines; n++ {
		s.mendOne(n)
		s.w.BreakDisk(n, false, 0)
	}
	s.w.Lose(nil)
	s.w.Finish()
	if out := s.violations(); out != "" {
		return out
	}
	return "violations=0"
}
