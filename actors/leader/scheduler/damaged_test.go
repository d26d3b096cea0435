package scheduler

import (
	"slices"
	"testing"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/messages"
)

// TestTakeoverEndsElementsOfLostArray checks a leader that dies after the store deleted an array and before its
// elements were cancelled. The next leader cancels them. It does not cancel other jobs, or elements whose array is live
// or damaged.
func TestTakeoverEndsElementsOfLostArray(t *testing.T) {
	job := func(id string, edit func(*messages.JobSpec)) *messages.JobRecord {
		spec := leadertest.OneGPU()
		edit(spec)
		return &messages.JobRecord{Id: id, Spec: spec, Owner: &messages.Principal{Name: "ann"},
			State: messages.JobState_JOB_STATE_QUEUED}
	}
	element := func(array string, index int32) *messages.JobRecord {
		of := &messages.Element{Array: array}
		return job(messages.ElementID(array, index), func(s *messages.JobSpec) { s.Element = of })
	}
	array := job("lives", func(s *messages.JobSpec) {
		s.Array = &messages.ArraySpec{Indices: []*messages.IndexRange{{Last: 3}}}
	})
	s := newFailedRead(&alarms{}, &seat{}).s
	s.self = leadertest.Peers.Scheduler
	var said []leadertest.Letter
	s.onLoaded(&leadertest.Context{Said: &said}, actors.Loaded{
		Jobs: []*messages.JobRecord{array, element("damaged", 1), element("gone", 1), element("gone", 2),
			element("lives", 1), job("alone", func(*messages.JobSpec) {})},
		Damaged: []actors.Damaged{{Job: "damaged", What: "torn"}},
	})
	var cancelled []string
	for _, l := range said {
		if m, is := l.Message.(*messages.Cancel); is {
			if err := m.Validate(); err != nil {
				t.Error(err)
			}
			cancelled = append(cancelled, m.Job)
		}
	}
	if want := []string{"gone_1", "gone_2"}; !slices.Equal(cancelled, want) {
		t.Errorf("cancelled are %v, want %v", cancelled, want)
	}
}
