package supervisor

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/clock"
	"github.com/yi-json/synapse/runtime/carapace"
)

// This file tests a supervisor's reaction to commands of agents, without a process. It covers repeated stops and
// warnings, and both sides of each comparison of times.

// bare is a task that only records its signals and kills.
type bare struct {
	signals []unix.Signal
	kills   int
}

func (b *bare) start() *Exit                                { return nil }
func (b *bare) signal(s unix.Signal)                        { b.signals = append(b.signals, s) }
func (b *bare) killRound()                                  { b.kills++ }
func (b *bare) ending() bool                                { return false }
func (b *bare) verdict() *Exit                              { return &Exit{} }
func (b *bare) exec(carapace.ExecSpec) (execProcess, error) { return nil, context.Canceled }

func newBare(spec Spec) (*keeper, *bare) {
	b := &bare{}
	return &keeper{spec: spec, charge: b, heard: clock.BootNs()}, b
}

// TestGraceBeginsOnce checks that a repeated stop, as from each new agent, never delays the kill. It may bring the kill
// forward.
func TestGraceBeginsOnce(t *testing.T) {
	k, b := newBare(Spec{})
	say := func(grace time.Duration) time.Time {
		k.obey(command{verb: "stop", first: int64(unix.SIGUSR1), second: int64(grace)})
		return k.deadline
	}
	begun := say(time.Hour)
	for _, grace := range []time.Duration{time.Hour, 2 * time.Hour, time.Hour, math.MaxInt64} {
		if again := say(grace); !again.Equal(begun) {
			t.Errorf("a stop of %v ends at %v, and not at %v as before", grace, again, begun)
		}
	}
	if nearer := say(time.Minute); !nearer.Before(begun) {
		t.Errorf("a stop of a minute ends at %v", nearer)
	}
	if b.kills > 0 || !slices.Contains(b.signals, unix.SIGUSR1) || !k.told {
		t.Errorf("%+v, warned %v", b, k.told)
	}
	k.onWake() // before the grace is over
	if b.kills > 0 {
		t.Error("it is killed within its grace")
	}
	k.deadline = time.Now()
	k.onWake()
	if b.kills != 1 || !k.killing {
		t.Errorf("after its grace: %+v", b)
	}
	signals := len(b.signals)
	if say(time.Hour); !k.killing || len(b.signals) != signals {
		t.Error("a stop gives back the grace of what is being killed")
	}
}

// TestStopWithoutGrace checks that a stop with a grace of zero kills at once, and that the default signal is SIGTERM.
func TestStopWithoutGrace(t *testing.T) {
	k, b := newBare(Spec{})
	k.obey(command{verb: "stop"})
	if b.kills != 1 || !slices.Equal(b.signals, []unix.Signal{unix.SIGTERM, unix.SIGCONT}) {
		t.Errorf("%+v", b)
	}
}

// TestWarnedOncePerEnd checks that each end is warned of once, and that no warning follows a stop.
func TestWarnedOncePerEnd(t *testing.T) {
	k, b := newBare(Spec{})
	for _, end := range []int64{1, 1, 2, 1, 2, 3} {
		k.obey(command{verb: "warn", first: int64(unix.SIGUSR2), second: end})
	}
	if len(b.signals) != 3 {
		t.Errorf("three ends are warned of by %v", b.signals)
	}
	k.obey(command{verb: "stop", second: int64(time.Hour)})
	b.signals = nil
	if k.obey(command{verb: "warn", first: int64(unix.SIGUSR2), second: 4}); len(b.signals) > 0 {
		t.Errorf("what stops is warned by %v", b.signals)
	}
}

// TestHeardOnlyGrows checks that a reported time counts only if it is later than the known one and not in the future.
func TestHeardOnlyGrows(t *testing.T) {
	k, _ := newBare(Spec{})
	now := clock.BootNs()
	for _, c := range []struct {
		known, said int64
		counts      bool
	}{
		{now - 9, now - 8, true}, {now - 9, now - 9, false}, {now - 9, now - 10, false},
		{now - 9, now + time.Hour.Nanoseconds(), false},
	} {
		k.heard = c.known
		k.obey(command{verb: "keep", first: c.said})
		if (k.heard == c.said) != (c.counts || c.said == c.known) {
			t.Errorf("%d said where %d is known: %d", c.said-now, c.known-now, k.heard-now)
		}
	}
}

// TestLostAtItsTime checks a task with stopWhenLost. It is stopped with its own signal and grace when the control plane
// has been silent for the given time, and not before.
func TestLostAtItsTime(t *testing.T) {
	hour := time.Hour.Milliseconds()
	spec := Spec{StopWhenLostMs: hour, StopSignal: int(unix.SIGUSR1), GraceMs: hour}
	k, b := newBare(spec)
	k.heard = clock.BootNs() - (time.Hour - time.Minute).Nanoseconds()
	if k.onWake(); k.told || k.due() > fenceTick {
		t.Errorf("a minute before: told to stop %v, next check in %v", k.told, k.due())
	}
	k.heard = clock.BootNs() - time.Hour.Nanoseconds()
	if k.onWake(); !k.told || k.detail == "" || b.kills > 0 || !slices.Contains(b.signals, unix.SIGUSR1) {
		t.Errorf("when it is time: %+v, told to stop %v, %q", b, k.told, k.detail)
	}
	k, _ = newBare(Spec{})
	k.heard = 0
	if k.onWake(); k.told || k.due() != 0 {
		t.Error("a task without stopWhenLost is stopped")
	}
}
