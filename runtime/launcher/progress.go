package launcher

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/yi-json/synapse/clock"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/progress"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file owns how the progress of tasks is read: once a second, beside the lines of the tasks, so that no order to a
// task waits for it. Each look is bounded. A task whose look takes long is looked at less often.

const (
	progressEvery = time.Second
	// restFactor is how many times as long as its look a task is left alone at least: one task never costs more than
	// half a hundredth of a core.
	restFactor = 200
	mostRest   = time.Minute
)

// taskProgress reads the progress of one task.
type taskProgress struct {
	running atomic.Bool

	mu     sync.Mutex
	model  progress.Model
	file   progress.File
	output *progress.Output // nil: the job has no pattern
	rest   time.Time        // no look before

	hash   *progress.TokenHash // of its token; nil: none is heard
	posted time.Time           // when a request was last passed on at once
}

// Progress returns the path of the file in which a task may report its progress, in its scratch directory.
func Progress(scratch string) string { return filepath.Join(scratch, progress.FileName) }

// followProgress begins to read the progress of a task that runs.
func (t *task) followProgress() {
	p := &t.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.output == nil {
		p.output = progress.NewOutput(t.Spec.GetProgress().GetPattern())
	}
	t.hearKubeflow()
	p.running.Store(true)
}

func (t *task) endProgress() {
	t.progress.mu.Lock()
	defer t.progress.mu.Unlock()
	t.deafToKubeflow()
	t.progress.running.Store(false)
}

// runProgress looks at the tasks until the launcher is closed.
func (l *Launcher) runProgress() {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-l.done:
			return
		case <-tick.C:
		}
		for _, t := range l.all() {
			if t.progress.running.Load() {
				t.lookForProgress()
			}
		}
	}
}

// lookForProgress reads what a task reported since the last look, and sends what changed.
func (t *task) lookForProgress() {
	p := &t.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	began := time.Now()
	if began.Before(p.rest) {
		return
	}
	p.look(t.Scratch, t.home)
	if took := time.Since(began) * restFactor; took > progressEvery {
		p.rest = began.Add(min(took, mostRest))
	}
	t.sendProgress()
}

// look feeds the model with what is new in the file and in the output. The lock is held.
func (p *taskProgress) look(scratch, home string) {
	err := p.file.Read(scratch, func(line []byte) {
		report, err := progress.ParseLine(line)
		if err != nil {
			p.model.Garbage()
			return
		}
		p.model.Observe(clock.BootNs(), report)
	})
	if err != nil {
		p.model.Garbage()
	}
	if p.output == nil {
		return
	}
	report, ok := p.output.Search(func(from int64, most int) (int64, []byte) {
		at, data, err := supervisor.ReadEnd(home, supervisor.Stdout, from, most)
		if err != nil {
			return from, nil
		}
		return at, data
	})
	if ok {
		p.model.Observe(clock.BootNs(), report)
	}
}

// repeatProgress has the next look tell an actor that knows nothing yet.
func (t *task) repeatProgress() {
	t.progress.mu.Lock()
	defer t.progress.mu.Unlock()
	t.progress.model.Repeat()
}

// sendProgress tells the actor of a task what changed. The lock is held.
func (t *task) sendProgress() {
	if !t.progress.model.Changed() {
		return
	}
	m := t.progress.model.Message()
	m.Id = messages.ToTaskID(t.Key)
	t.post(func() {
		if t.phase == phaseRunning {
			t.l.send(t.to, m)
		}
	})
}
