package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// TestUse checks that the use of a running job is shown, with the activity that the driver reports for its GPU, and
// that the CPU time is in the history after its end.
func TestUse(t *testing.T) {
	c := newCluster(t)
	dir := t.TempDir()
	script := `#!/bin/sh
[ "$1" = -q ] && cat <<EOF
<nvidia_smi_log><gpu id="00000000:01:00.0"><product_name>NVIDIA H100</product_name><uuid>GPU-1</uuid><minor_number>0</minor_number>
<fb_memory_usage><total>81559 MiB</total><used>2048 MiB</used></fb_memory_usage><utilization><gpu_util>42 %</gpu_util></utilization>
</gpu></nvidia_smi_log>
EOF
`
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"PATH=" + dir + ":" + os.Getenv("PATH"), filepath.Join(bin, "synapse-node")},
		c.agentArgs("n1", "r1", "--gpus=-1", "--cpus=2")...)
	launch(t, "n1", "/usr/bin/env", args...).says(t, "Success! Master says: Welcome to Synapse")
	id := c.submit(gang(1, 1, `while [ ! -e go ]; do :; done`))
	c.until(id, "measured", func(s *messages.JobStatus) bool {
		u := s.GetUse()
		return u.GetCpuMs() > 200 && u.MilliCpu > 0 && u.GPUWords() == "42%" && u.GpuMemoryBytes == 2<<30
	})
	c.cli("top", "jobs").wants(t, 0, "42%", "")
	c.cli("describe", "job", id).wants(t, 0, "42%, 42% in the last hour, 2Gi of GPU memory", "")
	c.cli("cancel", id).wants(t, 0, "", "")
	c.await(id, "cancelled")
	report := c.cli("slurm", "seff", id)
	if report.wants(t, 0, "CPU Efficiency: ", ""); strings.Contains(report.out, "CPU Efficiency: not measured") {
		t.Error(report.out)
	}
}
