package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAgentKilledSlowGPUs checks a node whose driver takes seconds to answer. The next agent must start as fast as
// elsewhere and adopt the task on its GPU.
func TestAgentKilledSlowGPUs(t *testing.T) {
	c := newCluster(t)
	dir := t.TempDir()
	const slow = 8 * time.Second
	script := `#!/bin/sh
sleep 8
[ "$1" = -q ] && cat <<EOF
<nvidia_smi_log><gpu id="00000000:01:00.0"><product_name>NVIDIA H100</product_name><uuid>GPU-1</uuid><minor_number>0</minor_number></gpu></nvidia_smi_log>
EOF
`
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	start := func() (*process, time.Duration) {
		began := time.Now()
		args := append([]string{"PATH=" + dir + ":" + os.Getenv("PATH"), filepath.Join(bin, "synapse-node")},
			c.agentArgs("n1", "r1", "--gpus=-1")...)
		p := launch(t, "n1", "/usr/bin/env", args...)
		p.says(t, "Success! Master says: Welcome to Synapse")
		return p, time.Since(began)
	}
	n, first := start()
	if first < slow {
		t.Fatalf("the first agent was welcomed after %s, before it queried the driver", first)
	}
	id := c.submit(gang(1, 1, `[ "$CUDA_VISIBLE_DEVICES" = GPU-1 ] && sleep 2; exit 7`))
	c.await(id, "running")
	n.kill()
	n, again := start()
	if again >= slow {
		t.Errorf("the next agent was welcomed after %s, but a query takes %s", again, slow)
	}
	t.Logf("welcomed after %s at first, after %s again", first.Round(time.Millisecond), again.Round(time.Millisecond))
	if !strings.Contains(n.said(), "reusing the devices that an earlier start detected") {
		t.Error("the agent does not log the reason")
	}
	if s := c.await(id, "failed"); s.Record.ExitCode != 7 || s.Record.Runs != 1 {
		t.Errorf("the job ended with code %d after %d attempts: %s", s.Record.ExitCode, s.Record.Runs, s.Record.Outcome)
	}
}
