package link

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
)

// This file owns the test that the largest permitted gang starts over a real link, with the longest names of its nodes.

// named returns a name of the greatest length that does not compress well.
func named(kind string, i, bytes int) string {
	name := fmt.Sprintf("%s-%d.", kind, i)
	for n := uint64(i) + 1; len(name) < bytes; n = n*6364136223846793005 + 1442695040888963407 {
		name += fmt.Sprintf("%x", n>>40)
	}
	return name[:bytes]
}

// TestLargestGang checks that a gang with the maximum number of tasks runs on nodes with the longest names and
// addresses. Every task gets the complete list. A gang with one more task is refused at submit.
func TestLargestGang(t *testing.T) {
	const machines = 128
	constants := actors.DefaultConstants()
	// A part is a fifth of the list, because the list of few nodes is short. A busy host needs time for 65,536 actors.
	constants.RosterPart = 16 << 10
	constants.ReserveDeadline, constants.StartDeadline = time.Minute, time.Minute
	constants.ReservationTTL, constants.DeadAfter = 2*time.Minute, time.Minute
	leader, h := leadBy(t, store.NewMemory(), constants)
	var started, wrong atomic.Int64
	for i := range machines {
		p := newHouse(t)
		p.starts = func(m *messages.StartTask) {
			started.Add(1)
			if m.Id.Rank%1024 > 0 {
				return // all tasks get the same list
			}
			meet, err := m.Rendezvous.Unpacked()
			if err != nil || len(meet.Peers) != messages.MaxGangTasks ||
				meet.Peers[m.Id.Rank].Node != m.Node || meet.Address != meet.Peers[0].Address {
				wrong.Add(1)
			}
		}
		o := machineOptions(named("n", i, messages.MaxIDBytes), fmt.Sprintf("m%d", i), h.address)
		p.join(o, constants, &messages.Announcement{
			Total:   &messages.Resources{MilliCpu: messages.MaxGangTasks / machines, MemoryBytes: 1 << 40},
			Place:   []*messages.Label{{Key: "rack", Value: named("r", i, messages.MaxValueBytes)}},
			Address: named("a", i, messages.MaxValueBytes), PortFirst: 20000, PortLast: 20999,
		})
	}
	answers := make(chan heard, 16)
	ear(h.system, "client", func(m heard) { answers <- m })
	ask := func(m any) {
		scheduler, client := actor.NewPID("scheduler", actors.SchedulerPath), actor.NewPID("scheduler", "client")
		h.system.Root.RequestWithCustomSender(scheduler, m, client)
	}
	submit := &messages.Submit{
		Principal: &messages.Principal{Name: "a"}, RequestId: "1", AllowInfeasible: true,
		Spec: &messages.JobSpec{
			Name: "largest", Image: "host", Command: []string{"true"}, Each: &messages.Resources{MilliCpu: 1},
			Gang: &messages.GangSpec{ReplicasMin: messages.MaxGangTasks, ReplicasMax: messages.MaxGangTasks},
		},
	}
	if err := submit.Validate(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the gang is taken", func() bool {
		ask(submit) // a leader that has not started yet does not receive it
		select {
		case answer := <-answers:
			_, taken := answer.message.(*messages.SubmitReply)
			return taken
		case <-time.After(patience):
			return false
		}
	})
	leader.saysWithin(4*patience, "Successfully scheduled Job")
	for limit := time.Now().Add(4 * patience); started.Load() < messages.MaxGangTasks; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%d tasks were started; unsayable %d, full %d", started.Load(), h.of(countUnsayable), h.of(countFull))
		}
	}
	if wrong.Load() > 0 || h.of(countUnsayable)+h.of(countFull) > 0 {
		t.Errorf("%d tasks got a wrong list; unsayable %d, full %d", wrong.Load(), h.of(countUnsayable), h.of(countFull))
	}

	submit.Spec.Gang = &messages.GangSpec{ReplicasMin: messages.MaxGangTasks + 1, ReplicasMax: messages.MaxGangTasks + 1}
	var refusal *messages.FieldError
	err := submit.Validate()
	if !errors.As(err, &refusal) || refusal.Field != "spec.gang.replicas_min" ||
		!strings.Contains(err.Error(), "submit several jobs") {
		t.Errorf("one more task is answered by %v", err)
	}
}
