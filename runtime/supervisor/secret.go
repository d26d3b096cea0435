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

// This file owns a task's secrets: they come in memory, and go into the task's environment, or into files of its
// container that are in memory too. The specification on disk never has them.

// Secret is one of a task's.
type Secret struct {
	Name  string `json:"name"`
	Env   bool   `json:"env,omitempty"` // a variable; else a file
	Value []byte `json:"value"`
}

// maxSecrets bounds what is read of them.
const maxSecrets = 1 << 20

// takeSecrets reads them, and puts them where the task gets them.
func (k *keeper) takeSecrets() error {
	if k.spec.Secrets == 0 {
		return nil
	}
	handed := os.NewFile(uintptr(k.spec.Secrets), "secrets")
	defer handed.Close()
	// The agent wrote there through the same descriptor, and left it at the end.
	text, err := io.ReadAll(io.NewSectionReader(handed, 0, maxSecrets))
	if err != nil {
		return fmt.Errorf("secrets: %w", err)
	}
	var secrets []Secret
	if json.Unmarshal(text, &secrets) != nil { // what it says of them could have a part of one
		return errors.New("secrets: the agent did not hand them over whole")
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
			return fmt.Errorf("secrets: %s cannot be given to the task in this way here", s.Name)
		}
	}
	return nil
}
