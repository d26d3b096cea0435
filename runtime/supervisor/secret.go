package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/yi-json/synapse/runtime/carapace"
)

// This file owns a task's secrets. They arrive in memory, and are passed as variables or as in-memory files of the
// container. The specification on disk never contains them.

// Secret is one secret of a task.
type Secret struct {
	Name  string `json:"name"`
	Env   bool   `json:"env,omitempty"` // a variable; otherwise a file
	Value []byte `json:"value"`
}

// maxSecrets bounds the size of all secrets.
const maxSecrets = 1 << 20

// takeSecrets reads the secrets and passes them to the task.
func (k *keeper) takeSecrets() error {
	if k.spec.Secrets == 0 {
		return nil
	}
	handed := os.NewFile(uintptr(k.spec.Secrets), "secrets")
	defer handed.Close()
	// The agent wrote through the same descriptor, so its offset is at the end.
	text, err := io.ReadAll(io.NewSectionReader(handed, 0, maxSecrets))
	if err != nil {
		return fmt.Errorf("secrets: %w", err)
	}
	var secrets []Secret
	if json.Unmarshal(text, &secrets) != nil { // the parse error could quote a part of a secret
		return errors.New("secrets: the agent passed an incomplete list")
	}
	env, files := &k.spec.Env, (*[]carapace.Secret)(nil)
	switch {
	case k.spec.Container != nil:
		env, files = &k.spec.Container.Spec.Env, &k.spec.Container.Spec.Secrets
	case k.spec.Detached != nil:
		env, files = nil, &k.spec.Detached.Root.Secrets
	}
	for _, s := range secrets {
		switch {
		case s.Env && env != nil:
			*env = slices.DeleteFunc(*env, func(line string) bool { return strings.HasPrefix(line, s.Name+"=") })
			*env = append(*env, s.Name+"="+string(s.Value))
		case !s.Env && files != nil:
			*files = append(*files, carapace.Secret{Name: s.Name, Value: s.Value})
		default:
			return fmt.Errorf("secrets: this driver cannot pass %s in this form; use a file instead of a variable, or "+
				"a variable instead of a file", s.Name)
		}
	}
	return nil
}
