package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// runs runs a command of the program on a file of settings, and answers what it says and why it failed.
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

// TestConfigShow: the section of the policy is shown with the flags, and a database's password is not.
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

// TestBackupTakesTheSchedulersFile: the commands beside the scheduler are given its settings as they are, with the
// section that has no flag.
func TestBackupTakesTheSchedulersFile(t *testing.T) {
	folder := t.TempDir()
	_, err := runs(t, command(), "data-dir: "+folder+"\npolicy: {order: expected}\n", "backup", filepath.Join(folder, "b"))
	if err == nil || strings.Contains(err.Error(), "policy") {
		t.Errorf("a folder without records: %v", err)
	}
}
