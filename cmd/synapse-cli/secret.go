package main

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file reads the values of a job's secrets: from a file, the environment, or a terminal prompt. A value is
// never on the command line, which other users of the host can read, and never in an error.

// secretFlags holds the flags for secrets. With a job file or --from, they define the sources of the job's secrets.
// Otherwise they also add the secrets to the job.
type secretFlags struct {
	files, env []string
	sources    []map[string]jobfile.Source // of the jobs of a file, in order
}

func (s *secretFlags) add(f *pflag.FlagSet) {
	f.StringArrayVar(&s.files, "secret", nil,
		"secret for the tasks, as the file /run/secrets/NAME: `NAME=@FILE` reads a local file (- is standard input), "+
			"NAME=env reads the local environment variable NAME")
	f.StringArrayVar(&s.env, "secret-env", nil,
		"secret for the tasks, as an environment variable: `NAME=@FILE` reads a local file (- is standard input), "+
			"NAME=env reads the local environment variable NAME")
}

// named returns the secrets that the flags define, with their sources.
func (s *secretFlags) named() (secrets []*messages.Secret, from map[string]jobfile.Source, err error) {
	from = map[string]jobfile.Source{}
	for i, entry := range slices.Concat(s.files, s.env) {
		flag, env := "secret", i >= len(s.files)
		if env {
			flag = "secret-env"
		}
		name, value, _ := strings.Cut(entry, "=")
		file, isFile := strings.CutPrefix(value, "@")
		switch _, twice := from[name]; {
		case name == "":
			return nil, nil, exit.Hint("write NAME=@FILE or NAME=env", "--%s: secret name is missing", flag)
		case twice:
			return nil, nil, exit.Usage("secret %s is given twice", name)
		case isFile && file != "":
			from[name] = jobfile.Source{File: file}
		case value == "env":
			from[name] = jobfile.Source{Env: name}
		default: // the text may be a secret value
			return nil, nil, exit.Hint("write NAME=@FILE, or NAME=env to read the variable of that name",
				"--%s %s: a secret's value is not accepted on the command line, where other users can read it", flag,
				name)
		}
		secrets = append(secrets, &messages.Secret{Name: name, Env: env})
	}
	return secrets, from, nil
}

// nameSecrets adds the secrets to a job that flags describe. A job file, or --from, names its secrets itself.
func (s *secretFlags) nameSecrets(specs []*messages.JobSpec, described bool) error {
	secrets, _, err := s.named()
	if err != nil {
		return err
	}
	for _, spec := range specs {
		if described {
			spec.Secrets = secrets
		}
	}
	for _, secret := range secrets {
		if !slices.ContainsFunc(specs, func(spec *messages.JobSpec) bool {
			return slices.ContainsFunc(spec.GetSecrets(), func(o *messages.Secret) bool {
				return o.GetName() == secret.GetName()
			})
		}) {
			return exit.Hint("name the secret under `secrets` in the file", "unknown secret %s: no job here uses it",
				secret.GetName())
		}
	}
	return nil
}

// fillSecrets reads the values for the jobs that will be submitted.
func (a *app) fillSecrets(s *submission, specs []*messages.JobSpec) error {
	_, given, err := s.secretFlags.named()
	if err != nil {
		return err
	}
	for i, spec := range specs {
		for _, secret := range spec.GetSecrets() {
			from, ok := given[secret.GetName()]
			if !ok && i < len(s.sources) {
				from = s.sources[i][secret.GetName()]
			}
			if secret.Value, err = a.secretValue(secret.GetName(), from); err != nil {
				return err
			}
		}
		if err := errors.Join(jobfile.Valid(spec), spec.HasSecretValues()); err != nil {
			return refusedSpec(err)
		}
	}
	return nil
}

// secretValue reads a value. A newline at the end of a file belongs to the value, because key files end with one. A
// variable has none.
func (a *app) secretValue(name string, from jobfile.Source) ([]byte, error) {
	switch {
	case from.Env != "":
		value, ok := a.lookup(from.Env)
		if !ok || value == "" {
			return nil, exit.Hint("set the variable, or add --secret "+name+"=@FILE",
				"secret %s: environment variable %s is not set", name,
				from.Env)
		}
		return []byte(value), nil
	case from.File == "-":
		return bounded(name, a.stdin)
	case from.File != "":
		file, err := os.Open(from.File)
		if err != nil {
			return nil, exit.Usage("secret %s: %s", name, err)
		}
		defer file.Close()
		return bounded(name, file)
	}
	if file, ok := a.stdin.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		a.say("Value of secret %s (not shown while you type):", name)
		return term.ReadPassword(int(file.Fd()))
	}
	return nil, exit.Hint("add --secret "+name+"=@FILE, or --secret "+name+"=env to read the variable of "+
		"that name",
		"secret %s: value is missing: secrets are not stored with the job file", name)
}

func bounded(name string, from io.Reader) ([]byte, error) {
	value, err := io.ReadAll(io.LimitReader(from, messages.MaxSecretBytes+1))
	switch {
	case err != nil:
		return nil, exit.Usage("secret %s: %s", name, err)
	case len(value) > messages.MaxSecretBytes:
		return nil, exit.Usage("secret %s: value is larger than %d bytes", name, messages.MaxSecretBytes)
	}
	return value, nil
}
