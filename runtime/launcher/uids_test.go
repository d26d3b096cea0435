package launcher_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/account"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/process"
	"github.com/yi-json/synapse/topology"
)

// inUse returns the uids that the launcher reported last.
func (r *rig) inUse() (uids []uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.got {
		switch m := m.(type) {
		case *messages.TaskList:
			uids = m.Uids
		case *messages.UidsInUse:
			uids = m.Uids
		}
	}
	return uids
}

// TestUidsTold checks that the Node always knows the uids in use here, by tasks and by kept files, also after a
// restart. The Node is notified when the last use of a uid has ended.
func TestUidsTold(t *testing.T) {
	dir := room(t)
	change := func(o *launcher.Options) {
		o.KeepTasks = 2
		users := account.Rules{UIDs: topology.UIDRange{First: 2_000_000, Last: 2_000_009}}
		o.Drivers = []launcher.Driver{process.New(process.Options{Users: users})}
	}
	r := newRig(t, dir, change)
	r.tell(&messages.ListTasks{})
	tells := func(want ...uint32) {
		t.Helper()
		eventually(t, "it does not tell the uids that are in use", func() bool { return slices.Equal(r.inUse(), want) })
	}
	over := func(rank int32, job string, uid uint32) {
		t.Helper()
		p := prepareOf(rank, script("true"))
		p.Job, p.Uid = job, uid
		r.tell(p)
		eventually(t, "the uid is not reported", func() bool { return uid == 0 || slices.Contains(r.inUse(), uid) })
		r.tell(&messages.StopTask{Id: id(rank)})
		r.gone(rank)
		r.tell(&messages.ForgetTask{Id: id(rank)})
		kept := filepath.Join(dir, "kept", id(rank).Key().String())
		eventually(t, "it is not kept", func() bool {
			_, err := os.Stat(filepath.Join(kept,
				"scratch"))
			return err == nil
		})
		past := time.Now().Add(time.Duration(rank-100) * time.Minute)
		if err := os.Chtimes(kept, past, past); err != nil {
			t.Fatal(err)
		}
	}
	over(0, "first", 2_000_001)
	over(1, "first", 2_000_001)
	tells(2_000_001)
	over(2, "second", 2_000_002)
	tells(2_000_001, 2_000_002) // one folder of the first job is still kept
	over(3, "third", 0)         // without a uid
	tells(2_000_002)
	r.l.Close()
	r = newRig(t, dir, change)
	r.tell(&messages.ListTasks{})
	tells(2_000_002)
	next := prepareOf(4, script("true"))
	next.Job, next.Uid = "fourth", 2_000_002
	r.tell(next)
	take[*messages.TaskPrepared](r, 4)
	if _, err := os.Stat(filepath.Join(dir, "kept", id(2).Key().String())); err == nil {
		t.Fatal("what is kept of the second job is still there, under the uid of the fourth")
	}
	over(4, "fourth", 2_000_002)
	tells(2_000_002)
	over(5, "fifth", 2_000_003)
	over(6, "fifth", 2_000_003)
	tells(2_000_003)
}
