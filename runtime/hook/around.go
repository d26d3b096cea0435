// Package hook runs the site's programs before and after the tasks of an attempt: the prolog before the first task, and
// the epilog after the last one.
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

// This file runs the prolog before the first task is prepared, and the epilog when the last task has gone. A pending
// epilog is recorded on disk before the prolog begins. The epilog therefore runs even after a crash of the agent or a
// reboot.

// Around runs prologs and epilogs. Each runs once for all tasks of an attempt on the node.
type Around struct {
	o AroundOptions

	mu     sync.Mutex
	visits map[string]*visit // by attempt
}

// AroundOptions holds the settings of an Around.
type AroundOptions struct {
	Dir            string            // of its records; it is made if it does not exist
	Prolog, Epilog procgroup.Program // without a command: there is none
	// Failed is called when a prolog or epilog has failed, before the end of the tasks is reported. It must close
	// the node.
	Failed func()
}

// visit holds the state of an attempt for its prolog and epilog.
type visit struct {
	name   string
	Env    []string      `json:"env"`
	begun  chan struct{} // closed when its prolog has ended
	err    error         // of the prolog
	over   chan struct{} // closed when its epilog has ended, in any way
	ending bool          // its epilog was started
	failed error         // of the last failure; both are repeated until they succeed
	told   bool          // the failure was reported once, so the next check repeats them
	left   bool          // by an earlier agent
}

// maxRecord bounds a record.
const maxRecord = 1 << 20

// OpenAround reads the pending epilogs of an earlier agent.
func OpenAround(o AroundOptions) (*Around, error) {
	a := &Around{o: o, visits: map[string]*visit{}}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("records of prolog and epilog: %w", err)
	}
	entries, err := os.ReadDir(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("records of prolog and epilog: %w", err)
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		data, err := os.ReadFile(filepath.Join(o.Dir, e.Name()))
		if !ok || err != nil || len(data) > maxRecord {
			continue // an incomplete file
		}
		s := newVisit(name)
		close(s.begun)
		_ = json.Unmarshal(data, s) // after a torn record, the epilog runs without variables
		a.visits[name] = s
	}
	return a, nil
}

func newVisit(name string) *visit {
	return &visit{name: name, begun: make(chan struct{}), over: make(chan struct{})}
}

// Leave marks the attempts of an earlier agent that no longer live. Look runs their epilogs.
func (a *Around) Leave(lives func(attempt string) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, s := range a.visits { //order: each for itself
		s.left = !lives(name)
	}
}

// Before runs the prolog once for all callers. The prolog may continue after a caller's context has ended.
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
		s.err = fault.OfMachine(fmt.Errorf("record the pending epilog: %w", err))
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

// run runs a prolog or epilog. It waits for a program that cannot be killed, because the program may still use the
// devices. It also waits for a program of an earlier agent. A running program holds the lock file.
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

// After runs the epilog once, and calls ended when it has ended. It calls ended at once if no epilog is pending.
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

// settle forgets an attempt without a pending epilog.
func (a *Around) settle(s *visit) {
	_ = os.Remove(a.path(s)) // otherwise its epilog runs once more
	_ = os.Remove(filepath.Join(a.o.Dir, s.name+".lock"))
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.visits, s.name)
}

// Look is a health check. It reports a failure once, and then repeats the failed program until it succeeds. It also
// runs the pending epilogs of an earlier agent.
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

// again reports a failure once, and repeats the failed program at the next call.
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
			return failed // its tasks still exist: the job continues after a failed prolog
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
