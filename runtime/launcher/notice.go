package launcher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/environment"
)

// This file owns what a task is told ahead of its end: a file that appears beside its list of machines, and a signal.
// The file is there before the signal is sent, so that a task that looks at it then finds it. It is left in a
// directory that belongs to the task, and nothing that the task has put in its way is followed.

const noticeName = "synapse-notice"

// Notice is where a task finds when it will be stopped: in its scratch directory.
func Notice(scratch string) string { return filepath.Join(scratch, noticeName) }

// onWarn tells a task of its end. What cannot be told is not answered, and so said again.
func (t *task) onWarn(c *messages.WarnTask, to *actor.PID) {
	t.to = to
	if t.link == nil || t.phase != phaseRunning {
		return
	}
	err := t.writeNotice(c)
	if c.Cause != messages.Cause_CAUSE_UNSPECIFIED {
		err = errors.Join(err, t.link.Warn(int(c.Signal), endOf(c)))
	}
	switch {
	case err == nil:
		t.l.send(to, &messages.TaskWarned{Id: messages.ToTaskID(t.Key), Number: c.Number})
	case !t.unwarned:
		t.unwarned = true // what a task can bring about is logged once
		t.l.o.Log.Info("Task %v cannot be warned of its end: %v", t.Key, err)
	}
}

// endOf is a number for one end of a task, by which the supervisor knows it again: what it is, and which of its kind.
func endOf(c *messages.WarnTask) int64 { return int64(c.Cause)<<48 | c.Of }

// writeNotice puts the notice in place in one step, or takes it away.
func (t *task) writeNotice(c *messages.WarnTask) error {
	path := Notice(t.Scratch)
	if c.Cause == messages.Cause_CAUSE_UNSPECIFIED {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("notice: %w", err)
		}
		return nil
	}
	next := filepath.Join(t.Scratch, "."+noticeName)
	if err := writeNew(next, []byte(noticeText(c, time.Now())), 0o644); err != nil {
		return fmt.Errorf("notice: %w", err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("notice: %w", errors.Join(err, os.Remove(next)))
	}
	return nil
}

// noticeText returns the notice, in lines that a shell can source. docs/jobs/checkpoints.md has the format. Lines may
// be added.
func noticeText(c *messages.WarnTask, now time.Time) string {
	reason := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(c.Cause.String(), "CAUSE_"), "_", "-"))
	left := time.Duration(c.LeftMs) * time.Millisecond
	return fmt.Sprintf("reason=%s\nleft_seconds=%d\nends_unix_seconds=%d\n", reason, left/time.Second,
		now.Add(left).Unix())
}

// removeOwn takes out of a task's scratch directory what is of no use after its end, and reports whether the directory
// went with that, because there was nothing else in it.
func (t *task) removeOwn() bool {
	t.removeHelper()
	own := []string{Notice(t.Scratch), Hostfile(t.Scratch) + environment.HydraSuffix}
	if s := t.Spec.GetScript(); s != nil {
		own = append(own, filepath.Join(t.Scratch, s.Name))
	}
	for _, path := range own {
		_ = os.Remove(path)
	}
	return os.Remove(Hostfile(t.Scratch)) == nil && os.Remove(t.Scratch) == nil
}
