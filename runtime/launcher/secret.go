package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file owns the secrets of jobs on a machine: each task fetches its own, they are in this agent's memory until the
// task starts, and then in its supervisor's. They are on no disk, whatever file is written for a task. An agent that
// comes later has none, and fetches them again.

// fetchSecrets gets the secrets of the task's job, all that its spec names.
func (t *task) fetchSecrets(ctx context.Context) error {
	names := t.Spec.GetSecrets()
	if len(names) == 0 {
		return nil
	}
	if t.l.o.Secrets == nil {
		return fault.OfMachine(errors.New("secrets: this agent fetches none"))
	}
	secrets, err := t.l.o.Secrets(ctx, t.Job, messages.ToToken(t.Key.Token))
	if err != nil {
		return fmt.Errorf("secrets: %w", err)
	}
	same := func(a, b *messages.Secret) bool { return a.GetName() == b.GetName() && a.GetEnv() == b.GetEnv() }
	if !slices.EqualFunc(names, secrets, same) {
		return errors.New("secrets: what the scheduler sent is not what the job names")
	}
	t.fetched.Lock()
	defer t.fetched.Unlock()
	t.secrets = secrets
	return nil
}

// takeSecrets returns the fetched secrets and forgets them.
func (t *task) takeSecrets() []*messages.Secret {
	t.fetched.Lock()
	defer t.fetched.Unlock()
	secrets := t.secrets
	t.secrets = nil
	return secrets
}

// lacksSecrets reports whether they have to be fetched before the task can start.
func (t *task) lacksSecrets() bool {
	t.fetched.Lock()
	defer t.fetched.Unlock()
	return len(t.Spec.GetSecrets()) > 0 && t.secrets == nil
}

// handSecrets gives them to the supervisor that spec is for, in memory that has no name anywhere.
func (t *task) handSecrets(spec *supervisor.Spec) error {
	secrets := t.takeSecrets()
	if len(secrets) == 0 {
		return nil
	}
	fd, err := unix.MemfdCreate("secrets", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("secrets: %w", err)
	}
	file := os.NewFile(uintptr(fd), "secrets")
	handed := make([]supervisor.Secret, len(secrets))
	for i, s := range secrets {
		handed[i] = supervisor.Secret{Name: s.GetName(), Env: s.GetEnv(), Value: s.GetValue()}
	}
	if err := json.NewEncoder(file).Encode(handed); err != nil {
		return errors.Join(fmt.Errorf("secrets: %w", err), file.Close())
	}
	spec.Secrets = supervisor.FirstHeld + len(spec.Held)
	spec.Held = append(spec.Held, file)
	return nil
}
