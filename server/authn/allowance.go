package authn

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/server/audit"
	"github.com/yi-json/synapse/server/rights"
)

// This file owns what one identity may ask for. What somebody overdraws is his own loss: he is refused, and told when
// to come again, while everybody else is served as before. Without it one pool of streams and one disk of the audit
// were everybody's, and whoever was fastest had them.

// Allowance bounds what each identity may have. A rate may be exceeded for as long as what was not used of it before
// lasts, up to its burst.
type Allowance struct {
	Calls       Rate // of all calls
	Changes     Rate // of those that change something, which cost a place on a disk
	Submits     Rate // of those that bring a job; of none a second: any number, as of admins
	Open        int  // of calls and streams that are open at the same time, those of all
	Coming      int  // calls of which the request has yet to come
	Share       int  // each may have this part of the places that are still free, so that some stay free for the next
	Wide        int  // watches of everything that are open: each change costs as much as all of them together
	WideOfAll   int  // and of all; each may have a Wide-th of those still free, but leastWide in any case
	Connections int
	Refusals    int // of its calls that the audit has one by one, in a minute; those beyond are counted in one line
}

// Rate is so many a second, and so many at once.
type Rate struct{ PerSecond, Burst int }

// DefaultAllowance is far above what a person and their scripts do, and below what a scheduler can.
func DefaultAllowance() Allowance {
	return Allowance{
		Calls: Rate{400, 4000}, Changes: Rate{200, 2000}, Submits: DefaultSubmits(), Open: 2048, Share: 16,
		Coming: 64, Wide: 8, WideOfAll: 72, Connections: 512, Refusals: 30,
	}
}

// DefaultSubmits bounds the jobs that one identity may bring: an array is one of them.
func DefaultSubmits() Rate { return Rate{50, 2000} }

// cost is the time in which there is one.
func (r Rate) cost() time.Duration { return time.Second / time.Duration(max(1, r.PerSecond)) }

// renewalCost and renewalBurst bound how often one machine's certificate is signed: an agent asks once in 16 hours, and
// each time costs a signature and a line of the audit.
const (
	renewalCost  = time.Minute
	renewalBurst = 10
)

// strangers is the purse of all of whom nothing is proved, and strangersRefusals how many refusals of theirs have lines
// of their own in a minute: their addresses cost them nothing.
const (
	strangers         = ""
	strangersRefusals = 120
)

// tallyFor is after which time refusals that were only counted are told in a line.
const tallyFor = time.Minute

// leastCallers is the number of connections that one identity may always call over, however many others have.
const leastCallers = 16

// leastWide is the number of watches of everything that one identity may always have open, however many others have.
const leastWide = 2

// maxPurses bounds the identities that are remembered. One that has something open is not forgotten; that is bounded,
// too.
const maxPurses = 1024

// pace measures what was taken of a rate: due is when all of it would have come at that rate.
type pace struct{ due time.Time }

// take takes one of what comes once in a cost, or answers how long it is until there is one.
func (p *pace) take(cost time.Duration, burst int, now time.Time) (wait time.Duration) {
	due := p.due
	if due.Before(now) {
		due = now
	}
	if over := due.Add(cost).Sub(now) - cost*time.Duration(burst); over > 0 {
		return over
	}
	p.due = due.Add(cost)
	return 0
}

// purse counts what one identity has taken of its allowance.
type purse struct {
	calls, changes    pace
	submits, renewals pace
	open, connections int
	wide, coming      int
	callers           int
	bulk              pace      // of bytes
	told              int       // refusals written in this minute
	since             time.Time // when it began
	tally             uint64    // refusals since then that were counted alone
	last              audit.Line
}

// owes is for how long something is left to remember; 0: nothing is.
func (p *purse) owes(now time.Time) time.Duration {
	least := p.since.Add(tallyFor)
	for _, at := range []pace{p.calls, p.changes, p.submits, p.bulk, p.renewals} {
		if at.due.After(least) {
			least = at.due
		}
	}
	return max(0, least.Sub(now))
}

// isOpen reports whether somebody has something now, or an account of refusals that is yet to be written.
func (p *purse) isOpen() bool {
	return p.open+p.wide+p.coming+p.callers+p.connections > 0 || p.tally > 0
}

// purses has the purses of all identities, by their texts.
type purses struct {
	allowed Allowance

	mu      sync.Mutex
	all     map[string]*purse
	open    int // of all
	callers int // likewise
	wide    int
}

// most returns how many one identity may have open now: fewer, the more are open in all.
func (s *purses) most() int { return max(1, (s.allowed.Open-s.open)/max(1, s.allowed.Share)) }

// of is the purse of an identity. The lock is held.
func (s *purses) of(who string, now time.Time) *purse {
	p := s.all[who]
	if p == nil {
		if len(s.all) >= maxPurses {
			s.forget(now)
		}
		if s.all == nil {
			s.all = map[string]*purse{}
		}
		p = &purse{}
		s.all[who] = p
	}
	return p
}

// forget drops those of whom nothing is left to remember, or else who owes least of those that have nothing open: an
// identity that is forgotten has its whole allowance again, and whoever has a thousand of them had that anyway.
func (s *purses) forget(now time.Time) {
	least, who := time.Duration(0), ""
	for name, p := range s.all { //order: the least is the same in any, but for those that owe the same
		if p.isOpen() {
			continue
		}
		switch owes := p.owes(now); {
		case owes == 0:
			delete(s.all, name)
		case who == "" || owes < least:
			least, who = owes, name
		}
	}
	if len(s.all) >= maxPurses {
		delete(s.all, who)
	}
}

// connects takes a connection; false: the identity has as many as it may.
func (s *purses) connects(who string, now time.Time) bool {
	return s.takes(who, now, func(p *purse) *int { return &p.connections }, s.allowed.Connections)
}

// leaves gives a connection back.
func (s *purses) leaves(who string) { s.gives(who, func(p *purse) *int { return &p.connections }) }

// connected counts the connections that somebody has.
func (s *purses) connected(who string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.all[who]; p != nil {
		return p.connections
	}
	return 0
}

// calls takes one of the connections over which people call, which cost far more than a session of the page does:
// fewer, the more of them all have. False: the identity has as many as it may.
func (s *purses) calls(who string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.of(who, now)
	if p.callers >= max(leastCallers, (s.allowed.Open-s.callers)/max(1, s.allowed.Share)) {
		return false
	}
	p.callers, s.callers = p.callers+1, s.callers+1
	return true
}

// hangsUp gives it back.
func (s *purses) hangsUp(who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.all[who]; p != nil && p.callers > 0 {
		p.callers, s.callers = p.callers-1, s.callers-1
	}
}

// widens takes a watch of everything, or answers how many the identity has, which is as many as it may: fewer, the more
// of them all have.
func (s *purses) widens(who string, now time.Time) (has int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.of(who, now)
	most := min(s.allowed.Wide, (s.allowed.WideOfAll-s.wide)/max(1, s.allowed.Wide))
	if p.wide >= max(leastWide, most) {
		return p.wide, false
	}
	p.wide, s.wide = p.wide+1, s.wide+1
	return p.wide, true
}

// narrows gives it back.
func (s *purses) narrows(who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.all[who]; p != nil && p.wide > 0 {
		p.wide, s.wide = p.wide-1, s.wide-1
	}
}

// comes takes a call of which the request has yet to come; false: the identity has as many as it may.
func (s *purses) comes(who string, now time.Time) bool {
	return s.takes(who, now, func(p *purse) *int { return &p.coming }, s.allowed.Coming)
}

// came gives it back.
func (s *purses) came(who string) { s.gives(who, func(p *purse) *int { return &p.coming }) }

// takes takes one of what an identity may have so many of.
func (s *purses) takes(who string, now time.Time, of func(*purse) *int, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := of(s.of(who, now))
	if *n >= most {
		return false
	}
	*n++
	return true
}

func (s *purses) gives(who string, of func(*purse) *int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.all[who]; p != nil && *of(p) > 0 {
		*of(p)--
	}
}

// begins takes a call, which ends gives back. What is over the allowance, if anything, comes with the time to wait.
func (s *purses) begins(who string, now time.Time) (over string, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.of(who, now)
	if p.open >= s.most() || s.open >= s.allowed.Open {
		return fmt.Sprintf("has %d calls and watches open, and may have no more now", p.open), time.Second
	}
	if wait = p.calls.take(s.allowed.Calls.cost(), s.allowed.Calls.Burst, now); wait > 0 {
		return fmt.Sprintf("makes more than %d calls a second", s.allowed.Calls.PerSecond), wait
	}
	p.open, s.open = p.open+1, s.open+1
	return "", 0
}

func (s *purses) ends(who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.all[who]; p != nil && p.open > 0 {
		p.open, s.open = p.open-1, s.open-1
	}
}

// change takes one of the calls that change something.
func (s *purses) change(who string, now time.Time) (over string, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if wait = s.of(who, now).changes.take(s.allowed.Changes.cost(), s.allowed.Changes.Burst, now); wait > 0 {
		return fmt.Sprintf("changes more than %d things a second", s.allowed.Changes.PerSecond), wait
	}
	return "", 0
}

// submit takes one of the calls that bring a job.
func (s *purses) submit(who string, now time.Time) (over string, wait time.Duration) {
	most := s.allowed.Submits
	if most.PerSecond <= 0 {
		return "", 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if wait = s.of(who, now).submits.take(most.cost(), most.Burst, now); wait > 0 {
		return fmt.Sprintf("submits more than %d jobs a second; an array is one", most.PerSecond), wait
	}
	return "", 0
}

// carries takes bytes of large requests, and answers how long it is until they would have come at their pace.
func (s *purses) carries(who string, bytes int, now time.Time) (wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.of(who, now).bulk
	if p.due.Before(now) {
		p.due = now
	}
	at := func(bytes int) time.Duration { return time.Duration(bytes) * time.Second / bulkPace }
	if wait = max(0, p.due.Add(at(bytes)).Sub(now)-at(bulkBurst)); wait <= BulkPause {
		p.due = p.due.Add(at(bytes)) // whoever is closed for it sends nothing
	}
	return wait
}

// renews takes one of the certificates that are signed again.
func (s *purses) renews(who string, now time.Time) (wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of(who, now).renewals.take(renewalCost, renewalBurst, now)
}

// refused reports whether a refusal is to be written as a line of its own. Those that are not are counted.
func (s *purses) refused(line audit.Line, now time.Time) (write bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, most := s.of(line.Who, now), s.allowed.Refusals
	if line.Who == strangers {
		most = strangersRefusals
	}
	if p.tally == 0 && (now.Sub(p.since) >= tallyFor || now.Before(p.since)) {
		p.since, p.told = now, 0
	}
	if p.told < most {
		p.told++
		return true
	}
	p.tally++
	p.last = line
	return false
}

// tallied are the lines that say how many refusals were counted alone, of everybody whose minute is over, or of all.
func (s *purses) tallied(all bool, now time.Time) (lines []audit.Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.all { //order: whose line comes first says nothing
		if p.tally == 0 || !all && now.Sub(p.since) < tallyFor && !now.Before(p.since) {
			continue
		}
		line := p.last
		line.Outcome = fmt.Sprintf("%s: %d times since %s, of which this is the last",
			audit.Refused, p.tally, p.since.UTC().Format(time.RFC3339))
		lines = append(lines, line)
		p.tally, p.since, p.told = 0, now, 0
	}
	return lines
}

// noteRefusal writes a refusal, or counts it.
func (g *Authenticator) noteRefusal(line audit.Line) {
	if g.o.Audit != nil && g.purses.refused(line, g.o.Now()) {
		g.note(line)
	}
}

// noteTallies writes how many refusals were counted alone.
func (g *Authenticator) noteTallies(all bool) {
	for _, line := range g.purses.tallied(all, g.o.Now()) {
		g.note(line)
	}
}

// overdrawn refuses a call for what its caller has taken already, and says when to come again.
func (c *checkedCall) overdrawn(over string, wait time.Duration) error {
	seconds := max(1, int((wait+time.Second-1)/time.Second))
	c.gate.o.Count(countOverdrawn, 1)
	c.gate.say("Refused %s to %s: it %s", c.call, c.peer, over)
	c.gate.noteRefusal(c.about("", audit.Refused+": it "+over))
	_ = grpc.SetTrailer(c.ctx, metadata.Pairs(api.RetryAfterTrailer, strconv.Itoa(seconds)))
	return api.StatusOf(&messages.Outcome{
		Code: messages.Code_CODE_EXHAUSTED, Text: fmt.Sprintf("%s (%s) %s", c.peer.Name, c.peer.Role, over),
		Hint: fmt.Sprintf("try again in %ds; others are served meanwhile", seconds),
	})
}

// enter takes a call of the caller's allowance; done gives back what it holds for as long as it is open.
func (g *Authenticator) enter(ctx context.Context, call string) (done func(), err error) {
	here(ctx)
	p, ok := PeerOf(ctx)
	if !ok || call == rights.LinkCall {
		return func() {}, nil // whoever proved nothing is refused next, and a machine has one link
	}
	who := p.Identity.String()
	if over, wait := g.purses.begins(who, g.o.Now()); over != "" {
		c := &checkedCall{gate: g, ctx: ctx, peer: p, call: call}
		return nil, c.overdrawn(over, wait)
	}
	return func() { g.purses.ends(who) }, nil
}
