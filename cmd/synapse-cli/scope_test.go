package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file checks that every command changes exactly the named elements. The expected elements are drawn first,
// and the scope is written from them, so the test never parses a scope.

// arrays is a fake scheduler with two arrays that records what each command does.
type arrays struct {
	*fake
	all []*messages.JobStatus
}

// startArrays returns a scheduler with an array of the elements 0 to 9, some of which are jobs, and one of 5, 8,
// 11, 14, 17 and 20.
func startArrays(t *testing.T) *arrays {
	first := arrayOf("jarr", "2 running, 7 waiting", 9, &messages.ElementsEnded{
		Places: []*messages.IndexRange{{First: 1, Last: 1}}, State: messages.JobState_JOB_STATE_SUCCEEDED,
	})
	first.Record.Spec.Name, first.Counts = "train", &messages.ArrayCounts{Waiting: 7, Running: 2, Succeeded: 1}
	second := arrayOf("jsparse", "6 waiting", 0)
	second.Record.Spec.Name, second.Counts = "sweep-b", &messages.ArrayCounts{Waiting: 6}
	second.Record.Spec.Array.Indices = []*messages.IndexRange{{First: 5, Last: 20, Step: 3}}
	a := &arrays{fake: &fake{changed: make(chan struct{}), seq: 1 << 32}, all: []*messages.JobStatus{
		first, second, job("jone", "running", messages.JobState_JOB_STATE_ACTIVE),
	}}
	for _, index := range []int32{2, 3} {
		e := elementOf("jarr", index, "running", messages.JobState_JOB_STATE_ACTIVE)
		e.Record.Runs, e.Record.Revision, e.Record.Spec.Name = 1, 1, "train"
		a.all = append(a.all, e)
	}
	a.all = append(a.all, elementOf("jarr", 4, "queued", messages.JobState_JOB_STATE_QUEUED))
	a.fake.jobs = a.all
	a.address = serve(t, a)
	return a
}

func (a *arrays) GetJob(_ context.Context, q *messages.GetJob) (*messages.GetJobReply, error) {
	_ = a.heard(q)
	for _, j := range a.all {
		if j.GetRecord().GetId() == q.GetJob() {
			return &messages.GetJobReply{Outcome: ok(), Job: j}, nil
		}
	}
	return nil, api.StatusOf(&messages.Outcome{Code: messages.Code_CODE_NOT_FOUND, Text: "unknown job " + q.GetJob()})
}

func (a *arrays) ListJobs(_ context.Context, q *messages.ListJobs) (*messages.ListJobsReply, error) {
	r := &messages.ListJobsReply{Outcome: ok()}
	for _, j := range a.all {
		of := j.GetRecord().GetSpec().GetElement().GetArray()
		if (of == q.GetArray() || q.GetArray() == "" && q.GetElements()) &&
			(q.GetName() == "" || q.GetName() == j.GetRecord().GetSpec().GetName()) {
			r.Jobs = append(r.Jobs, j)
		}
	}
	return r, a.heard(q)
}

func (a *arrays) History(_ context.Context, q *messages.History) (*messages.HistoryReply, error) {
	return &messages.HistoryReply{Outcome: ok(), Jobs: []*messages.PastJob{{
		Id: "jarr_1", State: messages.JobState_JOB_STATE_SUCCEEDED,
	}}}, a.heard(q)
}

func (a *arrays) ExplainJob(_ context.Context, q *messages.ExplainJob) (*messages.ExplainJobReply, error) {
	return &messages.ExplainJobReply{Outcome: ok(), Text: "waits"}, a.heard(q)
}

// Watch reports each requested job as finished, and ends.
func (a *arrays) Watch(q *messages.Watch, s grpc.ServerStreamingServer[messages.Event]) error {
	_ = a.heard(proto.Clone(q))
	for i, id := range append(q.GetIds(), q.GetArray()) {
		j := job(id, "succeeded", messages.JobState_JOB_STATE_SUCCEEDED)
		if err := s.Send(&messages.Event{Seq: uint64(i), Text: id, Job: j}); err != nil {
			return err
		}
	}
	if err := s.Send(&messages.Event{Seq: 1 << 32, Synced: true}); err != nil {
		return err
	}
	return api.StatusOf(&messages.Outcome{Code: messages.Code_CODE_NOT_ALLOWED, Text: "no more"})
}

func (a *arrays) ReadLogs(q *api.ReadLogs, _ grpc.ServerStreamingServer[api.LogPart]) error {
	return a.heard(q)
}

func (a *arrays) Exec(s grpc.BidiStreamingServer[api.ExecIn, api.ExecOut]) error {
	in, err := s.Recv()
	if err != nil {
		return err
	}
	array, index, _ := messages.ArrayOf(in.GetJob())
	if _, err := a.GetJob(s.Context(), &messages.GetJob{Job: in.GetJob()}); err != nil &&
		(array != "jarr" || index > 9) && (array != "jsparse" || index > 20) {
		return err
	}
	_ = a.heard(in)
	return s.Send(&api.ExecOut{End: &api.ExecEnd{}})
}

// namedIn returns the jobs in requests of one type.
func namedIn[M proto.Message](of func(M) []string) func(*arrays, result) []string {
	return func(a *arrays, _ result) (all []string) {
		for _, m := range told[M](a.fake) {
			all = append(all, of(m)...)
		}
		return all
	}
}

// byField returns the jobs of requests with a job field.
func byField[M interface {
	proto.Message
	GetJob() string
}](a *arrays, r result) []string {
	return namedIn(func(m M) []string { return []string{m.GetJob()} })(a, r)
}

// written returns the jobs in the output, whose lines begin with a number or ID.
func written(_ *arrays, r result) (all []string) {
	for line := range strings.Lines(r.out) {
		word := strings.FieldsFunc(line, func(c rune) bool { return c == ' ' || c == '|' || c == '\n' })[0]
		word = strings.TrimPrefix(word, "JobId=")
		if _, task, is := strings.Cut(line, " ArrayTaskId="); is && !strings.Contains(strings.Fields(task)[0], "-") {
			word += "_" + strings.Fields(task)[0]
		}
		for _, id := range []string{"jarr", "jsparse"} {
			word = strings.Replace(word, messages.NumericID(id), id, 1)
		}
		all = append(all, word)
	}
	return all
}

// scopeVerb is a command with a job argument.
type scopeVerb struct {
	name string
	args string // JOB is replaced by the scope
	one  bool   // it accepts only one job
	acts func(*arrays, result) []string
}

func scopeVerbs() []scopeVerb {
	watched := namedIn(func(q *messages.Watch) []string {
		return slices.DeleteFunc(slices.Clone(q.GetIds()), func(id string) bool { return id == "-" })
	})
	after := namedIn(func(q *messages.Submit) (all []string) {
		for _, w := range q.GetSpec().GetAfter() {
			all = append(all, w.GetJob())
		}
		return all
	})
	again := namedIn(func(q *messages.Submit) []string { // requeue of an element submits an array with only this element
		return []string{fmt.Sprintf("jarr_%d", q.GetSpec().GetArray().Index(0))}
	})
	return []scopeVerb{
		{"cancel", "cancel JOB", false, byField[*messages.Cancel]}, {"hold", "hold JOB", false, byField[*messages.Hold]},
		{"release", "release JOB", false, byField[*messages.Hold]},
		{"priority", "priority JOB 7", false, byField[*messages.Update]},
		{"update", "update JOB --time-limit 2h", false, byField[*messages.Update]},
		{"get", "get jobs JOB -q", false, written}, {"wait", "wait -q JOB", false, watched},
		{"watch", "watch JOB", false, watched}, {"events", "events JOB", false, watched},
		{"submit --after", "submit --image host --cpu 1 --after JOB:any -- true", false, after},
		{"submit --from", "submit --from JOB", true, again},
		{"describe", "describe job JOB", true, namedIn(func(q *messages.GetJob) []string {
			return map[bool][]string{true: {q.GetJob()}}[q.GetAttempts()]
		})},
		{"explain", "explain JOB", true, byField[*messages.ExplainJob]},
		{"logs", "logs -f JOB", true, byField[*api.ReadLogs]}, {"attach", "attach JOB", true, byField[*api.ReadLogs]},
		{"exec", "exec JOB:0 -- true", true, byField[*api.ExecIn]}, {"cp", "cp JOB:0:x /nowhere", true, byField[*api.ExecIn]},
		{"port-forward", "port-forward JOB 0:1", true, byField[*api.ExecIn]},
		{"scancel", "slurm scancel JOB", false, byField[*messages.Cancel]},
		{"scancel -t", "slurm scancel -t PD,R JOB", false, byField[*messages.Cancel]},
		{"scontrol hold", "slurm scontrol hold JOB", false, byField[*messages.Hold]},
		{"scontrol uhold", "slurm scontrol uhold JOB", false, byField[*messages.Hold]},
		{"scontrol release", "slurm scontrol release JOB", false, byField[*messages.Hold]},
		{"scontrol update", "slurm scontrol update JobId=JOB Priority=7", false, byField[*messages.Update]},
		{"scontrol show", "slurm scontrol -o show job JOB", false, written},
		{"squeue", "slurm squeue -h -r -t all -o %i -j JOB", false, written},
		{"sbatch", "slurm sbatch -d afterany:JOB --wrap true", false, after},
		{"srun", "slurm srun --jobid JOB true", true, byField[*api.ExecIn]},
	}
}

// drawnScope is a scope with its expected elements.
type drawnScope struct {
	word, array string
	indices     []int32 // sorted; all of them mean the array itself
}

// drawScope draws the indices, and then how they are written: single, as ranges, with steps, or repeated.
func drawScope(t *rapid.T) drawnScope {
	s := drawnScope{array: rapid.SampledFrom([]string{"jarr", "jsparse"}).Draw(t, "array")}
	has := map[string][]int32{"jarr": {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, "jsparse": {5, 8, 11, 14, 17, 20}}[s.array]
	name := map[string]string{"jarr": "train", "jsparse": "sweep-b"}[s.array]
	base := rapid.SampledFrom([]string{s.array, name}).Draw(t, "base")
	var parts []string
	named := map[int32]bool{}
	for range rapid.IntRange(1, 3).Draw(t, "parts") {
		from := rapid.IntRange(0, len(has)-1).Draw(t, "from")
		to := rapid.IntRange(from, len(has)-1).Draw(t, "to")
		stride := rapid.IntRange(1, 3).Draw(t, "stride")
		for k := from; k <= to; k += stride {
			named[has[k]] = true
		}
		step := int32(stride) * (has[1] - has[0])
		switch {
		case from == to:
			parts = append(parts, fmt.Sprint(has[from]))
		case step == 1:
			parts = append(parts, fmt.Sprintf("%d-%d", has[from], has[to]))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d:%d", has[from], has[to], step))
		}
	}
	for _, index := range has {
		if named[index] {
			s.indices = append(s.indices, index)
		}
	}
	s.word = base + rapid.SampledFrom([]string{"[", "_["}).Draw(t, "form") + strings.Join(parts, ",") + "]"
	if len(parts) == 1 && !strings.Contains(parts[0], "-") && rapid.Bool().Draw(t, "bare") {
		s.word = base + "_" + parts[0]
	}
	return s
}

// elementsIn returns the elements that a command changed. An array counts as all of its elements.
func elementsIn(a *arrays, ids []string) (all []int32, array string) {
	seen := map[int32]bool{}
	for _, id := range ids {
		of, index, element := messages.ArrayOf(id)
		if array = id; element {
			seen[index], array = true, of
			continue
		}
		for _, j := range a.all {
			if spec := j.GetRecord().GetSpec().GetArray(); j.GetRecord().GetId() == id {
				for place := range spec.Len() {
					seen[spec.Index(place)] = true
				}
			}
		}
	}
	for index := range int32(30) {
		if seen[index] {
			all = append(all, index)
		}
	}
	return all, array
}

// acted returns the number of requested changes.
func (a *arrays) acted() (n int) {
	return len(told[*messages.Cancel](a.fake)) + len(told[*messages.Hold](a.fake)) + len(told[*messages.Update](a.fake)) +
		len(told[*messages.Requeue](a.fake)) + len(told[*messages.Submit](a.fake)) + len(told[*api.ExecIn](a.fake)) +
		len(told[*api.ReadLogs](a.fake)) + len(told[*messages.ExplainJob](a.fake))
}

// does runs a command on a scope with a new record.
func (a *arrays) does(v scopeVerb, word string) result {
	a.mu.Lock()
	a.asked = nil
	a.mu.Unlock()
	var args []string
	for _, arg := range strings.Fields(v.args) {
		args = append(args, strings.Replace(arg, "JOB", word, 1))
	}
	return cli(a.address, args...)
}

// TestScopes checks that every command changes exactly the drawn elements. A command for one job refuses several.
func TestScopes(t *testing.T) {
	a := startArrays(t)
	for _, v := range scopeVerbs() {
		t.Run(v.name, func(t *testing.T) {
			for seed := range 12 {
				s := rapid.Custom(drawScope).Example(seed)
				whole := len(s.indices) == map[string]int{"jarr": 10, "jsparse": 6}[s.array]
				if v.name == "submit --from" && (whole || s.array != "jarr") || v.name == "logs" && whole || v.one && whole {
					continue // other tests cover complete arrays
				}
				if strings.HasPrefix(v.args, "slurm") && seed%2 == 0 {
					s.word = strings.Replace(s.word, s.array, messages.NumericID(s.array), 1)
				}
				r := a.does(v, s.word)
				if v.one && len(s.indices) > 1 {
					if r.code != exit.Misuse || !strings.Contains(r.err, s.word) || a.acted() > 0 {
						t.Errorf("%s takes one job; with %s it ends with %d: %s", v.args, s.word, r.code, r.err)
					}
					continue
				}
				ids := v.acts(a, r)
				got, array := elementsIn(a, ids)
				if v.name == "squeue" || strings.HasPrefix(v.name, "scancel") { // it ignores finished elements
					ended := func(index int32) bool { return s.array == "jarr" && index == 1 }
					got, s.indices = slices.DeleteFunc(got, ended), slices.DeleteFunc(s.indices, ended)
				}
				if !slices.Equal(got, s.indices) || array != s.array {
					t.Errorf("%s with %s acts on %v, want %v (it ends with %d: %s)", v.args, s.word, ids, s.indices, r.code, r.err)
				}
			}
		})
	}
}

// TestScopesRefused checks that every command refuses an invalid scope or an unknown element by name, with code 2.
// Nothing is changed, also not the other named jobs.
func TestScopesRefused(t *testing.T) {
	a := startArrays(t)
	for _, v := range scopeVerbs() {
		for _, word := range []string{
			"jarr_[3-", "jarr[3-5]x", "jarr[]", "jarr_[5-3]", "jarr[a]", "jarr_[9-10]", "jarr_10", "jarr[0-3%2]",
			"jsparse_[5-8]", "train_[12]", "jarr_x", "jone[3]", "nosuch[3]", "jarr_[0-2147483646]",
		} {
			if v.name == "scancel -t" && word == "jarr_x" {
				continue // its arguments are filters too
			}
			r := a.does(v, word)
			named := strings.Contains(r.err, strconv.Quote(word)) || word == "jarr_[3-" // it includes the following text
			if r.code != exit.Misuse || !named || a.acted() > 0 {
				t.Errorf("%s with %s ends with %d, says %q, and does %d things", v.args, word, r.code, r.err, a.acted())
			}
		}
	}
	for _, args := range []string{"cancel jone jarr_[99]", "hold jarr_[3] jarr[", "slurm scancel jone,jarr_[99]",
		"slurm scontrol hold jarr_3 jarr_[1-99]", "requeue jone jarr_[99]"} {
		a.does(scopeVerb{args: args}, "").wants(t, exit.Misuse, "", "jarr")
		if a.acted() > 0 {
			t.Errorf("%s changed something", args)
		}
	}
}

// TestRequeueOfElements checks that running elements are stopped, each by its attempt. The others already wait.
func TestRequeueOfElements(t *testing.T) {
	a := startArrays(t)
	for _, args := range []string{"requeue jarr_[3-6]", "slurm scontrol requeue jarr_[3-6]"} {
		a.does(scopeVerb{args: args}, "").wants(t, 0, "", "")
		asked := told[*messages.Requeue](a.fake)
		if len(asked) != 1 || asked[0].GetJob() != "jarr_3" || asked[0].GetRun() != 1 {
			t.Errorf("%s asks for %v", args, asked)
		}
	}
	a.does(scopeVerb{args: "requeue --hold jarr_[4-5]"}, "").wants(t, 0, "", "")
	if got, _ := elementsIn(a, byField[*messages.Hold](a, result{})); !slices.Equal(got, []int32{4, 5}) {
		t.Errorf("held are %v", got)
	}
}

// TestStatesOfAnArray checks that scancel with a state ends the elements in that state, and not their array.
func TestStatesOfAnArray(t *testing.T) {
	a := startArrays(t)
	a.does(scopeVerb{args: "slurm scancel -t PD jarr"}, "").wants(t, 0, "", "")
	if got, _ := elementsIn(a, byField[*messages.Cancel](a, result{})); !slices.Equal(got, []int32{0, 4, 5, 6, 7, 8, 9}) {
		t.Errorf("ended are %v", got)
	}
}

// TestAccountsOfElements checks that sacct finds finished and unfinished elements.
func TestAccountsOfElements(t *testing.T) {
	a := startArrays(t)
	sacct := func(jobs string) result {
		return a.does(scopeVerb{args: "slurm sacct -n -X -P -o JobID -j JOB"}, jobs)
	}
	n := messages.NumericID("jarr")
	if r := sacct("jarr_[1-3]"); r.code != 0 || sortedLines(r.out) != n+"_1\n"+n+"_2\n"+n+"_3\n" {
		t.Errorf("%d: %s%s", r.code, r.out, r.err)
	}
	sacct(n+"_[2,4],jone").wants(t, 0, n+"_2\n"+n+"_4\n", "")
	sacct("jarr_[").wants(t, exit.Misuse, "", `"jarr_["`)
	sacct("jarr_[11]").wants(t, exit.Misuse, "", "has no element 11")
	sacct("nosuch_[1]").wants(t, exit.Misuse, "", "nosuch")
}
