package launcher

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/runtime/file"
)

// This file owns the scripts of jobs: each text is fetched once, kept for as long as a task here may run it, and copied
// into the scratch directory of each of those tasks, which may run and change its copy. To a driver it is an ordinary
// command.

// scriptsDir has one file for each text, named by its digest.
const scriptsDir = "scripts"

// withScript is the spec with its script as its command. Others hold the spec, so it is changed in a copy.
func (t *task) withScript(spec *messages.JobSpec) *messages.JobSpec {
	s := spec.GetScript()
	if s == nil {
		return spec
	}
	spec = proto.Clone(spec).(*messages.JobSpec)
	spec.Command = append([]string{filepath.Join(t.driver.Scratch(&t.Task), s.Name)}, s.Args...)
	t.l.mu.Lock()
	defer t.l.mu.Unlock()
	if t.script == "" {
		t.script = s.Digest
		t.l.scripts[s.Digest]++
	}
	return spec
}

// placeScript puts the task's own copy into its scratch directory. The file is closed before the task runs: a file that
// is open for writing cannot be executed.
func (t *task) placeScript(ctx context.Context) error {
	s := t.Spec.GetScript()
	if s == nil {
		return nil
	}
	text, err := t.l.scriptText(ctx, s.Digest)
	if err != nil {
		return fmt.Errorf("script: %w", err)
	}
	if err := writeNew(filepath.Join(t.Scratch, s.Name), text, 0o755); err != nil {
		return fault.OfMachine(fmt.Errorf("script: %w", err))
	}
	return nil
}

// scriptText is a script's text, from the disk if it is there. One task fetches it, and the others wait for that.
func (l *Launcher) scriptText(ctx context.Context, digest string) ([]byte, error) {
	done, err := l.fetching(ctx, digest)
	if err != nil {
		return nil, err
	}
	defer done()
	path := filepath.Join(l.o.Dir, scriptsDir, digest)
	if text, err := os.ReadFile(path); err == nil && messages.ScriptDigest(text) == digest {
		return text, nil
	}
	if l.o.Scripts == nil {
		return nil, fault.OfMachine(errors.New("this agent fetches none"))
	}
	text, err := l.o.Scripts(ctx, digest)
	if err != nil {
		return nil, err
	}
	if messages.ScriptDigest(text) != digest {
		return nil, fault.OfMachine(fmt.Errorf("what the scheduler sent is not the text of %s", digest))
	}
	return text, fault.OfMachine(file.Replace(path, text))
}

// fetching waits until nobody else fetches this text. done lets the next one begin.
func (l *Launcher) fetching(ctx context.Context, digest string) (done func(), err error) {
	for {
		l.mu.Lock()
		wait := l.fetches[digest]
		if wait == nil {
			mine := make(chan struct{})
			l.fetches[digest] = mine
			l.mu.Unlock()
			return func() {
				l.mu.Lock()
				delete(l.fetches, digest)
				l.mu.Unlock()
				close(mine)
			}, nil
		}
		l.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// letGo removes a task's script text unless another task here needs it. The lock is held.
func (l *Launcher) letGo(t *task) {
	if t.script == "" {
		return
	}
	if l.scripts[t.script]--; l.scripts[t.script] == 0 {
		delete(l.scripts, t.script)
		_ = os.Remove(filepath.Join(l.o.Dir, scriptsDir, t.script)) // what stays is removed at the next start
	}
	t.script = ""
}

// sweepScripts removes what an earlier agent fetched and no task needs any more.
func (l *Launcher) sweepScripts() error {
	entries, err := os.ReadDir(filepath.Join(l.o.Dir, scriptsDir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if l.scripts[e.Name()] == 0 {
			if err := os.Remove(filepath.Join(l.o.Dir, scriptsDir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeNew writes a file for the task. It follows no link that an image or another task put there.
func writeNew(name string, text []byte, mode fs.FileMode) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Chmod(mode)
	}
	return errors.Join(err, file.Close())
}
