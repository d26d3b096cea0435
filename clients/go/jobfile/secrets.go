package jobfile

import (
	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/messages"
)

// This file owns the secrets of a job file: their names, how tasks get them, and where the values are. A value itself
// has no place in it.

// Source is where the value of a secret comes from when the job is submitted; nowhere: it is asked for.
type Source struct {
	File string // a file here
	Env  string // a variable here
}

// Secret is one of a job, in a file.
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

// FormatSecrets are the secrets of a job as its file has them. Where the values came from is not known any more.
func FormatSecrets(secrets []*messages.Secret) []Secret {
	var all []Secret
	for _, s := range secrets {
		all = append(all, Secret{s.GetName(), s.GetEnv()})
	}
	return all
}
