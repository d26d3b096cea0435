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

// This file limits the requests of each identity. An identity that exceeds its allowance is refused and gets a
// retry time. All others are served as usual. Without these limits, one fast client could use all streams and fill
// the audit log's disk.

// Allowance holds the limits of each identity.
type Allowance struct {
	// Calls is the rate of calls. A connection of a user counts as one call. A call that changes something
	// counts as two. A large request counts as one more for each KiB.
	Calls       Rate
	Submits     Rate   // calls that submit a job; 0 per second, and admins: no limit
	Connections Places // all connections, including those of nodes and browser sessions
	Callers     Places // the connections for calls of users
	Open        Places // open calls and streams
	Wide        Places // watches without a filter, which are the most expensive
	Requests    int    // requests being received
	Refusals    int    // refusals per minute with their own audit line; one line counts the rest
}

// Rate holds a number per second and a burst.
type Rate = connlimit.Rate

// Places limits concurrent use. Each is the limit of one identity. If All is set, an identity may have one Share-th
// of the free part of All, so that later identities also get a part. Least is always allowed.
type Places struct{ Each, All, Share, Least int }

// DefaultAllowance returns limits far above the use of a person with scripts, and below the capacity of a
// scheduler.
func DefaultAllowance() Allowance {
	return Allowance{
		Calls: Rate{PerSecond: 400, Burst: 4000}, Submits: DefaultSubmits(), Requests: 2, Refusals: 30,
		Connections: Places{Each: 512}, Callers: Places{Each: 128, All: 2048, Share: 16, Least: 16},
		Open: Places{Each: 128, All: 2048, Share: 16, Least: 1}, Wide: Places{Each: 8, All: 72, Share: 8, Least: 2},
	}
}

// DefaultSubmits returns the limit of submitted jobs per identity. An array counts as one job.
func DefaultSubmits() Rate { return Rate{PerSecond: 50, Burst: 2000} }

// renewalCost and renewalBurst limit how often the certificate of one node is renewed. An agent renews every 16
// hours. Each renewal costs a signature and an audit line.
const (
	renewalCost  = time.Minute
	renewalBurst = 10
)

// strangers is the shared purse of all unauthenticated peers. strangersRefusals is the number of their refusals per
// minute with their own audit line. A purse per address would not limit them, because addresses are free.
const (
	strangers         = ""
	strangersRefusals = 120
)

// tallyFor is the time after which counted refusals are summarized in one line.
const tallyFor = time.Minute

// maxPurses limits the number of remembered identities. Identities with open calls or connections are never
// forgotten; the other limits bound their number.
const maxPurses = 1024

// kind is a kind of concurrent use.
type kind int

const (
	connections kind = iota
	callers
	open
	wide
	kinds
)

// places returns the limit of a kind.
func (a *Allowance) places(k kind) Places {
	return [kinds]Places{connections: a.Connections, callers: a.Callers, open: a.Open, wide: a.Wide}[k]
}

// counts holds the current number of each kind.
type counts [kinds]int

// purse holds how much of its allowance one identity has used.
type purse struct {
	calls, submits, renewals connlimit.Bucket

	has      counts
	requests chan struct{} // one value per request being received
	waiting  int           // requests being received or waiting for it
	told     int           // refusals written in this minute
	since    time.Time     // start of this minute
	tally    uint64        // refusals in this minute that were only counted
	last     audit.Line
}

// owes returns how long the purse must still be remembered, or 0 if it can be forgotten.
func (p *purse) owes(now time.Time) time.Duration {
	return max(0, p.since.Add(tallyFor).Sub(now), p.calls.Owes(now), p.submits.Owes(now), p.renewals.Owes(now))
}

// isOpen reports whether the identity has something open, or has counted refusals that are not written yet.
func (p *purse) isOpen() bool { return p.has != counts{} || p.waiting > 0 || p.tally > 0 }

// purses holds the purses of all identities by the text of the identity.
type purses struct {
	allowed Allowance

	mu  sync.Mutex
	all map[string]*purse
	has counts // sums over all identities
}

// of returns the purse of an identity. The caller holds the lock.
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

// forget removes the purses with no remaining debt. If none has, it removes the purse with the smallest debt among
// those with nothing open. A forgotten identity gets its complete allowance again. A client that can use a thousand
// identities has this advantage anyway.
func (s *purses) forget(now time.Time) {
	least, who := time.Duration(0), ""
	for name, p := range s.all { //order: the smallest debt does not depend on the order
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

// takes takes one place of a kind if the identity may have another. It returns how many the identity had. The limit
// shrinks with the total in use.
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

// gives returns a place.
func (s *purses) gives(who string, k kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.all[who]; p != nil && p.has[k] > 0 {
		p.has[k], s.has[k] = p.has[k]-1, s.has[k]-1
	}
}

// spends charges calls to the rate. If the rate is exceeded, it returns the reason and the time to wait.
func (s *purses) spends(who string, many int, now time.Time) (over string, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if wait = s.of(who, now).calls.Take(many, s.allowed.Calls.Cost(), s.allowed.Calls.Burst, now); wait > 0 {
		return fmt.Sprintf("exceeds %d calls per second; a change counts as two calls, and a large request as one per KiB",
			s.allowed.Calls.PerSecond), wait
	}
	return "", 0
}

// owes charges calls that were already served.
func (s *purses) owes(who string, many int, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(who, now).calls.Owe(many, s.allowed.Calls.Cost(), now)
}

// begins charges a call and takes a place for it. The caller returns the place with gives.
func (s *purses) begins(who string, now time.Time) (over string, wait time.Duration) {
	if has, ok := s.takes(who, open, now); !ok {
		return fmt.Sprintf("has reached the limit of %d open calls and watches", has), time.Second
	}
	if over, wait = s.spends(who, 1, now); over != "" {
		s.gives(who, open)
	}
	return over, wait
}

// submit charges one call that submits a job.
func (s *purses) submit(who string, now time.Time) (over string, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := s.allowed.Submits
	if wait = s.of(who, now).submits.Take(1, most.Cost(), most.Burst, now); wait > 0 {
		return fmt.Sprintf("submits more than %d jobs per second; an array counts as one", most.PerSecond), wait
	}
	return "", 0
}

// renews charges one certificate renewal.
func (s *purses) renews(who string, now time.Time) (wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of(who, now).renewals.Take(1, renewalCost, renewalBurst, now)
}

// waits registers a request that waits to be received, until over is called. It returns the channel of the
// identity's places for such requests.
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

// refused reports whether to write a separate audit line for a refusal. Otherwise it counts the refusal.
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

// tallied returns the lines that summarize counted refusals: of identities whose minute has passed, or of all.
func (s *purses) tallied(all bool, now time.Time) (lines []audit.Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.all { //order: the order of the lines does not matter
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

// noteRefusal writes a refusal to the audit log, or counts it.
func (g *Authenticator) noteRefusal(line audit.Line) {
	if g.o.Audit != nil && g.purses.refused(line, g.o.Now()) {
		g.note(line)
	}
}

// noteTallies writes the summaries of counted refusals.
func (g *Authenticator) noteTallies(all bool) {
	for _, line := range g.purses.tallied(all, g.o.Now()) {
		g.note(line)
	}
}

// overdrawn refuses a call that exceeds the caller's allowance, and sets the retry time.
func (c *checkedCall) overdrawn(over string, wait time.Duration) error {
	seconds := max(1, int((wait+time.Second-1)/time.Second))
	c.gate.o.Count(countOverdrawn, 1)
	c.gate.say("Refused %s to %s: %s", c.call, c.peer, over)
	c.gate.noteRefusal(c.about("", audit.Refused+": "+over))
	_ = grpc.SetTrailer(c.ctx, metadata.Pairs(api.RetryAfterTrailer, strconv.Itoa(seconds)))
	return api.StatusOf(&messages.Outcome{
		Code: messages.Code_CODE_EXHAUSTED, Text: fmt.Sprintf("%s (%s) %s", c.peer.Name, c.peer.Role, over),
		Hint: fmt.Sprintf("try again in %ds", seconds),
	})
}

// enter starts a call within the caller's allowance. done returns the place of the call.
func (g *Authenticator) enter(ctx context.Context, call string) (c *checkedCall, done func(), err error) {
	p, ok := PeerOf(ctx)
	c, who := &checkedCall{gate: g, ctx: ctx, peer: p, call: call}, p.Identity.String()
	if !ok || call == rights.LinkCall { // opens refuses unauthenticated peers, and a node has one link
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
