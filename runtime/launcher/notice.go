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
	"github.com/yi-json/synapse/runtime/progress"
)

// This file warns a task of its end with a file and a signal. The file is in the scratch directory, next to the list of
// nodes. It is written before the signal, so a task that gets the signal finds the file. The directory belongs to the
// task, so the launcher follows no link in it.

const noticeName = "synapse-notice"

// notices holds what the launcher must know about the notices of a task.
type notices struct {
	failed   bool      // a failed warning was logged
	idleTold time.Time // when the task was last told that it does nothing; zero: never
}

// Notice returns the path of the notice in a task's scratch directory.
func Notice(scratch string) string { return filepath.Join(scratch, noticeName) }

// onWarn warns a task of its end. It does not answer a failed warning, so the Node sends the warning again.
func (t *task) onWarn(c *messages.WarnTask, to *actor.PID) {
	t.to = to
	if t.link == nil || t.phase != phaseRunning {
		return
	}
	err := t.writeNotice(c)
	if !withdrawn(c) && c.Signal != 0 && !t.idleKnown(c) {
		err = errors.Join(err, t.link.Warn(int(c.Signal), endOf(c)))
	}
	if c.Request != 0 && t.savesBySocket() && t.execs == nil {
		err = errors.Join(err, errNoSocket)
	}
	if err == nil {
		if c.IdleMs > 0 {
			t.notices.idleTold = time.Now()
		}
		t.l.send(to, &messages.TaskWarned{Id: messages.ToTaskID(t.Key), Number: c.Number})
		t.progress.saves.begin(c.Request)
		t.followSaved()
		return
	}
	if c.Request != 0 {
		t.l.send(to, t.notAsked(c.Request, err))
	}
	if !t.notices.failed {
		t.notices.failed = true // a task can cause this, so it is logged once
		t.l.o.Log.Info("Task %v cannot be warned before it is stopped: %v", t.Key, err)
	}
}

// withdrawn reports whether an earlier warning no longer applies.
func withdrawn(c *messages.WarnTask) bool {
	return c.Cause == messages.Cause_CAUSE_UNSPECIFIED && c.Request == 0 && c.IdleMs == 0
}

// idleKnown reports whether the task had a notice in the same idle time. The leader may have changed meanwhile.
func (t *task) idleKnown(c *messages.WarnTask) bool {
	last, idle := t.notices.idleTold, time.Duration(c.IdleMs)*time.Millisecond
	return idle > 0 && !last.IsZero() && time.Since(last) <= idle
}

// endOf returns a number for one end of a task: its cause and its number within that cause, the number of the request
// to save, or the number of an idle time. The supervisor uses it to detect repeated warnings.
func endOf(c *messages.WarnTask) int64 {
	if c.Request != 0 {
		return 1<<62 | int64(c.Request)
	}
	if c.IdleMs > 0 {
		return 1<<61 | c.Of
	}
	return int64(c.Cause)<<48 | c.Of
}

// writeNotice replaces the notice in one step, or removes it.
func (t *task) writeNotice(c *messages.WarnTask) error {
	path := Notice(t.Scratch)
	if withdrawn(c) {
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

// noticeText returns the notice as lines that a shell can source. docs/jobs/checkpoints.md describes the format. Future
// versions may add lines.
func noticeText(c *messages.WarnTask, now time.Time) string {
	reason := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(c.Cause.String(), "CAUSE_"), "_", "-"))
	if c.IdleMs > 0 {
		return fmt.Sprintf("action=idle\nreason=idle\nidle_seconds=%d\n", c.IdleMs/1000)
	}
	left := time.Duration(c.LeftMs) * time.Millisecond
	ends := now.Add(left).Unix()
	if c.Request == 0 {
		return fmt.Sprintf("reason=%s\nleft_seconds=%d\nends_unix_seconds=%d\n", reason, left/time.Second, ends)
	}
	if c.Cause == messages.Cause_CAUSE_UNSPECIFIED {
		reason = "user"
	}
	subject := c.Subject
	if strings.ContainsFunc(subject, func(r rune) bool { return !strings.ContainsRune(inShell, r) }) {
		subject = "" // a shell would not read it as one word
	}
	return fmt.Sprintf("action=checkpoint\nrequest=%d\nreason=%s\nsubject=%s\nleft_seconds=%d\n"+
		"deadline_unix_seconds=%d\nends_unix_seconds=%d\n", c.Request, reason, subject, left/time.Second, ends, ends)
}

// inShell are the characters that have no meaning of their own in a shell.
const inShell = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@:/+-"

// removeOwn removes the launcher's files from a task's scratch directory after the task's end. It reports whether the
// directory was then empty and was removed too.
func (t *task) removeOwn() bool {
	t.removeHelper()
	own := []string{Notice(t.Scratch), Progress(t.Scratch),
		filepath.Join(t.Scratch, progress.SavedName(int32(t.Key.Rank))), Hostfile(t.Scratch) + environment.HydraSuffix}
	if s := t.Spec.GetScript(); s != nil {
		own = append(own, filepath.Join(t.Scratch, s.Name))
	}
	own = append(own, kubeflowFiles(t.Scratch)...)
	for _, path := range own {
		_ = os.Remove(path)
	}
	return os.Remove(Hostfile(t.Scratch)) == nil && os.Remove(t.Scratch) == nil
}
