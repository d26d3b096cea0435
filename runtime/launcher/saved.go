package launcher

import (
	"sync"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/progress"
)

// This file owns the acknowledgements of saved checkpoints. A request arrives as a warning (notice.go). While it is
// open, the launcher reads the acknowledgement file of the task once per second, and once more after the task's end.

// mostSaved limits the changes of a task's acknowledgement that count for one request, so that a task cannot flood the
// leader.
const mostSaved = 32

// taskSaves reads the acknowledgements of one task.
type taskSaves struct {
	mu      sync.Mutex
	request uint64 // the open request; 0: none
	file    progress.SavedFile
	told    *messages.RankSaved // as last sent for this request; nil: nothing
	changes int                 // number of acknowledgements sent for this request
	lines   int                 // number of lines on the socket for this request
}

// begin starts to read the acknowledgements of a request. The launcher sends what it finds, even if it has sent it
// before. The request 0 ends the reading.
func (s *taskSaves) begin(request uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.request != request {
		s.changes, s.lines = 0, 0
	}
	s.request, s.told = request, nil
}

// lookForSaved reads the acknowledgements, and returns the message about them if they have changed.
func (t *task) lookForSaved() *messages.TaskSaved {
	s := &t.progress.saves
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.request == 0 || s.told != nil && s.changes >= mostSaved {
		return nil
	}
	saved := &messages.RankSaved{Rank: int32(t.Key.Rank), Request: s.request}
	steps, err := t.readSaved(s.request)
	if saved.Steps = steps; err != nil {
		saved.Problem = messages.AsText(err.Error())
	}
	nothing := len(steps) == 0 && err == nil
	if nothing && s.told == nil || saved.Same(s.told) {
		return nil
	}
	s.told, s.changes = saved, s.changes+1
	return &messages.TaskSaved{Id: messages.ToTaskID(t.Key), Saved: saved}
}

// readSaved returns the steps that the task has acknowledged for a request. The caller holds the lock.
func (t *task) readSaved(request uint64) ([]int64, error) {
	if t.savesBySocket() {
		return t.readHeard(request)
	}
	return t.progress.saves.file.Read(t.Scratch, int32(t.Key.Rank), request)
}

// notAsked reports why a task could not get a request, for example because the disk is full.
func (t *task) notAsked(request uint64, err error) *messages.TaskSaved {
	return &messages.TaskSaved{Id: messages.ToTaskID(t.Key), Saved: &messages.RankSaved{
		Rank: int32(t.Key.Rank), Request: request, Problem: messages.AsText("the task could not be asked: " + err.Error()),
	}}
}

// followSaved sends changed acknowledgements to the actor of the task. It runs outside the task's line.
func (t *task) followSaved() {
	if m := t.lookForSaved(); m != nil {
		t.post(func() {
			if t.phase == phaseRunning {
				t.l.send(t.to, m)
			}
		})
	}
}

// endSaved sends the last acknowledgements before the exit of the task. The second look counts a last line without a
// line break, because no process writes it any more.
func (t *task) endSaved() {
	for range 2 {
		if m := t.lookForSaved(); m != nil {
			t.l.send(t.to, m)
		}
	}
	t.progress.saves.begin(0)
}
