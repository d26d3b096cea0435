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

// This file owns the scripts of jobs. Each text is fetched once and kept for as long as a task on this node may run it.
// It is copied into the scratch directory of each of these tasks, which may change the copy. For a driver, the script
// is an ordinary command.

// scriptsDir has one file per text, named by its digest.
const scriptsDir = "scripts"

// withScript returns the spec with its script as the command. It changes a copy, because others share the spec.
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

// scriptText returns the text of a script, from the disk if possible. One task fetches it, and other tasks wait for it.
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
		return nil, fault.OfMachine(errors.New("this node agent cannot fetch scripts"))
	}
	text, err := l.o.Scripts(ctx, digest)
	if err != nil {
		return nil, err
	}
	if messages.ScriptDigest(text) != digest {
		return nil, fault.OfMachine(fmt.Errorf("the scheduler sent a text that does not have the digest %s", digest))
	}
	return text, fault.OfMachine(file.Replace(path, text))
}

// fetching waits until no other task fetches this text. The caller must call done, which lets the next one begin.
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

// letGo removes a task's script text unless another task here needs it. The caller holds the launcher's lock.
func (l *Launcher) letGo(t *task) {
	if t.script == "" {
		return
	}
	if l.scripts[t.script]--; l.scripts[t.script] == 0 {
		delete(l.scripts, t.script)
		_ = os.Remove(filepath.Join(l.o.Dir, scriptsDir, t.script)) // the next start removes a leftover
	}
	t.script = ""
}

// sweepScripts removes the scripts of an earlier agent that no task needs.
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
