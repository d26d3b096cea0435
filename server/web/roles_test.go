package web

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/server/authn"
	"github.com/yi-json/synapse/server/caller"
	"github.com/yi-json/synapse/server/rights"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file checks the rights of each role in the web UI. Each address is requested as each role, through the real
// Authenticator. Only the table of server/rights may refuse a request.

// question is a request to an address. If it contains JOB, it is made for a job of the user and for one of another
// user.
type question struct {
	query, body string
	needs       []rights.Right // the first missing right refuses; none: any user
	byPage      bool           // the page refuses by the rights that the scheduler names, before it makes the call
}

// decided lists what each address needs. A new address without an entry fails the test.
var decided = map[string][]question{
	"GET /":        {{"", "", nil, false}},
	"GET /app.js":  {{"", "", nil, false}},
	"GET /me":      {{"", "", []rights.Right{rights.Known}, false}},
	"GET /matches": {{"?label=team%3Dvision", "", []rights.Right{rights.ReadJobs}, false}},
	"GET /job":     {{"?id=JOB", "", []rights.Right{rights.ReadJobs}, false}},
	"GET /explain": {{"?id=JOB", "", []rights.Right{rights.ReadJobs}, false}},
	"GET /waiting": {{"", "", []rights.Right{rights.ReadJobs}, false}},
	"GET /queues":  {{"", "", []rights.Right{rights.ReadQueues}, false}},
	"GET /stream":  {{"", "", []rights.Right{rights.ReadJobs, rights.ReadMachines}, false}},
	"GET /nodes":   {{"", "", []rights.Right{rights.ReadJobs, rights.ReadMachines}, false}},
	"GET /logs": {
		{"?id=JOB", "", []rights.Right{rights.ReadLogs}, false},
		{"?id=JOB&rank=1&follow=1", "", []rights.Right{rights.ReadLogs}, false},
	},
	"GET /past": {
		{"?at=1&until=2", "", []rights.Right{rights.ReadJobs, rights.ReadMachines, rights.ReadQueues}, false},
		{"?at=1&until=2&step=1", "", []rights.Right{rights.ReadJobs, rights.ReadMachines, rights.ReadQueues}, false},
	},
	"POST /act": {
		wished("cancel", "JOB", rights.Cancel), wished("hold", "JOB", rights.Hold),
		wished("release", "JOB", rights.Release), wished("requeue", "JOB", rights.Requeue),
		wished("cordon", "n1", rights.Cordon), wished("uncordon", "n1", rights.Cordon), wished("drain", "n1", rights.Drain),
	},
	"POST /check":  {{"", `{"file":"job"}`, []rights.Right{rights.Known, rights.SubmitWeb}, true}},
	"POST /try":    {{"", `{"file":"job"}`, []rights.Right{rights.Submit, rights.SubmitWeb}, true}},
	"POST /submit": {{"", `{"file":"job"}`, []rights.Right{rights.Submit, rights.SubmitWeb}, true}},
	"POST /again":  {{"", `{"of":"JOB"}`, []rights.Right{rights.Submit, rights.SubmitWeb, rights.ReadPrivate}, true}},
}

func wished(verb, of string, needs rights.Right) question {
	return question{"", `{"verb":"` + verb + `","of":"` + of + `","reason":"so"}`, []rights.Right{needs}, false}
}

// counter is a page with a login through the real Authenticator, and a fake scheduler.
type counter struct {
	t    *testing.T
	gate *authn.Authenticator
}

// seat is the page of one user, and the results of its calls.
type seat struct {
	*Page
	outcomes chan error
}

func newCounter(t *testing.T) *counter {
	t.Helper()
	pair, err := identity.NewRoot("c-a", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	by, err := (&identity.Folder{Roots: pair.Chain, Pair: pair}).Certify(identity.RoleScheduler, "s1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	by.Dir = filepath.Join(t.TempDir(), "scheduler")
	if err := by.Create(); err != nil {
		t.Fatal(err)
	}
	c := &counter{t: t}
	c.gate, err = authn.New(authn.Options{
		Folder: by, Job: func(_ context.Context, id string) (*messages.JobRecord, error) {
			owner := strings.TrimPrefix(id, "of-")
			return &messages.JobRecord{Id: id, Owner: &messages.Principal{Name: owner}}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.gate.Close)
	return c
}

// seat returns the page of a user named me. Each is used once, because a stream may watch after its browser has
// closed.
func (c *counter) seat(role identity.Role) seat {
	outcomes := make(chan error, 64)
	service := &caller.Service{
		API: knowing{},
		Calls: []grpc.UnaryServerInterceptor{func(
			ctx context.Context, q any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
		) (any, error) {
			reply, err := c.gate.GuardCall(ctx, q, info, next)
			outcomes <- err
			return reply, err
		}},
		Streams: []grpc.StreamServerInterceptor{func(
			srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler,
		) error {
			err := c.gate.GuardStream(srv, stream, info, next)
			outcomes <- err
			return err
		}},
	}
	me := identity.Peer{Identity: identity.Identity{Cluster: "c-a", Role: role, Name: "me"}}
	page := New(Options{
		Open: true, Answers: func(string) bool { return true }, Files: fakeFiles{},
		API: service.As(peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}, AuthInfo: authn.Proof{Peer: me}}),
	})
	page.o.Open = false // every request has a user
	return seat{outcomes: outcomes, Page: page}
}

// knowing is a scheduler that only knows its callers.
type knowing struct{ api.UnimplementedSynapseServer }

func (knowing) WhoAmI(ctx context.Context, _ *api.WhoAmI) (*api.WhoAmIReply, error) {
	return authn.WhoAmI(ctx), nil
}

// ask requests an address. It returns the HTTP status, the result of the first call, and whether a call was made.
func (c *counter) ask(p seat, pattern, query, body string) (code int, first error, made bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), pace.Of(time.Minute))
	defer cancel()
	method, path, _ := strings.Cut(pattern, " ")
	r := httptest.NewRequestWithContext(ctx, method, "http://head1"+path+query, strings.NewReader(body))
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	if watched(pattern) { // it continues without its watch
		go func() { p.ServeHTTP(answer, r) }()
		select {
		case err := <-p.outcomes:
			return 0, err, true
		case <-ctx.Done():
			return 0, nil, false
		}
	}
	p.ServeHTTP(answer, r)
	for len(p.outcomes) > 0 {
		if err := <-p.outcomes; !made || status.Code(err) == codes.PermissionDenied {
			first, made = err, true
		}
	}
	return answer.Code, first, made
}

// TestEveryAddressIsDecided requests each address as each role, for the user's own job and for another. Only the
// table of rights may refuse. Only users are admitted, and every verb is requested.
func TestEveryAddressIsDecided(t *testing.T) {
	c := newCounter(t)
	asked := map[bool]int{}
	for pattern := range c.seat(identity.RoleAdmin).addresses(nil) {
		if len(decided[pattern]) == 0 {
			t.Errorf("nobody has decided who may ask %s", pattern)
		}
	}
	for verb := range verbs {
		if !strings.Contains(wordsOf(decided["POST /act"]), `"verb":"`+verb+`"`) {
			t.Errorf("nobody has decided who may wish to %s", verb)
		}
	}
	for _, role := range identity.Roles {
		for pattern, all := range decided {
			for _, q := range all {
				for _, owner := range []string{"me", "other"} {
					c.decides(role, pattern, q, owner, asked)
				}
			}
		}
	}
	if asked[true] < 50 || asked[false] < 20 {
		t.Errorf("asked were %d that are allowed and %d that are not", asked[true], asked[false])
	}
}

// watched reports whether an address shows what the watch of the user has, and answers nothing if the watch is refused.
func watched(pattern string) bool { return pattern == "GET /stream" || pattern == "GET /nodes" }

func wordsOf(all []question) (words string) {
	for _, q := range all {
		words += q.body
	}
	return words
}

// decides makes one request as one role, and compares the result with the table.
func (c *counter) decides(role identity.Role, pattern string, q question, owner string, asked map[bool]int) {
	c.t.Helper()
	want := true
	for _, right := range q.needs {
		reach := right.Of(role)
		want = want && (reach == rights.Any || reach == rights.Own && owner == "me")
	}
	asked[want]++
	job := strings.NewReplacer("JOB", "of-"+owner)
	code, err, made := c.ask(c.seat(role), pattern, job.Replace(q.query), job.Replace(q.body))
	refused := status.Code(err) == codes.PermissionDenied || q.byPage && code == http.StatusForbidden
	if refused == want || made != (len(q.needs) > 0) {
		c.t.Errorf("%s: %s %s%s of a job of %s: %v, a call was made: %v; allowed should be %v",
			role, pattern, q.query, q.body, owner, err, made, want)
	}
	if !watched(pattern) && (code == http.StatusForbidden) == want {
		c.t.Errorf("%s: %s %s%s of a job of %s answers %d", role, pattern, q.query, q.body, owner, code)
	}
}

// TestNoAddressForStrangers checks that before login every address except the login page is refused.
func TestNoAddressForStrangers(t *testing.T) {
	d, _ := newDesk(t)
	for pattern := range d.page.addresses(nil) {
		method, path, _ := strings.Cut(pattern, " ")
		want := http.StatusUnauthorized
		if method == http.MethodGet && unlocked[path] != "" {
			want = http.StatusOK
		}
		if answer, _ := d.says(method, path, "", nil); answer.StatusCode != want {
			t.Errorf("%s answers a stranger %s", pattern, answer.Status)
		}
	}
}
