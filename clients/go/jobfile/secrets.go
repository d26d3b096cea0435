package jobfile

import (
	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/messages"
)

// This file parses the secrets of a job file: their names, their use in tasks, and the sources of their
// values. A job file cannot contain a value.

// Source holds where the value of a secret is read from on submit. An empty Source asks the user.
type Source struct {
	File string // a local file
	Env  string // a local environment variable
}

// Secret holds one secret of a job file.
type Secret struct {
	Name string `json:"name" yaml:"name"`
	Env  bool   `json:"env,omitempty" yaml:"env,omitempty"`
}

func readSecrets(r *reader, n *yaml.Node, path string) {
	r.list(n, path, "secrets", "write [{name: token, fromFile: token.txt}]", func(part *yaml.Node, path, field string) {
		s, from := &messages.Secret{}, Source{}
		if !r.part(part, path, field, "a secret", []partKey{
			{"name", func(v *yaml.Node, at string) { s.Name, _ = r.scalar(v, at, "a name") }},
			{"env", func(v *yaml.Node, at string) { s.Env = r.boolean(v, at) }},
			{"fromFile", func(v *yaml.Node, at string) { from.File, _ = r.scalar(v, at, "a path") }},
			{"fromEnv", func(v *yaml.Node, at string) { from.Env, _ = r.scalar(v, at, "the name of a variable") }},
		}) {
			return
		}
		if from.File != "" && from.Env != "" {
			r.refuse(part, path, say("omit one of them", "has both a file and a variable"))
		}
		if from != (Source{}) {
			r.sources[s.Name] = from
		}
		r.spec.Secrets = append(r.spec.Secrets, s)
	})
}

// FormatSecrets returns the secrets of a job in the structure of its file, without their sources, which are
// unknown.
func FormatSecrets(secrets []*messages.Secret) []Secret {
	var all []Secret
	for _, s := range secrets {
		all = append(all, Secret{s.GetName(), s.GetEnv()})
	}
	return all
}
