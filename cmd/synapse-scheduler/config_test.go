package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// runs runs a command of the program with a settings file, and returns its output and error.
func runs(t *testing.T, c *cobra.Command, text string, arguments ...string) (string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scheduler.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c.SetArgs(append(arguments, "--config", path))
	c.SetOut(&out)
	err := c.Execute()
	return out.String(), err
}

// TestConfigShow checks that the section policy is shown next to the flags, and that a database password is not
// shown.
func TestConfigShow(t *testing.T) {
	out, err := runs(t, command(), "store: postgres://synapse:hush@db/synapse\nlisten: 127.0.0.1:9000\n"+
		"policy: {order: expected, antiStarvationShare: 7}\n", "config", "show")
	if err != nil || strings.Contains(out, "hush") {
		t.Errorf("%v:\n%s", err, out)
	}
	for _, want := range []string{
		"store: postgres://synapse:xxxxx@db/synapse", "  antiStarvationShare: 7 ", "  order: expected ", ":3\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("there is no %q in\n%s", want, out)
		}
	}
	if _, err := runs(t, command(), "policy: {antiStarvationShare: 7, order: fifo}\n", "config", "check"); err == nil ||
		!strings.Contains(err.Error(), ":1:10: policy.antiStarvationShare: requires `order: expected`") {
		t.Errorf("a policy that makes no sense: %v", err)
	}
}

// TestBackupTakesTheSchedulersFile checks that the operator's commands accept the scheduler's settings file,
// including sections without flags.
func TestBackupTakesTheSchedulersFile(t *testing.T) {
	folder := t.TempDir()
	_, err := runs(t, command(), "data-dir: "+folder+"\npolicy: {order: expected}\n", "backup", filepath.Join(folder, "b"))
	if err == nil || strings.Contains(err.Error(), "policy") {
		t.Errorf("a folder without records: %v", err)
	}
}
