package environment

import (
	"testing"

	"github.com/yi-json/synapse/messages"
)

// TestKubeflow checks that a task finds the endpoint and reaches it directly, even if its job names a proxy. The job
// may set the variables itself, and a job without a proxy gets no exceptions from one.
func TestKubeflow(t *testing.T) {
	offered := &Kubeflow{"http://127.0.0.1:7/progress", "/scratch/token", "/scratch/ca"}
	for _, k := range []struct {
		name string
		set  []*messages.EnvVar
		want map[string]string
	}{
		{"plain", nil, map[string]string{
			"KUBEFLOW_TRAINER_SERVER_URL": offered.URL, "KUBEFLOW_TRAINER_SERVER_TOKEN": offered.Token,
			"KUBEFLOW_TRAINER_SERVER_CA_CERT": offered.Authority, "no_proxy": "", "NO_PROXY": "",
		}},
		{"a proxy", []*messages.EnvVar{{Name: "http_proxy", Value: "p"}}, map[string]string{
			"http_proxy": "p", "no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1",
		}},
		{"a proxy with exceptions", []*messages.EnvVar{{Name: "HTTP_PROXY", Value: "p"}, {Name: "no_proxy", Value: ".corp"}},
			map[string]string{"no_proxy": ".corp,127.0.0.1", "NO_PROXY": ""}},
		{"its own", []*messages.EnvVar{{Name: "KUBEFLOW_TRAINER_SERVER_URL", Value: "mine"}}, map[string]string{
			"KUBEFLOW_TRAINER_SERVER_URL": "mine",
		}},
	} {
		s := gang(1, 0)
		s.Start.Spec.Env, s.Kubeflow = k.set, offered
		env := of(t, s)
		for name, want := range k.want {
			if env[name] != want {
				t.Errorf("%s: %s is %q, want %q", k.name, name, env[name], want)
			}
		}
		s.Kubeflow = nil
		if env := of(t, s); env["KUBEFLOW_TRAINER_SERVER_TOKEN"] != "" || env["NO_PROXY"] != "" {
			t.Errorf("%s: a task without the endpoint has variables of it", k.name)
		}
	}
}
