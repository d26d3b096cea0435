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

// This file owns the secrets of jobs on a node. Each task fetches its own secrets. They are in the agent's memory until
// the task starts, and then in its supervisor's memory. They are never on a disk, not even in a task's files. A later
// agent fetches them again.

// fetchSecrets fetches all secrets that the job's spec names.
func (t *task) fetchSecrets(ctx context.Context) error {
	names := t.Spec.GetSecrets()
	if len(names) == 0 {
		return nil
	}
	if t.l.o.Secrets == nil {
		return fault.OfMachine(errors.New("secrets: this node agent cannot fetch secrets"))
	}
	secrets, err := t.l.o.Secrets(ctx, t.Job, messages.ToToken(t.Key.Token))
	if err != nil {
		return fmt.Errorf("secrets: %w", err)
	}
	same := func(a, b *messages.Secret) bool { return a.GetName() == b.GetName() && a.GetEnv() == b.GetEnv() }
	if !slices.EqualFunc(names, secrets, same) {
		return errors.New("secrets: the scheduler sent other secrets than the job names")
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

// lacksSecrets reports whether the secrets must be fetched before the task can start.
func (t *task) lacksSecrets() bool {
	t.fetched.Lock()
	defer t.fetched.Unlock()
	return len(t.Spec.GetSecrets()) > 0 && t.secrets == nil
}

// handSecrets passes the secrets to the supervisor of spec in anonymous memory.
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
