package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// This file tests that the error for an old name of a flag, variable or key contains the new name.

func TestRenamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(file, []byte("policy: /etc/policy.yaml\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := func() *pflag.FlagSet {
		f := pflag.NewFlagSet("synapse-node", pflag.ContinueOnError)
		Flag(f)
		f.String("job-policy", "", "")
		return f
	}
	old, now := RenamedFlag("synapse-node", flags().Parse([]string{"--policy", "x"}))
	if old != "policy" || now != "job-policy" {
		t.Errorf("the flag --%s is now --%s", old, now)
	}
	if _, now := RenamedFlag("synapse-node", flags().Parse([]string{"--nope"})); now != "" {
		t.Errorf("a flag that never was is now --%s", now)
	}
	none := func(string) (string, bool) { return "", false }
	f := flags()
	if err := f.Parse([]string{"--config", file}); err != nil {
		t.Fatal(err)
	}
	if _, err := Apply(f, "SYNAPSE_NODE_", none); err == nil || !strings.Contains(err.Error(), "use job-policy") {
		t.Errorf("the key: %v", err)
	}
	set := func(name string) (string, bool) { return "x", name == "SYNAPSE_NODE_POLICY" }
	_, err := Apply(flags(), "SYNAPSE_NODE_", set)
	if err == nil || !strings.Contains(err.Error(), "use SYNAPSE_NODE_JOB_POLICY") {
		t.Errorf("the variable: %v", err)
	}
}
