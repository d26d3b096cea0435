// This file holds the state of a scenario: the simulated world, the messages and log lines since the last look, and the
// names of jobs and nodes.
package scenario

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/sim"
	"github.com/yi-json/synapse/topology"
)

// stage is one running scenario.
type stage struct {
	w        *sim.World
	machines int
	hosts    int // number of schedulers
	finished bool

	orders map[string]*sim.Order
	names  []string // names of the orders, in order of submit
	specs  map[string]*messages.JobSpec
	owner  map[topology.Token]string // job IDs by attempt

	heard    []heard                  // messages since the last look
	said     []said                   // log lines since the last look
	all      []heard                  // messages about gangs since the beginning
	spoke    map[string]time.Duration // when a node last sent to a scheduler
	deaths   []string
	cut      map[int]bool
	mute     map[int]bool // nodes whose messages are lost
	kept     []sim.Letter
	keeping  string // a kind, "*" for all about gangs, or empty
	losing   *losing
	lastLook time.Duration
	reserves map[int]int
}

// heard is one message.
type heard struct {
	at     time.Duration
	letter sim.Letter
	kind   string
	job    string // ID of its job
	token  topology.Token
}

// said is one log line.
type said struct{ who, text string }

// losing describes the messages that the network must lose.
type losing struct {
	kinds []string
	node  int
	left  int
}

// world builds the cluster and waits until every node has joined.
func (s *stage) world(l commandLine) string {
	constants := actors.DefaultConstants()
	for _, assignment := range l.list("constants") {
		l.must(sim.SetConstant(&constants, assignment))
	}
	s.machines, s.hosts = l.number("machines", 2), l.number("schedulers", 1)
	o := sim.Options{World: "small", Plain: true, Machines: s.machines, Schedulers: s.hosts, Constants: &constants,
		PerRack: l.number("rack", 8), Seed: uint64(l.number("seed", 1))}
	for _, text := range strings.Split(l.word("gpus", "8"), ",") {
		n, err := strconv.Atoi(text)
		l.must(err)
		o.GPUs = append(o.GPUs, n)
	}
	if n := l.number("uids", 0); n > 0 {
		o.UIDs = topology.UIDRange{First: 2_000_000, Last: 2_000_000 + uint32(n) - 1}
	}
	settings := policy.OnlyFIFO()
	if l.word("order", "expected") == "expected" {
		settings = policy.DefaultSettings()
		settings.KeepMost = l.time("keep-most", settings.KeepMost)
	}
	settings.DefaultLimit = l.time("default-limit", 0)
	o.Settings = &settings
	o.Checks = l.has("checks")
	if n := l.number("earlier", 0); n > 0 {
		o.Earlier = []int{n}
	}
	w, err := sim.NewWorld(o)
	l.must(err)
	s.w, s.orders, s.specs = w, map[string]*sim.Order{}, map[string]*messages.JobSpec{}
	s.owner, s.spoke, s.reserves = map[topology.Token]string{}, map[string]time.Duration{}, map[int]int{}
	s.cut, s.mute = map[int]bool{}, map[int]bool{}
	w.OnLetter(s.onLetter)
	w.OnLine(s.onLine)
	if l.has("cold") {
		return ""
	}
	joined := func() bool {
		for i := range s.machines {
			if w.NodeState(i+1) != "member" {
				return false
			}
		}
		return true
	}
	if !w.StepUntil(joined, time.Minute) {
		return "not ready within a minute\n" + strings.Join(w.Recent(), "\n")
	}
	w.RunFor(100 * time.Millisecond) // the first heartbeats
	s.heard, s.said, s.lastLook = nil, nil, w.Now()
	return ""
}

// onLetter records a message that is sent.
func (s *stage) onLetter(l sim.Letter) {
	h := heard{at: s.w.Now(), letter: l, kind: kindOf(l.Message)}
	switch m := l.Message.(type) {
	case interface{ GetOrder() *messages.Order }:
		h.job, h.token = m.GetOrder().GetJob(), messages.FromToken(m.GetOrder().GetToken())
	case interface{ GetOrigin() *messages.Origin }:
		h.job, h.token = m.GetOrigin().GetJob(), messages.FromToken(m.GetOrigin().GetToken())
	}
	if h.job != "" {
		s.owner[h.token] = h.job
		s.all = append(s.all, h)
	}
	if n := numberOf(l.From); n > 0 && !s.cut[n] && !s.mute[n] {
		s.spoke[l.From+l.To] = h.at
	}
	if h.kind == "Reserve" {
		s.reserves[numberOf(l.To)]++
	}
	if s.keeping == h.kind || s.keeping == "*" && h.job != "" {
		s.kept = append(s.kept, l)
	}
	s.heard = append(s.heard, h)
}

var dead = regexp.MustCompile(`REAPER: Node (\S+) is DEAD`)

// onLine records a log line for operators. It omits lines of the simulated world.
func (s *stage) onLine(who, text string) {
	if strings.HasPrefix(text, "***") {
		return
	}
	s.said = append(s.said, said{who, text})
	if m := dead.FindStringSubmatch(text); m != nil {
		silence := s.w.Now() - s.spoke["node-"+m[1]+who]
		verdict := "10.0 to 10.5 s after its last word"
		if silence < 10*time.Second || silence > 10501*time.Millisecond {
			verdict = silence.String() + " after its last word"
		}
		s.deaths = append(s.deaths, s.plain(m[1])+": "+verdict)
	}
}

func kindOf(m messages.Message) string { return string(m.ProtoReflect().Descriptor().Name()) }

// numberOf returns a node's number by its address, or 0 for any other address.
func numberOf(address string) int {
	digits, ok := strings.CutPrefix(address, "node-n")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil {
		return 0
	}
	return n
}

var nodeID = regexp.MustCompile(`(?:node-)?\bn0*([1-9][0-9]*)\b`)
var jobID = regexp.MustCompile(`\bj[0-9]{6}\b`)

// plain replaces IDs by the names of the scenario.
func (s *stage) plain(text string) string {
	text = nodeID.ReplaceAllString(text, "n$1")
	return jobID.ReplaceAllStringFunc(text, s.nameOf)
}

// nameOf returns the name under which a job was submitted. An ID without an acknowledged submit belongs to the only job
// that waits for its answer.
func (s *stage) nameOf(id string) string {
	var untold []string
	for _, name := range s.names {
		switch s.orders[name].ID() {
		case id:
			return name
		case "":
			untold = append(untold, name)
		}
	}
	if len(untold) == 1 && id != "" {
		return untold[0]
	}
	return id
}

// commandLine holds one command with its words.
type commandLine struct {
	t *testing.T
	d *datadriven.TestData
}

func (l commandLine) must(err error) {
	if err != nil {
		l.d.Fatalf(l.t, "%v", err)
	}
}

// words returns the words without a value.
func (l commandLine) words() []string {
	var out []string
	for _, a := range l.d.CmdArgs {
		if len(a.Vals) == 0 {
			out = append(out, a.Key)
		}
	}
	return out
}

// first returns the word at a position, which must exist.
func (l commandLine) first(place int) string {
	w := l.words()
	if len(w) <= place {
		l.d.Fatalf(l.t, "%s wants a word more", l.d.Cmd)
	}
	return w[place]
}

func (l commandLine) machine(place int) int {
	n, err := strconv.Atoi(l.first(place))
	l.must(err)
	return n
}

func (l commandLine) span(place int) time.Duration {
	d, err := time.ParseDuration(l.first(place))
	l.must(err)
	return d
}

func (l commandLine) has(word string) bool { return slices.Contains(l.words(), word) }

func (l commandLine) word(key, otherwise string) string {
	if v := l.list(key); len(v) > 0 {
		return v[0]
	}
	return otherwise
}

func (l commandLine) list(key string) []string {
	for _, a := range l.d.CmdArgs {
		if a.Key == key {
			return a.Vals
		}
	}
	return nil
}

func (l commandLine) number(key string, otherwise int) int {
	text := l.word(key, "")
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	l.must(err)
	return n
}

func (l commandLine) fraction(key string) float64 {
	f, err := strconv.ParseFloat(l.word(key, "0"), 64)
	l.must(err)
	return f
}

func (l commandLine) time(key string, otherwise time.Duration) time.Duration {
	text := l.word(key, "")
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	l.must(err)
	return d
}

// order returns the job with this name.
func (s *stage) order(l commandLine, name string) *sim.Order {
	o := s.orders[name]
	if array, index, ok := strings.Cut(name, "_"); o == nil && ok && s.orders[array] != nil {
		return s.orders[array].Element(index)
	}
	if o == nil {
		l.d.Fatalf(l.t, "no job was submitted as %s", name)
	}
	return o
}

func (s *stage) play(t *testing.T, l commandLine) string {
	t.Helper()
	if s.w == nil && l.d.Cmd != "world" {
		l.d.Fatalf(t, "a scenario begins with world")
	}
	do, known := s.commands()[l.d.Cmd]
	if !known {
		l.d.Fatalf(t, "there is no command %s", l.d.Cmd)
	}
	out := do(l)
	if out != "" && !strings.HasSuffix(out, "\n") {
		out += "\n"
	}
	return out
}

// commands returns the functions of all commands.
func (s *stage) commands() map[string]func(commandLine) string {
	return map[string]func(commandLine) string{
		"world": s.world, "run": s.run, "elapsed": s.elapsed, "until": s.until, "never": s.never,
		"queues": s.queues, "submit": s.submit, "again": s.again, "cancel": s.cancel, "hold": s.hold, "release": s.release,
		"requeue": s.requeue, "checkpoint": s.checkpoint, "update": s.update, "break": s.breakJob,
		"note": s.change(messages.NodeVerb_NODE_VERB_NOTE), "dry-run": s.dryRun,
		"drain": s.change(messages.NodeVerb_NODE_VERB_DRAIN), "cordon": s.change(messages.NodeVerb_NODE_VERB_CORDON),
		"uncordon": s.change(messages.NodeVerb_NODE_VERB_UNCORDON), "remove": s.change(messages.NodeVerb_NODE_VERB_REMOVE),
		"crash": s.crash, "pause": s.pause, "usurp": s.usurp, "power": s.power, "cut": s.cutOff, "mend": s.mend,
		"one-way": s.oneWay, "lose": s.lose, "hostile": s.hostile, "store-away": s.storeAway, "clocks": s.clocks,
		"backup": s.backUp, "restore": s.restore, "accept-loss": s.acceptLoss, "damage": s.damage, "prune": s.prune,
		"disk-full": s.breakDisk(true), "disk-fails": s.breakDisk(false), "disk-stalls": s.stallDisk, "tear": s.tear,
		"gpu-fault": s.gpuFault, "gpu-mend": s.gpuMend, "unwell": s.ail(true), "well": s.ail(false),
		"clone": s.clone, "foreign": s.foreign, "arm": s.arm, "lie": s.lie, "rebuild": s.rebuild, "keep": s.keep,
		"users": s.users, "replay": s.replay,
		"letters": s.letters, "lines": s.lines, "processes": s.processes, "told": s.told, "uids": s.uids, "ledger": s.ledger,
		"job": s.job, "nodes": s.nodes,
		"explain": s.explain, "attempts": s.attempts, "evidence": s.evidence, "ran": s.ran, "tokens": s.tokens,
		"deaths": s.died, "waits": s.waits, "reserves": s.reserved, "ids": s.ids, "counted": s.counted, "finish": s.finish,
	}
}

// violations returns the violations, one per line.
func (s *stage) violations() string {
	found := s.w.Violations()
	if len(found) == 0 {
		return ""
	}
	out := fmt.Sprintf("violations=%d\n", len(found))
	for _, v := range found {
		out += s.plain(v.Invariant+": "+v.Text) + "\n"
	}
	return out
}
