package messages

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/topology"
)

// This file owns what the secrets of a job are. A spec names them and says how its tasks get them. The values stand in
// it only between a client and a gateway: there they are taken out and sealed, and whatever is kept, shown or sent to
// an actor has the names alone.

const (
	// MaxSecrets bounds the secrets of a job.
	MaxSecrets = 32
	// MaxSecretBytes bounds their values together: they are in the job's record, and so in the leader's memory.
	MaxSecretBytes = 64 << 10
	// maxSealedBytes bounds them as they are sealed.
	maxSealedBytes = 2 * MaxSecretBytes
	// SecretsDir is where a task in a container has those that are files.
	SecretsDir = "/run/secrets"
)

// The ways in which a machine can give a secret to a task, as they are selected.
const (
	secretFile = "files"
	secretEnv  = "variables"
)

// SecretLabels are by what a job selects the machines that can give its secrets to its tasks. An agent of an earlier
// version announces neither way, and is given no such job.
func SecretLabels(secrets []*Secret) []topology.Label {
	var files, env bool
	for _, s := range secrets {
		files, env = files || !s.GetEnv(), env || s.GetEnv()
	}
	return secretLabels(files, env)
}

// SecretLabels returns the labels of a node for the ways of passing secrets that it announces.
func (x *Announcement) SecretLabels() []topology.Label {
	return secretLabels(x.GetSecretFiles(), x.GetSecretEnv())
}

func secretLabels(files, env bool) (labels []topology.Label) {
	if files {
		labels = append(labels, topology.Label{Key: topology.SecretKey, Value: secretFile})
	}
	if env {
		labels = append(labels, topology.Label{Key: topology.SecretKey, Value: secretEnv})
	}
	return labels
}

// validSecrets checks which secrets the job has, and their values where those are here.
func (x *JobSpec) validSecrets() error {
	bytes := 0
	for i, s := range x.GetSecrets() {
		bytes += len(s.GetValue())
		if s.GetEnv() && slices.ContainsFunc(x.GetEnv(), func(v *EnvVar) bool { return v.GetName() == s.GetName() }) {
			return in("secrets", at(i, refuse("name", fmt.Sprintf("%q is also in env", s.GetName()),
				"omit one of them")))
		}
	}
	if bytes > MaxSecretBytes {
		return refuse("secrets", fmt.Sprintf("are %d bytes, more than %d", bytes, MaxSecretBytes),
			"put large data where the nodes can read it, and only its key here")
	}
	return first(
		parts("secrets", x.GetSecrets(), 0, MaxSecrets),
		unique("secrets", x.GetSecrets(), (*Secret).GetName),
	)
}

func (x *Secret) valid() error {
	name := x.GetName()
	switch {
	case x.GetEnv() && ReservedEnv(name):
		return refuse("name", name+" is set by Synapse for each task", "use another name")
	case x.GetEnv():
		return (&EnvVar{Name: name, Value: string(x.GetValue())}).valid()
	case name == "" || len(name) > MaxNameBytes || !only(name, fileChar) || name[0] == '.' || name[0] == '-':
		return refuse("name", fmt.Sprintf("%q is not a valid name", short(name)),
			fmt.Sprintf("use 1 to %d letters, digits, '.', '_' and '-', starting with a letter, digit or '_'",
				MaxNameBytes))
	}
	return nil
}

// withoutSecrets refuses values where none belong.
func (x *JobSpec) withoutSecrets() error {
	for i, s := range x.GetSecrets() {
		if len(s.GetValue()) > 0 {
			return in("secrets", at(i, refuse("value", "is not allowed here", "use SubmitSecret")))
		}
	}
	return nil
}

// HasSecretValues refuses a secret without a value: the tasks would have an empty one.
func (x *JobSpec) HasSecretValues() error {
	for i, s := range x.GetSecrets() {
		if len(s.GetValue()) == 0 {
			return in("secrets", at(i, refuse("value", "of "+s.GetName()+" is missing", "send it with the job")))
		}
	}
	return nil
}

// TakeSecrets are the secrets of a spec with their values, and the spec without the values.
func (x *JobSpec) TakeSecrets() (*Secrets, *JobSpec) {
	bare := proto.Clone(x).(*JobSpec)
	for _, s := range bare.GetSecrets() {
		s.Value = nil
	}
	return &Secrets{Secrets: x.GetSecrets()}, bare
}

// Unsealed is the record as it is shown: without what is sealed in it.
func (x *JobRecord) Unsealed() *JobRecord {
	if len(x.GetSealed()) == 0 {
		return x
	}
	shown := x.Revise()
	shown.Sealed = nil
	return shown
}
