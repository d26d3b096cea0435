// This file holds the commands for faults in a scenario, and for messages that are kept, lost or delivered again.
package scenario

import (
	"slices"
	"strings"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/sim"
)

func (s *stage) breakJob(l commandLine) string {
	s.w.BreakJob(s.order(l, l.first(0)))
	return ""
}

func (s *stage) crash(l commandLine) string {
	if l.first(0) == "leader" {
		s.w.CrashLeader()
	} else {
		s.w.CrashAgent(l.machine(1))
	}
	return ""
}

func (s *stage) pause(l commandLine) string {
	if l.first(0) == "leader" {
		s.w.PauseLeader(l.span(1))
	} else {
		s.w.PauseAgent(l.machine(1), l.span(2))
	}
	return ""
}

func (s *stage) usurp(commandLine) string {
	if !s.w.Usurp() {
		return "nobody else can lead"
	}
	return ""
}

func (s *stage) power(l commandLine) string {
	away := time.Duration(0)
	if len(l.words()) > 1 {
		away = l.span(1)
	}
	s.w.PowerLoss(l.machine(0), away)
	return ""
}

func (s *stage) cutOff(l commandLine) string {
	n := l.machine(0)
	if !s.cut[n] {
		s.cut[n] = true
		s.w.Cut(n)
	}
	return ""
}

func (s *stage) mend(l commandLine) string {
	s.mendOne(l.machine(0))
	return ""
}

func (s *stage) mendOne(n int) {
	if s.cut[n] {
		delete(s.cut, n)
		s.w.Mend(n)
	}
}

func (s *stage) oneWay(l commandLine) string {
	s.mute[l.machine(0)] = l.first(1) == "from"
	s.w.CutOneWay(l.machine(0), l.first(1) == "to", l.span(2))
	return ""
}

// lose makes the network lose some messages of one kind.
func (s *stage) lose(l commandLine) string {
	if len(l.words()) == 0 {
		s.w.Lose(nil)
		return ""
	}
	s.losing = &losing{kinds: strings.Split(l.first(0), ","), node: l.number("node", 0), left: l.number("count", 1)}
	s.w.Lose(func(x sim.Letter) bool {
		about := max(numberOf(x.From), numberOf(x.To))
		if s.losing.left == 0 || !slices.Contains(s.losing.kinds, kindOf(x.Message)) ||
			s.losing.node != 0 && about != s.losing.node {
			return false
		}
		s.losing.left--
		return true
	})
	return ""
}

func (s *stage) hostile(l commandLine) string {
	s.w.Hostile(l.fraction("drop"), l.fraction("double"), l.fraction("late"), l.time("most", time.Second))
	return ""
}

func (s *stage) storeAway(l commandLine) string {
	s.w.StoreAway(l.span(0))
	return ""
}

func (s *stage) clocks(l commandLine) string {
	if len(l.words()) > 1 {
		s.w.MoveClock(l.machine(1), l.span(0))
	} else {
		s.w.MoveClocks(l.span(0))
	}
	return ""
}

func (s *stage) backUp(commandLine) string {
	s.w.BackUp()
	return ""
}

// restore restores the store as an operator does. "copied" restores a plain copy of the file. "unnoticed" lets a
// replica take over under a leader that continues.
func (s *stage) restore(l commandLine) string {
	if l.has("unnoticed") {
		s.w.LoseTail()
		return ""
	}
	s.w.Restore(l.has("copied"))
	return ""
}

func (s *stage) prune(commandLine) string {
	s.w.Prune()
	return ""
}

// damage makes records unreadable: of a job, of its attempts, or of a node.
func (s *stage) damage(l commandLine) string {
	if l.first(0) == "node" {
		s.w.DamageNode(l.machine(1))
	} else {
		s.w.DamageJob(s.order(l, l.first(1)), l.first(0) == "attempt")
	}
	return ""
}

func (s *stage) acceptLoss(commandLine) string {
	s.w.AcceptLoss()
	return ""
}

func (s *stage) breakDisk(full bool) func(commandLine) string {
	return func(l commandLine) string {
		s.w.BreakDisk(l.machine(0), full, l.span(1))
		return ""
	}
}

func (s *stage) stallDisk(l commandLine) string {
	s.w.StallDisk(l.machine(0), l.span(1))
	return ""
}

func (s *stage) tear(l commandLine) string {
	s.w.TearDisk(l.machine(0))
	return ""
}

func (s *stage) gpuFault(l commandLine) string {
	s.w.FaultGPU(l.machine(0), l.machine(1))
	return ""
}

func (s *stage) gpuMend(l commandLine) string {
	s.w.MendGPU(l.machine(0), l.machine(1))
	return ""
}

func (s *stage) ail(ails bool) func(commandLine) string {
	return func(l commandLine) string {
		s.w.Ail(l.machine(0), ails)
		return ""
	}
}

func (s *stage) clone(l commandLine) string {
	s.w.Clone(l.machine(0))
	return ""
}

func (s *stage) foreign(l commandLine) string {
	epoch := uint64(l.number("epoch", 9))
	if l.has("ours") {
		s.w.VisitFromDrill(epoch)
	} else {
		s.w.Visit(epoch)
	}
	return ""
}

// lie makes a node's agent lie about the named topics. Without topics, an honest agent replaces it.
func (s *stage) lie(l commandLine) string {
	s.w.Lie(l.machine(0), l.words()[1:]...)
	return ""
}

// users sets the accounts for jobs that a node reports. own=ann,zoe lists accounts for owners of the same name. any
// accepts every account. mapped=max:svc gives one owner one account. earlier reports nothing, as an earlier version
// does.
func (s *stage) users(l commandLine) string {
	var said *messages.NodeUsers
	if !l.has("earlier") {
		said = &messages.NodeUsers{Own: l.list("own"), Any: l.has("any")}
	}
	if owner, account, ok := strings.Cut(l.word("mapped", ""), ":"); ok {
		said.Mapped = []*messages.MappedUser{{Owner: owner, Account: account, Uid: 1500}}
	}
	s.w.Users(l.machine(0), said)
	return ""
}

// rebuild makes a node's next agent announce other memory, in GiB, and labels, or be of an earlier version.
func (s *stage) rebuild(l commandLine) string {
	var labels []*messages.Label
	if shelf := l.word("shelf", ""); shelf != "" {
		labels = append(labels, &messages.Label{Key: "shelf", Value: shelf})
	}
	s.w.Rebuild(l.machine(0), int64(l.number("mem", 0))<<30, l.word("rack", ""), l.has("earlier"), labels...)
	return ""
}

func (s *stage) arm(l commandLine) string {
	s.w.Arm(l.first(0), l.machine(1))
	return ""
}

// keep starts to keep messages for replay. off ends it.
func (s *stage) keep(l commandLine) string {
	if l.has("off") {
		s.keeping = ""
		return ""
	}
	s.kept, s.keeping = nil, "*"
	if w := l.words(); len(w) > 0 {
		s.keeping = w[0]
	}
	return ""
}

// replay delivers all kept messages again to the present receivers at their addresses. "slowly" waits until the effects
// of one message have ended before it sends the next.
func (s *stage) replay(l commandLine) string {
	s.keeping = ""
	pause := 5 * time.Millisecond
	if l.has("slowly") {
		pause = time.Second
	}
	var kinds []string
	for _, k := range s.kept {
		kind := kindOf(k.Message)
		if only := l.words(); len(only) > 0 && only[0] != "slowly" && kind != only[0] {
			continue
		}
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
		s.w.Deliver(k)
		s.w.RunFor(pause)
	}
	slices.Sort(kinds)
	return strings.Join(kinds, " ") + broken(s.violations())
}
