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
	"github.com/yi-json/synapse/server/connlimit"
	"github.com/yi-json/synapse/server/rights"
)

// This file owns what one identity may ask for. What somebody overdraws is his own loss: he is refused, and told when
// to come again, while everybody else is served as before. Without it one pool of streams and one disk of the audit
// were everybody's, and whoever was fastest had them.

// Allowance bounds what each identity may have.
type Allowance struct {
	// Calls is the rate of calls. A person's connection counts as one, a call that changes something as two, and a large
	// request as one more for each KiB of it.
	Calls       Rate
	Submits     Rate   // of calls that bring a job; of none a second: any number, as of admins
	Connections Places // also of machines, and of browsers that have logged in
	Callers     Places // of these, over which people call
	Open        Places // calls and streams
	Wide        Places // watches of everything: each change costs as much as all of them together
	Requests    int    // that are on their way
	Refusals    int    // of its calls that the audit has one by one, in a minute; those beyond are counted in one line
}

// Rate is so many a second, and so many at once.
type Rate = connlimit.Rate

// Places bounds what an identity may have so many of at the same time. Where All is given, each may have one of Share
// parts of what is still free of that, so that some stay free for the next; but Least in any case.
type Places struct{ Each, All, Share, Least int }

// DefaultAllowance is far above what a person and their scripts do, and below what a scheduler can.
func DefaultAllowance() Allowance {
	return Allowance{
		Calls: Rate{PerSecond: 400, Burst: 4000}, Submits: DefaultSubmits(), Requests: 2, Refusals: 30,
		Connections: Places{Each: 512}, Callers: Places{Each: 128, All: 2048, Share: 16, Least: 16},
		Open: Places{Each: 128, All: 2048, Share: 16, Least: 1}, Wide: Places{Each: 8, All: 72, Share: 8, Least: 2},
	}
}

// DefaultSubmits bounds the jobs that one identity may bring: an array is one of them.
func DefaultSubmits() Rate { return Rate{PerSecond: 50, Burst: 2000} }

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

// maxPurses bounds the identities that are remembered. One that has something open is not forgotten; that is bounded,
// too.
const maxPurses = 1024

// kind is one of what an identity may have so many of at the same time.
type kind int

const (
	connections kind = iota
	callers
	open
	wide
	kinds
)

// places bounds a kind.
func (a *Allowance) places(k kind) Places {
	return [kinds]Places{connections: a.Connections, callers: a.Callers, open: a.Open, wide: a.Wide}[k]
}

// counts has how many there are of each kind.
type counts [kinds]int

// purse counts what one identity has taken of its allowance.
type purse struct {
	calls, submits, renewals connlimit.Bucket

	has      counts
	requests chan struct{} // has a value for each request that is on its way
	waiting  int           // those requests, and those that wait to be read
	told     int           // refusals written in this minute
	since    time.Time     // when it began
	tally    uint64        // refusals since then that were counted alone
	last     audit.Line
}

// owes is for how long something is left to remember; 0: nothing is.
func (p *purse) owes(now time.Time) time.Duration {
	return max(0, p.since.Add(tallyFor).Sub(now), p.calls.Owes(now), p.submits.Owes(now), p.renewals.Owes(now))
}

// isOpen reports whether somebody has something now, or an account of refusals that is yet to be written.
func (p *purse) isOpen() bool { return p.has != counts{} || p.waiting > 0 || p.tally > 0 }

// purses has the purses of all identities, by their texts.
type purses struct {
	allowed Allowance

	mu  sync.Mutex
	all map[string]*purse
	has counts // of all
}

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
		p = &purse{requests: make(chan struct{}, max(1, s.allowed.Requests))}
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

// takes takes a place, or answers how many the identity has, which is as many as it may: fewer, the more of them all
// have.
func (s *purses) takes(who string, k kind, now time.Time) (has int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, of := s.of(who, now), s.allowed.places(k)
	most := of.Each
	if of.All > 0 {
		most = min(most, max(of.Least, (of.All-s.has[k])/of.Share))
	}
	if has = p.has[k]; has >= most {
		return has, false
	}
	p.has[k], s.has[k] = has+1, s.has[k]+1
	return has, true
}

// gives gives it back.
func (s *purses) gives(who string, k kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.all[who]; p != nil && p.has[k] > 0 {
		p.has[k], s.has[k] = p.has[k]-1, s.has[k]-1
	}
}

// spends takes some of the rate of calls. What is over the allowance, if anything, comes with the time to wait.
func (s *purses) spends(who string, many int, now time.Time) (over string, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if wait = s.of(who, now).calls.Take(many, s.allowed.Calls.Cost(), s.allowed.Calls.Burst, now); wait > 0 {
		return fmt.Sprintf("asks for more than %d calls a second, where a change counts as two, and a large request as one "+
			"for each KiB", s.allowed.Calls.PerSecond), wait
	}
	return "", 0
}

// owes takes some of it that was had already.
func (s *purses) owes(who string, many int, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(who, now).calls.Owe(many, s.allowed.Calls.Cost(), now)
}

// begins takes a call, which has a place until it gives that back.
func (s *purses) begins(who string, now time.Time) (over string, wait time.Duration) {
	if has, ok := s.takes(who, open, now); !ok {
		return fmt.Sprintf("has %d calls and watches open, and may have no more now", has), time.Second
	}
	if over, wait = s.spends(who, 1, now); over != "" {
		s.gives(who, open)
	}
	return over, wait
}

// submit takes one of the calls that bring a job.
func (s *purses) submit(who string, now time.Time) (over string, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := s.allowed.Submits
	if wait = s.of(who, now).submits.Take(1, most.Cost(), most.Burst, now); wait > 0 {
		return fmt.Sprintf("submits more than %d jobs a second; an array is one", most.PerSecond), wait
	}
	return "", 0
}

// renews takes one of the certificates that are signed again.
func (s *purses) renews(who string, now time.Time) (wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of(who, now).renewals.Take(1, renewalCost, renewalBurst, now)
}

// waits has the places of an identity for requests that are on their way, for one that waits for such a place or has it
// until over is called.
func (s *purses) waits(who string, now time.Time) (places chan struct{}, over func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.of(who, now)
	p.waiting++
	return p.requests, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		p.waiting--
	}
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
		Hint: fmt.Sprintf("try again in %ds", seconds),
	})
}

// enter lets a call of the caller's allowance begin; done gives back what it holds for as long as it is open.
func (g *Authenticator) enter(ctx context.Context, call string) (c *checkedCall, done func(), err error) {
	p, ok := PeerOf(ctx)
	c, who := &checkedCall{gate: g, ctx: ctx, peer: p, call: call}, p.Identity.String()
	if !ok || call == rights.LinkCall { // whoever proved nothing is refused now, and a machine has one link
		return c, func() {}, c.opens(ok)
	}
	if over, wait := g.purses.begins(who, g.o.Now()); over != "" {
		return nil, nil, c.overdrawn(over, wait)
	}
	done = func() { g.purses.gives(who, open) }
	if err := c.opens(ok); err != nil {
		done()
		return nil, nil, err
	}
	return c, done, nil
}
