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

// This file reads the progress of the tasks once per second. It does so outside the tasks' queues, so no order to a
// task waits for it. Each look is bounded, and a task whose look takes long is looked at less often.

const (
	progressEvery = time.Second
	// restFactor bounds the cost of a task to about 0.5 % of a core: the next look begins at the earliest 200 times
	// the duration of the last look later, or after mostRest if that is shorter.
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
	rest   time.Time        // no look before this time

	saves taskSaves

	hash   *progress.TokenHash // of the task's token; nil: its requests are not accepted
	posted time.Time           // when a request was last passed on at once
}

// Progress returns the path of the file, in its scratch directory, in which a task may report its progress.
func Progress(scratch string) string { return filepath.Join(scratch, progress.FileName) }

// followProgress starts to read the progress of a running task.
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
	t.endSaved()
	t.progress.mu.Lock()
	defer t.progress.mu.Unlock()
	t.deafToKubeflow()
	t.progress.running.Store(false)
}

// runProgress looks at the tasks until the launcher is closed.
func (l *Launcher) runProgress() {
	clock.Every(progressEvery, l.done, func() {
		for _, t := range l.all() {
			if t.progress.running.Load() {
				t.lookForProgress()
				t.followSaved()
			}
		}
	})
}

// lookForProgress reads what the task has reported since the last look, and sends the changes.
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

// look adds the new reports in the file and in the output to the model. The caller holds the lock.
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

// repeatProgress makes the next look send everything that is known, for an actor that knows nothing yet.
func (t *task) repeatProgress() {
	t.progress.mu.Lock()
	defer t.progress.mu.Unlock()
	t.progress.model.Repeat()
	t.activity.repeat()
	t.use.repeat()
}

// sendProgress sends the changes to the actor of the task. The caller holds the lock.
func (t *task) sendProgress() {
	m := t.progress.model.Message()
	state, news := t.activity.takeState(m.ChangedNs)
	use, used := t.use.takeUse()
	if !t.progress.model.Changed() && !news && !used {
		return
	}
	m.State, m.Use = state, use
	m.Id = messages.ToTaskID(t.Key)
	t.post(func() {
		if t.phase == phaseRunning {
			t.l.send(t.to, m)
		}
	})
}
