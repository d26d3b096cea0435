package gateway

import (
	"testing"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// TestReachedRank checks which task a request reaches. The caller must belong to the current attempt and be on the
// requesting node. A node name selects its first running task. Tasks of other gangs are never reached.
func TestReachedRank(t *testing.T) {
	token := &messages.Token{Epoch: 2, Counter: 5}
	job := &messages.JobStatus{
		Record: &messages.JobRecord{Id: "job", State: messages.JobState_JOB_STATE_ACTIVE},
		Attempt: &messages.AttemptRecord{Token: token, Places: []*messages.Place{
			{Rank: 0, Node: "n1", Address: "10.0.0.1"}, {Rank: 3, Node: "n2", Address: "10.0.0.2"},
			{Rank: 1, Node: "n2", Address: "10.0.0.2", Exit: &messages.Exit{}}, {Rank: 2, Node: "n2", Address: "10.0.0.2"},
		}},
	}
	for what, c := range map[string]struct {
		asks   string
		rank   int32
		host   string
		token  *messages.Token
		job    string
		ended  bool
		proven bool
		want   int32 // -1: refused
	}{
		"by name":            {"n1", 0, "n2", token, "job", false, true, 2},
		"by address":         {"n1", 0, "10.0.0.2", token, "job", false, true, 2},
		"by rank":            {"n2", 2, ":3", token, "job", false, true, 3},
		"itself":             {"n1", 0, "n1", token, "job", false, true, 0},
		"nobody proves":      {"", 0, "n2", token, "job", false, false, 2},
		"one that has ended": {"n1", 0, ":1", token, "job", false, true, -1},
		"another machine":    {"n1", 0, "n3", token, "job", false, true, -1},
		"no host":            {"n1", 0, "", token, "job", false, true, -1},
		"another's rank":     {"n1", 2, "n2", token, "job", false, true, -1},
		"a rank of none":     {"n1", 9, "n2", token, "job", false, true, -1},
		"a rank, unproven":   {"", 9, "n2", token, "job", false, false, -1},
		"an earlier attempt": {"n1", 0, "n2", &messages.Token{Epoch: 2, Counter: 4}, "job", false, true, -1},
		"no attempt":         {"n1", 0, "n2", nil, "job", false, true, -1},
		"a name of the job":  {"n1", 0, "n2", token, "jo", false, true, -1},
		"an attempt's end":   {"n1", 0, "n2", token, "job", true, true, -1},
	} {
		job.Attempt.End = nil
		if c.ended {
			job.Attempt.End = &messages.End{}
		}
		q := &api.ExecIn{Job: c.job, Rank: c.rank, Host: c.host, Attempt: c.token}
		got, err := reachedRank(job, q, c.asks, c.proven)
		if (err != nil) != (c.want < 0) || err == nil && got != c.want {
			t.Errorf("%s: rank %d, %v", what, got, err)
		}
	}
}

// TestPlaceOf checks that a process can only run in an existing rank of a running attempt.
func TestPlaceOf(t *testing.T) {
	active, over := messages.JobState_JOB_STATE_ACTIVE, messages.JobState_JOB_STATE_SUCCEEDED
	gone, end := &messages.Exit{}, &messages.End{}
	places := []*messages.Place{{Rank: 0, Node: "n1"}, {Rank: 1, Node: "n2", Exit: gone}, {Rank: 2, Node: "n3"}}
	for what, c := range map[string]struct {
		state  messages.JobState
		places []*messages.Place
		end    *messages.End
		rank   int32
		node   string // empty: refused
	}{
		"the first": {active, places, nil, 0, "n1"}, "the last": {active, places, nil, 2, "n3"},
		"one that has ended": {active, places, nil, 1, ""}, "one beyond": {active, places, nil, 3, ""},
		"one below": {active, places, nil, -1, ""}, "before there is one": {active, nil, nil, 0, ""},
		"an attempt that has ended": {active, places, end, 0, ""}, "a job that is over": {over, places, nil, 0, ""},
	} {
		token := &messages.Token{Epoch: 2, Counter: 5}
		task, node, err := placeOf(&messages.JobStatus{
			Record:  &messages.JobRecord{Id: "job", State: c.state},
			Attempt: &messages.AttemptRecord{Token: token, Places: c.places, End: c.end},
		}, c.rank)
		if (err == nil) != (c.node != "") || string(node) != c.node ||
			err == nil && (task.Rank != c.rank || task.Token.Counter != token.Counter) {
			t.Errorf("%s: %v on %q, %v", what, task, node, err)
		}
	}
}
