package query

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// fake answers the requests of Place, and counts them.
type fake struct {
	api.SynapseClient
	nodes  []*messages.NodeStatus
	jobs   map[string]*messages.JobStatus
	wrong  error
	asked  int
	listed int
}

func (f *fake) ListNodes(context.Context, *messages.ListNodes, ...grpc.CallOption) (*messages.ListNodesReply, error) {
	f.listed++
	return &messages.ListNodesReply{Nodes: f.nodes}, f.wrong
}

func (f *fake) GetJob(_ context.Context, q *messages.GetJob, _ ...grpc.CallOption) (*messages.GetJobReply, error) {
	f.asked++
	if j := f.jobs[q.GetJob()]; j != nil {
		return &messages.GetJobReply{Job: j}, nil
	}
	return nil, &client.Error{Code: messages.Code_CODE_NOT_FOUND}
}

// running returns a job of a list, without its places.
func running(n int) *messages.JobStatus {
	id := fmt.Sprintf("j%d", n)
	return &messages.JobStatus{
		Record:  &messages.JobRecord{Id: id, State: messages.JobState_JOB_STATE_ACTIVE, Runs: 2},
		Attempt: &messages.AttemptRecord{Job: id, Token: &messages.Token{Epoch: 3, Counter: uint64(n)}}, Tasks: 2,
	}
}

// TestPlaceByLedgers checks that a long list of running jobs costs one request for the nodes, that an allocation of an
// earlier attempt is not shown, and that a job without an allocation stays in the list.
func TestPlaceByLedgers(t *testing.T) {
	of := func(node string, all ...*messages.SliceReport) *messages.NodeStatus {
		return &messages.NodeStatus{Record: &messages.NodeRecord{Id: node}, Ledger: &messages.LedgerReport{Slices: all}}
	}
	var jobs []*messages.JobStatus
	var one, two []*messages.SliceReport
	for i := range singly + 1 {
		j := running(i)
		jobs = append(jobs, j)
		slice := &messages.SliceReport{Job: j.GetRecord().GetId(), Token: j.GetAttempt().GetToken()}
		switch i {
		case 0: // only its earlier attempt is known
			slice.Token = &messages.Token{Epoch: 2, Counter: 0}
		case 1:
			two = append(two, slice)
		}
		one = append(one, slice)
	}
	f := &fake{nodes: []*messages.NodeStatus{of("n1", one...), of("n2", two...)}}
	if err := Place(t.Context(), client.Over(f), jobs); err != nil || f.listed != 1 || f.asked != 0 {
		t.Fatalf("%v, %d lists, %d jobs", err, f.listed, f.asked)
	}
	nodes := func(j *messages.JobStatus) (all []string) {
		for _, p := range j.GetAttempt().GetPlaces() {
			all = append(all, p.GetNode())
		}
		return all
	}
	for i, want := range []string{"[]", "[n1 n2]", "[n1]"} {
		if got := fmt.Sprint(nodes(jobs[i])); got != want {
			t.Errorf("job %d is on %s, not %s", i, got, want)
		}
	}
	f.wrong = &client.Error{Code: messages.Code_CODE_NOT_ALLOWED}
	if err := Place(t.Context(), client.Over(f), jobs); err != nil {
		t.Errorf("without the right to see nodes: %v", err)
	}
	f.wrong = &client.Error{Code: messages.Code_CODE_UNAVAILABLE}
	if err := Place(t.Context(), client.Over(f), jobs); err == nil {
		t.Error("a failed request is not reported")
	}
}

// TestPlaceSingly checks that few jobs are read with their ranks, and that a job that is gone stays as it was listed.
func TestPlaceSingly(t *testing.T) {
	whole := running(1)
	whole.Attempt.Places = []*messages.Place{{Node: "n1", Rank: 1}}
	jobs := []*messages.JobStatus{running(1), running(2)}
	f := &fake{jobs: map[string]*messages.JobStatus{"j1": whole}}
	if err := Place(t.Context(), client.Over(f), jobs); err != nil || f.listed != 0 {
		t.Fatalf("%v, %d lists", err, f.listed)
	}
	if jobs[0].GetAttempt().GetPlaces()[0].GetRank() != 1 || jobs[1].GetRecord().GetId() != "j2" {
		t.Errorf("placed: %v", jobs)
	}
}
