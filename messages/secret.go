package messages

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/topology"
)

// This file has the secrets of a job. A spec has their names and the way in which tasks get them. The values are in the
// spec only between client and gateway. The gateway seals the values and removes them from the spec. Records, replies
// and actors have only the names.

const (
	// MaxSecrets limits the number of a job's secrets.
	MaxSecrets = 32
	// MaxSecretBytes limits the sum of their values, which are in the job's record and therefore in the leader's
	// memory.
	MaxSecretBytes = 64 << 10
	// maxSealedBytes limits the size of the sealed secrets.
	maxSealedBytes = 2 * MaxSecretBytes
	// SecretsDir is the directory of secret files in a container.
	SecretsDir = "/run/secrets"
)

// These label values name the ways in which a node can give a secret to a task.
const (
	secretFile = "files"
	secretEnv  = "variables"
)

// SecretLabels returns the labels by which a job selects nodes that can give its secrets to its tasks. An agent of an
// older version announces neither way, so it gets no job with secrets.
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

// validSecrets checks the secrets of a job, and their values if the message has them.
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

// withoutSecrets refuses values in messages that must not have them.
func (x *JobSpec) withoutSecrets() error {
	for i, s := range x.GetSecrets() {
		if len(s.GetValue()) > 0 {
			return in("secrets", at(i, refuse("value", "is not allowed here", "use SubmitSecret")))
		}
	}
	return nil
}

// HasSecretValues refuses a secret without a value, because the tasks would get an empty one.
func (x *JobSpec) HasSecretValues() error {
	for i, s := range x.GetSecrets() {
		if len(s.GetValue()) == 0 {
			return in("secrets", at(i, refuse("value", "of "+s.GetName()+" is missing", "send it with the job")))
		}
	}
	return nil
}

// TakeSecrets splits a spec into its secrets with their values and the spec without the values.
func (x *JobSpec) TakeSecrets() (*Secrets, *JobSpec) {
	bare := proto.Clone(x).(*JobSpec)
	for _, s := range bare.GetSecrets() {
		s.Value = nil
	}
	return &Secrets{Secrets: x.GetSecrets()}, bare
}

// Unsealed returns the record without the sealed secrets, for display.
func (x *JobRecord) Unsealed() *JobRecord {
	if len(x.GetSealed()) == 0 {
		return x
	}
	shown := x.Revise()
	shown.Sealed = nil
	return shown
}
