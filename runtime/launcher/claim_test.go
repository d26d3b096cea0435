package launcher

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/topology"
)

// TestClaimTriedAgain checks that a job does not get a uid while kept files of another job cannot be removed, after any
// number of tries. When they can be removed, they are removed before the job uses the uid. The job's own kept files
// stay.
func TestClaimTriedAgain(t *testing.T) {
	const uid = 200_001
	dir := t.TempDir()
	l := &Launcher{
		o:     Options{Dir: dir, Log: actors.NoLog{}, Drivers: []Driver{nil}},
		tasks: map[topology.TaskKey]*task{}, uses: map[uint32]*use{}, kept: leavings{}, done: make(chan struct{}),
	}
	of := func(job string) *task {
		t := l.newTask(topology.TaskKey{Token: topology.Token{Epoch: 1, Counter: uint64(len(job))}})
		t.Job, t.UID = job, uid
		return t
	}
	l.keeps("folder", owner{UID: uid, Job: "old"})
	path := filepath.Join(dir, keptDir)
	if err := os.WriteFile(path, nil, 0o600); err != nil { // os.RemoveAll of a path below a file fails
		t.Fatal(err)
	}
	for try := range 3 {
		next := of("newer")
		if err := l.claim(next); fault.Of(err) != fault.Machine || next.claimed {
			t.Fatalf("try %d: %v, claimed %v", try, err, next.claimed)
		}
		if u := l.uses[uid]; u == nil || u.job != "old" || u.tasks != 0 || len(u.kept) != 1 {
			t.Fatalf("after try %d: %+v", try, u)
		}
	}
	folder := filepath.Join(path, "folder")
	if err := errors.Join(os.Remove(path), os.MkdirAll(folder, 0o700)); err != nil {
		t.Fatal(err)
	}
	own := of("old")
	if err := l.claim(own); err != nil || !own.claimed {
		t.Fatalf("the job itself: %v", err)
	}
	if err := l.claim(of("newer")); err == nil || fault.Of(err) != fault.Unknown {
		t.Errorf("while a task of the other job exists: %v", err)
	}
	if _, err := os.Stat(folder); err != nil {
		t.Errorf("what is kept of the job itself is gone: %v", err)
	}
	l.release(own)
	if err := l.claim(of("newer")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) || l.uses[uid].job != "newer" || len(l.uses[uid].kept) > 0 {
		t.Errorf("what is kept of the other job: %v, %+v", err, l.uses[uid])
	}
}

// TestEndsHaveNumbersOfTheirOwn checks that two ends of a task have the same number only if they are the same end. A
// task is therefore warned of each end. A supervisor accepts no negative number.
func TestEndsHaveNumbersOfTheirOwn(t *testing.T) {
	numbers := map[int64]string{}
	for cause := range messages.Cause_name {
		for _, of := range []int64{0, 1, 2, 3, 1 << 40, 1<<48 - 1} {
			w := &messages.WarnTask{Cause: messages.Cause(cause), Of: of}
			n := endOf(w)
			if other := numbers[n]; other != "" || n < 0 || n != endOf(w) {
				t.Errorf("%v has the number %d, as %q", w, n, other)
			}
			numbers[n] = w.String()
		}
	}
}
