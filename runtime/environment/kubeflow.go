package environment

import (
	"slices"
	"strings"
)

// This file contains the variables of the Kubeflow Trainer progress protocol.

// Kubeflow describes the endpoint of the protocol as the task sees it.
type Kubeflow struct {
	URL       string
	Token     string // path of a file
	Authority string // path of a file
}

// variables returns the protocol's variables. A job may set them itself.
func (k *Kubeflow) variables() []variable {
	if k == nil {
		return nil
	}
	return []variable{
		{"KUBEFLOW_TRAINER_SERVER_URL", k.URL}, {"KUBEFLOW_TRAINER_SERVER_CA_CERT", k.Authority},
		{"KUBEFLOW_TRAINER_SERVER_TOKEN", k.Token},
	}
}

const loopback = "127.0.0.1"

// direct adds loopback to the exceptions from the job's proxy, because clients of the protocol use the proxy of the
// environment. It returns the job's variables with this change.
func (k *Kubeflow) direct(users []variable) []variable {
	named := func(names ...string) bool {
		return slices.ContainsFunc(users, func(v variable) bool { return slices.Contains(names, v.name) })
	}
	if k == nil || !named("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY") {
		return users
	}
	if !named("no_proxy", "NO_PROXY") {
		return append(users, variable{"no_proxy", loopback}, variable{"NO_PROXY", loopback})
	}
	for i, v := range users {
		if v.name == "no_proxy" || v.name == "NO_PROXY" {
			users[i].value = strings.TrimPrefix(v.value+","+loopback, ",")
		}
	}
	return users
}
