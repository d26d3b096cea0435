// Package hook runs what a machine's owner has run around the tasks of an attempt: the prolog before the first of
// them, the epilog behind the last.
package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/runtime/file"
	"github.com/yi-json/synapse/runtime/procgroup"
)

// This file owns what is run around the tasks of an attempt: the prolog before the first of them is prepared, the
// epilog when the last has gone. That an epilog is owed is on disk before the prolog begins, so that no death of the
// agent and no reboot leaves a machine as one job left it.

// Around runs prologs and epilogs. Each is run once for all tasks that an attempt has on the machine.
type Around struct {
	o AroundOptions

	mu     sync.Mutex
	visits map[string]*visit // by attempt
}

// AroundOptions holds the settings of an Around.
type AroundOptions struct {
	Dir            string            // of its records; it is made if it is not there
	Prolog, Epilog procgroup.Program // without a command: there is none
	// Failed is called when one has failed, before anybody hears that the tasks are gone: it closes the machine.
	Failed func()
}

// visit is an attempt on the machine, as its prolog and epilog see it.
type visit struct {
	name   string
	Env    []string      `json:"env"`
	begun  chan struct{} // closed when its prolog has ended
	err    error         // of the prolog
	over   chan struct{} // closed when its epilog has ended, however it did
	ending bool          // its epilog was begun
	failed error         // of whichever failed last; both are run again until that is well
	told   bool          // that was told once: from now on they are run again
	left   bool          // by an earlier agent
}

// maxRecord bounds a record.
const maxRecord = 1 << 20

// OpenAround finds what an earlier agent owes.
func OpenAround(o AroundOptions) (*Around, error) {
	a := &Around{o: o, visits: map[string]*visit{}}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("prolog and epilog: %w", err)
	}
	entries, err := os.ReadDir(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("prolog and epilog: %w", err)
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		data, err := os.ReadFile(filepath.Join(o.Dir, e.Name()))
		if !ok || err != nil || len(data) > maxRecord {
			continue // a file that was being written
		}
		s := newVisit(name)
		close(s.begun)
		_ = json.Unmarshal(data, s) // torn: its epilog is run without variables
		a.visits[name] = s
	}
	return a, nil
}

func newVisit(name string) *visit {
	return &visit{name: name, begun: make(chan struct{}), over: make(chan struct{})}
}

// Leave gives up what an earlier agent's attempts left, but for those that still live: their epilogs are run by Look.
func (a *Around) Leave(lives func(attempt string) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, s := range a.visits { //order: each for itself
		s.left = !lives(name)
	}
}

// Before runs the prolog, once for all that ask. It may go on when who asks has lost patience.
func (a *Around) Before(ctx context.Context, attempt string, env []string) error {
	a.mu.Lock()
	s := a.visits[attempt]
	if s == nil {
		s = newVisit(attempt)
		s.Env = env
		a.visits[attempt] = s
		go a.begin(s)
	}
	a.mu.Unlock()
	select {
	case <-s.begun:
		return s.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *Around) begin(s *visit) {
	defer close(s.begun)
	data, err := json.Marshal(s)
	if err == nil {
		err = file.ReplaceDurably(a.path(s), data)
	}
	if err != nil {
		s.err = fault.OfMachine(fmt.Errorf("that an epilog is owed: %w", err))
		return
	}
	if err := a.run(a.o.Prolog, "prolog", s); err != nil {
		s.err = fault.OfMachine(err)
		a.mu.Lock()
		s.failed = err
		a.mu.Unlock()
		a.o.Failed()
	}
}

func (a *Around) path(s *visit) string { return filepath.Join(a.o.Dir, s.name+".json") }

// run runs one of the two. One that cannot be killed is waited for: what it does to the devices is not over. So is
// one that an agent began which has died since: whatever runs holds the lock beside the record.
func (a *Around) run(p procgroup.Program, what string, s *visit) error {
	if len(p.Command) == 0 {
		return nil
	}
	p.Env = append(append(slices.Clone(s.Env), "SYNAPSE_HOOK="+what), "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
	p.Env = append(p.Env, "SLURM_SCRIPT_CONTEXT="+what+"_slurmd")
	lock, err := os.OpenFile(filepath.Join(a.o.Dir, s.name+".lock"), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	p.Holds = lock
	gone, err := p.Run(context.Background())
	if gone != nil {
		<-gone
	}
	if err != nil {
		return fmt.Errorf("the %s of attempt %s: %w", what, s.name, err)
	}
	return nil
}

// After runs the epilog, once, and calls ended when it has ended; at once where none is owed.
func (a *Around) After(attempt string, ended func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.visits[attempt]
	if s == nil {
		ended()
		return
	}
	if !s.ending && !s.left {
		s.ending = true
		go a.end(s)
	}
	go func() {
		<-s.over
		ended()
	}()
}

func (a *Around) end(s *visit) {
	<-s.begun
	err := a.run(a.o.Epilog, "epilog", s)
	a.mu.Lock()
	if s.failed == nil {
		s.failed = err
	}
	failed := s.failed
	a.mu.Unlock()
	if failed == nil {
		a.settle(s)
	} else {
		a.o.Failed()
	}
	close(s.over)
}

// settle forgets an attempt of which nothing is owed any more.
func (a *Around) settle(s *visit) {
	_ = os.Remove(a.path(s)) // at worst its epilog is run once more
	_ = os.Remove(filepath.Join(a.o.Dir, s.name+".lock"))
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.visits, s.name)
}

// Look is a check of the machine's health: it says what failed, and the next time runs it again, until it does
// well. It also runs the epilogs that an earlier agent owes.
func (a *Around) Look(context.Context) (<-chan struct{}, error) {
	a.mu.Lock()
	var due []*visit
	for _, s := range a.visits { //order: sorted below
		if s.failed != nil || s.left {
			due = append(due, s)
		}
	}
	a.mu.Unlock()
	slices.SortFunc(due, func(x, y *visit) int { return strings.Compare(x.name, y.name) })
	var all []error
	for _, s := range due {
		all = append(all, a.again(s))
	}
	return nil, errors.Join(all...)
}

// again tells once of what failed, and then runs it again.
func (a *Around) again(s *visit) error {
	a.mu.Lock()
	failed, told := s.failed, s.told
	s.told = true
	a.mu.Unlock()
	if failed != nil && !told {
		return failed
	}
	if !s.left {
		select {
		case <-s.over:
		default:
			return failed // its tasks are still there: a job that goes on after its prolog failed
		}
	}
	err := error(nil)
	if s.err != nil {
		err = a.run(a.o.Prolog, "prolog", s)
	}
	if err == nil {
		err = a.run(a.o.Epilog, "epilog", s)
	}
	a.mu.Lock()
	s.failed = err
	first := s.left
	s.left = false
	a.mu.Unlock()
	if err == nil {
		a.settle(s)
	}
	if first {
		close(s.over)
	}
	return err
}
