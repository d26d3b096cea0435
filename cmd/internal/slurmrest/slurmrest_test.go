package slurmrest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/peer"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/server/caller"
	"github.com/yi-json/synapse/server/httpapi"
)

// This file tests the URLs with a fake of the client API.

// The starts of the URLs of the newest version.
const (
	v42  = Prefix + "v0.0.42/"
	db42 = DBPrefix + "v0.0.42/"
)

// service is the fake. It knows the jobs j1, an unfinished one, and j2, a finished one.
type service struct {
	api.UnimplementedSynapseServer
	user     string
	wrong    error
	jobs     []*messages.JobStatus
	sent     *messages.Submit
	changed  *messages.Update
	held     *messages.Hold
	node     *messages.ChangeNode
	canceled []string
}

func (s *service) WhoAmI(context.Context, *api.WhoAmI) (*api.WhoAmIReply, error) {
	return &api.WhoAmIReply{Name: s.user, Cluster: map[bool]string{true: "c1"}[s.user != "anonymous"]}, nil
}

func (s *service) ListJobs(context.Context, *messages.ListJobs) (*messages.ListJobsReply, error) {
	return &messages.ListJobsReply{Jobs: s.jobs}, s.wrong
}

func (s *service) GetJob(_ context.Context, q *messages.GetJob) (*messages.GetJobReply, error) {
	for _, j := range s.jobs {
		if j.GetRecord().GetId() == q.GetJob() {
			whole := &messages.JobStatus{Record: j.Record, Phase: j.Phase, Attempt: &messages.AttemptRecord{
				Places: []*messages.Place{{Node: "n1"}}}}
			return &messages.GetJobReply{Job: whole}, nil
		}
	}
	return nil, api.StatusOf(&messages.Outcome{Code: messages.Code_CODE_NOT_FOUND, Field: "job", Text: "unknown job"})
}

func (s *service) History(context.Context, *messages.History) (*messages.HistoryReply, error) {
	return &messages.HistoryReply{Jobs: []*messages.PastJob{{Id: "j3", Name: "old", Owner: "ann",
		State: messages.JobState_JOB_STATE_SUCCEEDED}}}, s.wrong
}

func (s *service) ListNodes(context.Context, *messages.ListNodes) (*messages.ListNodesReply, error) {
	return &messages.ListNodesReply{Nodes: []*messages.NodeStatus{{Record: &messages.NodeRecord{Id: "n1",
		Announcement: &messages.Announcement{Total: &messages.Resources{MilliCpu: 4000, MemoryBytes: 1 << 30}}}}}}, s.wrong
}

func (s *service) GetQueues(context.Context, *messages.GetQueues) (*messages.GetQueuesReply, error) {
	return &messages.GetQueuesReply{}, s.wrong
}

func (s *service) SubmitScript(_ context.Context, q *messages.Submit) (*messages.SubmitReply, error) {
	s.sent = q
	return &messages.SubmitReply{Job: "j2"}, s.wrong
}

func (s *service) Cancel(_ context.Context, q *messages.Cancel) (*messages.CancelReply, error) {
	s.canceled = append(s.canceled, q.GetJob())
	return &messages.CancelReply{}, s.wrong
}

func (s *service) Update(_ context.Context, q *messages.Update) (*messages.UpdateReply, error) {
	s.changed = q
	return &messages.UpdateReply{}, s.wrong
}

func (s *service) Hold(_ context.Context, q *messages.Hold) (*messages.HoldReply, error) {
	s.held = q
	return &messages.HoldReply{}, s.wrong
}

func (s *service) ChangeNode(_ context.Context, q *messages.ChangeNode) (*messages.ChangeNodeReply, error) {
	s.node = q
	return &messages.ChangeNodeReply{}, s.wrong
}

// jobOn returns a job of the list.
func jobOn(id, phase string, state messages.JobState) *messages.JobStatus {
	j := &messages.JobStatus{Phase: phase, Record: &messages.JobRecord{Id: id, State: state,
		Owner: &messages.Principal{Name: "ann"},
		Spec:  &messages.JobSpec{Name: "one", Gang: &messages.GangSpec{ReplicasMin: 1}}}}
	if state == messages.JobState_JOB_STATE_ACTIVE {
		j.Tasks = 1
	}
	return j
}

// address starts a handler, and returns its URL.
func address(t *testing.T, s *service) string {
	t.Helper()
	if s.user == "" {
		s.user = "ann"
	}
	s.jobs = append(s.jobs, jobOn("j1", messages.PhaseRunning, messages.JobState_JOB_STATE_ACTIVE))
	h := New(Options{Host: "head1", Now: func() time.Time { return time.Unix(1000, 0) }, API: httpapi.New(httpapi.Options{
		Service: &caller.Service{API: s},
		Caller: func(r *http.Request) (*httpapi.Caller, error) {
			if a := r.Header.Get("Authorization"); a != "" && a != "Bearer good" {
				return nil, fmt.Errorf("%w: %w", httpapi.ErrWho, errors.New("token is unknown"))
			}
			return &httpapi.Caller{Peer: peer.Peer{Addr: &net.TCPAddr{}}}, nil
		},
	})})
	on := httptest.NewServer(h)
	t.Cleanup(on.Close)
	return on.URL
}

// serve starts a handler, and returns a function that sends requests with headers "Name: value".
func serve(t *testing.T, s *service) func(method, path, body string, headers ...string) (int, map[string]any) {
	t.Helper()
	url := address(t, s)
	return func(method, path, body string, headers ...string) (int, map[string]any) {
		t.Helper()
		q, err := http.NewRequest(method, url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if body != "" {
			q.Header.Set("Content-Type", "application/json; charset=utf-8")
		}
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			q.Header.Set(name, value)
		}
		answer, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		all := map[string]any{}
		if err == nil {
			err = json.Unmarshal(text, &all)
		}
		if err != nil {
			t.Fatalf("%s %s: %d %v: %s", method, path, answer.StatusCode, err, text)
		}
		return answer.StatusCode, all
	}
}

// at returns a value inside an answer: "jobs.0.name".
func at(in any, path string) any {
	for part := range strings.SplitSeq(path, ".") {
		switch of := in.(type) {
		case map[string]any:
			in = of[part]
		case []any:
			n := int(part[0] - '0')
			if n >= len(of) {
				return nil
			}
			in = of[n]
		default:
			return nil
		}
	}
	return in
}

// TestReads checks each URL that reads.
func TestReads(t *testing.T) {
	ask := serve(t, &service{})
	number := messages.NumericID("j1")
	for _, m := range []struct{ path, value, want string }{
		{v42 + "ping", "pings.0.pinged", "UP"}, {v42 + "ping/", "pings.0.hostname", "head1"},
		{v42 + "ping", "meta.client.user", "ann"}, {v42 + "ping", "meta.slurm.release", "24.11.0"},
		{v42 + "ping", "meta.plugin.type", "openapi/slurmctld"},
		{v42 + "diag", "statistics.jobs_running", "1"}, {v42 + "diag", "statistics.bf_active", "false"},
		{v42 + "jobs", "jobs.0.job_state.0", "RUNNING"}, {v42 + "jobs", "jobs.0.nodes", "n1"},
		{v42 + "jobs?update_time=5&flags=DETAIL", "last_update.number", "1000"},
		{v42 + "jobs", "jobs.1.name", "old"}, {v42 + "job/" + number, "jobs.0.name", "one"},
		{v42 + "job/" + number, "jobs.1", "<nil>"},
		{v42 + "nodes", "nodes.0.name", "n1"}, {v42 + "node/n1", "nodes.0.partitions.0", "all"},
		{v42 + "partitions", "partitions.0.name", "all"},
		{v42 + "partition/all", "partitions.0.nodes.total", "1"},
		{v42 + "reservations", "reservations", "[]"}, {db42 + "jobs", "jobs.0.name", "old"},
		{db42 + "jobs", "jobs.1.name", "one"}, {db42 + "jobs?users=bob", "jobs", "[]"},
		{db42 + "jobs?end_time=9", "jobs.1", "<nil>"},
		{db42 + "job/" + number, "jobs.0.name", "one"},
		{db42 + "job/77", "warnings.0.description", "there is no job 77"},
		{db42 + "jobs", "meta.plugin.type", "openapi/slurmdbd"},
	} {
		status, all := ask("GET", m.path, "")
		if got := fmt.Sprint(at(all, m.value)); status != 200 || got != m.want || len(all["errors"].([]any)) != 0 {
			t.Errorf("%s: %d, %s is %s: %v", m.path, status, m.value, got, all["errors"])
		}
	}
}

// TestVersions checks which keys an object gains and loses in the older versions.
func TestVersions(t *testing.T) {
	ask := serve(t, &service{})
	keys := func(version, path, list string) []string {
		prefix := Prefix
		if strings.HasPrefix(path, "/db") {
			prefix, path = DBPrefix, path[3:]
		}
		_, all := ask("GET", prefix+version+path, "")
		return slices.Sorted(maps.Keys(at(all, list).(map[string]any)))
	}
	older := []string{"+exclusive", "+minimum_switches", "+oversubscribe", "+show_flags", "-priority_by_partition",
		"-required_switches"}
	for _, m := range []struct {
		version, path, object string
		want                  []string
	}{
		{"v0.0.41", "/jobs", "jobs.0", older}, {"v0.0.40", "/jobs", "jobs.0", older},
		{"v0.0.41", "/db/jobs", "jobs.0", []string{"-qosreq", "-restart_cnt"}}, {"v0.0.41", "/nodes", "nodes.0", nil},
		{"v0.0.40", "/nodes", "nodes.0", []string{"-gpu_spec", "-res_cores_per_gpu"}},
		{"v0.0.41", "/partitions", "partitions.0", nil}, {"v0.0.40", "/partitions", "partitions.0", []string{"-select_type"}},
		{"v0.0.41", "/jobs", "jobs.0.job_resources", nil},
		{"v0.0.40", "/jobs", "jobs.0.job_resources", []string{"+allocated_cores", "+allocated_cpus", "+allocated_hosts",
			"+allocated_nodes", "-cpus", "-select_type", "-threads_per_core"}},
		{"v0.0.40", "/nodes", "nodes.0.power", []string{"+current_watts", "+lowest_watts", "+maximum_watts", "+new_job_time",
			"+new_maximum_watts", "+peak_watts", "+state", "+time_start_day", "+total_energy"}},
	} {
		now, then := keys("v0.0.42", m.path, m.object), keys(m.version, m.path, m.object)
		var got []string
		for _, key := range then {
			if !slices.Contains(now, key) {
				got = append(got, "+"+key)
			}
		}
		for _, key := range now {
			if !slices.Contains(then, key) {
				got = append(got, "-"+key)
			}
		}
		if !slices.Equal(got, m.want) {
			t.Errorf("%s of %s differs by %q, not %q", m.object, m.version, got, m.want)
		}
	}
	_, all := ask("GET", "/slurm/v0.0.40/jobs", "")
	if got := at(all, "jobs.0.job_resources.allocated_nodes.0.nodename"); got != "n1" {
		t.Errorf("the node is %v", got)
	}
}

// TestWrites checks the calls that result from a request.
func TestWrites(t *testing.T) {
	s := &service{jobs: []*messages.JobStatus{jobOn("j2", messages.PhaseSucceeded, messages.JobState_JOB_STATE_SUCCEEDED)}}
	ask := serve(t, s)
	job := v42 + "job/" + messages.NumericID("j1")
	status, all := ask("POST", v42+"job/submit", described(
		`"name":"a","begin_time":{"set":true,"number":2000},"deadline":3000,"hold":true,"current_working_directory":"/d"`))
	spec := s.sent.GetSpec()
	number, _ := all["job_id"].(float64)
	if status != 200 || fmt.Sprint(int64(number)) != messages.NumericID("j2") || all["step_id"] != "batch" ||
		spec.GetBeginUnixMs() != 2_000_000 || spec.GetDeadlineUnixMs() != 3_000_000 || !s.sent.GetHold() ||
		spec.GetUser() != messages.UserMe || spec.GetSubmitDir() != "/d" || s.sent.GetRequestId() == "" ||
		at(all, "warnings.0.description") != "Job is in held state, pending scheduler release" {
		t.Errorf("submit: %d %v\n%v", status, all, s.sent)
	}
	status, _ = ask("POST", job, `{"time_limit":{"set":true,"number":9},"priority":4,"begin_time":5,"deadline":7,
		"hold":true}`)
	if c := s.changed; status != 200 || c.GetTimeLimitMs() != 540_000 || c.GetPriority() != 4 ||
		c.GetBeginUnixMs() != 5000 || c.GetDeadlineUnixMs() != 7000 || c.GetJob() != "j1" ||
		s.held.GetJob() != "j1" || s.held.GetRelease() {
		t.Errorf("update: %d %v %v", status, c, s.held)
	}
	s.changed = nil
	if status, _ = ask("POST", job, `{"job":{"hold":false}}`); status != 200 || !s.held.GetRelease() || s.changed != nil {
		t.Errorf("release: %d %v %v", status, s.held, s.changed)
	}
	if status, all = ask("DELETE", job, ""); status != 200 || at(all, "status.0.error.code") != 0. {
		t.Errorf("cancel: %d %v", status, all)
	}
	if status, _ = ask("DELETE", job+"?signal=15", ""); status != 200 || fmt.Sprint(s.canceled) != "[j1 j1]" {
		t.Errorf("cancelled with TERM: %d %v", status, s.canceled)
	}
	finished := v42 + "job/" + messages.NumericID("j2")
	status, all = ask("DELETE", finished, "")
	if status != 200 || len(all["warnings"].([]any)) != 1 || len(s.canceled) != 2 {
		t.Errorf("cancelled when finished: %d %v", status, all)
	}
	ask("POST", v42+"node/n1", `{"state":["RESUME"]}`)
	if s.node.GetNode() != "n1" || s.node.GetVerb() != messages.NodeVerb_NODE_VERB_UNCORDON {
		t.Errorf("resume: %v", s.node)
	}
	ask("POST", v42+"node/n1", `{"state":"DRAIN","reason":"fan","comment":null}`)
	if s.node.GetReason() != "fan" || s.node.GetVerb() != messages.NodeVerb_NODE_VERB_CORDON {
		t.Errorf("drain: %v", s.node)
	}
}

// TestOwner checks whose job results from a submit.
func TestOwner(t *testing.T) {
	for _, m := range []struct{ user, header, wantUser, wantVariable string }{
		{"ann", "ann", messages.UserMe, "ann"}, {"ann", "", messages.UserMe, "ann"}, {"root", "root", "", ""},
		{"anonymous", "bob", "bob", "bob"}, {"anonymous", "", "", ""}, {"anonymous", "root", "", ""},
	} {
		s := &service{user: m.user}
		ask := serve(t, s)
		var headers []string
		if m.header != "" {
			headers = []string{userHeader + ": " + m.header}
		}
		status, all := ask("POST", v42+"job/submit", described(""), headers...)
		if spec := s.sent.GetSpec(); status != 200 || spec.GetUser() != m.wantUser ||
			variable("SLURM_JOB_USER")(spec) != m.wantVariable {
			t.Errorf("%+v: %d %v\n%v", m, status, all["errors"], spec)
		}
	}
}

// TestErrors checks the errors of the client API in Slurm's form, with the HTTP status of the client API.
func TestErrors(t *testing.T) {
	s := &service{}
	ask := serve(t, s)
	job := v42 + "job/" + messages.NumericID("j1")
	for _, m := range []struct {
		code           messages.Code
		status, number int
	}{
		{messages.Code_CODE_INVALID, 400, failParsing}, {messages.Code_CODE_NOT_ALLOWED, 403, accessDenied},
		{messages.Code_CODE_CONFLICT, 409, unspecified}, {messages.Code_CODE_INFEASIBLE, 422, nodesUnavailable},
		{messages.Code_CODE_EXHAUSTED, 429, backoff}, {messages.Code_CODE_UNAVAILABLE, 503, noController},
		{messages.Code_CODE_UNSPECIFIED, 500, unspecified},
	} {
		s.wrong = api.StatusOf(&messages.Outcome{Code: m.code, Field: "spec.queue", Text: "is wrong", Hint: "mend it"})
		status, all := ask("POST", v42+"job/submit", described(""))
		if status != m.status || at(all, "errors.0.error_number") != float64(m.number) ||
			at(all, "errors.0.error") != strerror[m.number] ||
			!strings.Contains(fmt.Sprint(all), "spec.queue: is wrong (mend it)") {
			t.Errorf("%v: %d %v", m.code, status, all["errors"])
		}
	}
	s.wrong = api.StatusOf(&messages.Outcome{Code: messages.Code_CODE_UNAVAILABLE, Text: "no leader"})
	if status, all := ask("GET", v42+"ping", ""); status != 200 || at(all, "pings.0.pinged") != "DOWN" {
		t.Errorf("ping without a leader: %d %v", status, all)
	}
	s.wrong = nil
	for _, m := range []struct {
		method, path, body string
		headers            []string
		status, number     int
	}{
		{"GET", v42 + "jobs", "", []string{tokenHeader + ": good"}, 200, 0},
		{"GET", v42 + "jobs", "", []string{tokenHeader + ": bad"}, 401, authFail},
		{"GET", v42 + "jobs", "", []string{tokenHeader + ": good", "Authorization: Bearer good"}, 401, authFail},
		{"GET", v42 + "jobs", "", []string{userHeader + ": bob"}, 401, authFail},
		{"GET", "/slurm/v0.0.39/jobs", "", nil, 404, unknownURL}, {"GET", "/slurm/jobs", "", nil, 404, unknownURL},
		{"GET", v42 + "job/", "", nil, 404, unknownURL}, {"GET", v42 + "job/1/2", "", nil, 404, unknownURL},
		{"GET", db42 + "ping", "", nil, 404, unknownURL},
		{"GET", v42 + "job/submit", "", nil, 405, unknownMethod},
		{"POST", v42 + "jobs", "{}", nil, 405, unknownMethod},
		{"GET", v42 + "job/5", "", nil, 404, invalidJobID},
		{"GET", v42 + "job/j1", "", nil, 404, invalidJobID},
		{"GET", v42 + "job/5_3", "", nil, 404, invalidJobID}, {"DELETE", job + "_3", "", nil, 404, invalidJobID},
		{"DELETE", job + "?signal=USR1", "", nil, 400, notSupported},
		{"DELETE", job + "?signal=NO", "", nil, 400, failParsing},
		{"GET", v42 + "node/n2", "", nil, 404, invalidNode},
		{"GET", v42 + "partition/x", "", nil, 404, invalidPartition},
		{"GET", db42 + "jobs?start_time=now", "", nil, 400, failParsing},
		{"POST", job, `{}`, nil, 400, invalidQuery}, {"POST", job, `{"partition":"x"}`, nil, 400, notSupported},
		{"POST", job, `{"time_limit":-3}`, nil, 400, failParsing}, {"POST", job, `[]`, nil, 400, failParsing},
		{"POST", job, `{"priority":{"infinite":true}}`, nil, 400, failParsing},
		{"POST", v42 + "node/n1", `{"state":["DRAIN"]}`, nil, 400, failParsing},
		{"POST", v42 + "node/n1", `{"state":["DOWN"],"reason":"x"}`, nil, 400, failParsing},
		{"POST", v42 + "node/n1", `{"weight":3}`, nil, 400, failParsing},
		{"POST", v42 + "node/n2", `{"state":["RESUME"]}`, nil, 404, invalidNode},
		{"POST", v42 + "job/submit", described(`"dependency":"afterok:5"`), nil, 400, failParsing},
		{"POST", v42 + "job/submit", described(`"dependency":"afterok:` + messages.NumericID("j1") + `"`), nil,
			200, 0},
		{"POST", v42 + "job/submit", described(`"memory_per_node":0`), nil, 200, 0},
	} {
		status, all := ask(m.method, m.path, m.body, m.headers...)
		number, _ := at(all, "errors.0.error_number").(float64)
		if status != m.status || int(number) != m.number || number != 0 && (at(all, "errors.0.description") == "" ||
			at(all, "errors.0.error") == nil) || all["meta"] == nil || all["warnings"] == nil {
			t.Errorf("%s %s %s %q: %d %v", m.method, m.path, m.body, m.headers, status, all["errors"])
		}
	}
	if spec := s.sent.GetSpec(); spec.GetEach().GetMemoryBytes() != 1<<30 {
		t.Errorf("all memory of a node is %d bytes", spec.GetEach().GetMemoryBytes())
	}
}
