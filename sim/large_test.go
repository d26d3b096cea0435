package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file tests a gang whose member list exceeds one message of the link.

// largeGang submits 16,384 tasks to 128 nodes with the longest addresses. Their list, sent entry by entry, would exceed
// the limit of a message.
func largeGang(t *testing.T, earlier bool) *World {
	const machines, each = 128, 128
	o := Options{World: "small", Plain: true, Machines: machines, LongNames: true, Seed: 1, Unchecked: true}
	for i := range machines {
		if earlier && i%8 == 0 {
			o.Earlier = append(o.Earlier, i+1)
		}
	}
	w, err := NewWorld(o)
	if err != nil {
		t.Fatal(err)
	}
	w.RunFor(10 * time.Second)
	w.Submit(&messages.JobSpec{
		Name: "large", Queue: "default", Image: "host", Command: Script(time.Minute, 0),
		Restart: &messages.RestartSpec{},
		Each:    &messages.Resources{MilliCpu: 96_000 / each, MemoryBytes: 1 << 20},
		Gang:    &messages.GangSpec{ReplicasMin: machines * each, ReplicasMax: machines * each},
	})
	return w
}

func running(w *World) (n int) {
	for _, m := range w.machines {
		n += len(m.launcher.order)
	}
	return n
}

// TestNearTheLimit checks that agents which accept a packed list run the gang. If some agents are of an earlier
// version, nothing may be sent that the link would drop, nothing may be committed, and the node list must show why.
func TestNearTheLimit(t *testing.T) {
	w := largeGang(t, false)
	w.RunFor(20 * time.Second)
	if w.gangs != 1 || len(w.violations) > 0 {
		t.Errorf("%d gangs of %d containers ran, violations %v", w.gangs, running(w), w.violations)
	}
	w = largeGang(t, true)
	told := func() bool {
		_, why, _ := w.leader().leader.View(w.at(1).id)
		return strings.Contains(why, "agent is too old for a gang")
	}
	if !w.StepUntil(told, 20*time.Second) {
		t.Error("the node list does not show why the gang waits")
	}
	w.RunFor(20 * time.Second)
	if running(w) != 0 || len(w.violations) > 0 {
		t.Errorf("%d containers exist, violations %v", running(w), w.violations)
	}
}
