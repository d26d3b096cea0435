package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// This file tests Slurm's commands inside a batch script. The tasks have no credentials for the cluster and no Slurm
// client.

// insideScript shows and requeues its own job, first by its number. The second attempt sees the restart, cannot
// concern another job, and cancels the job.
const insideScript = `#!/bin/bash
exec >>said 2>&1
echo "attempt ${SLURM_RESTART_COUNT}"
if [ "$SLURM_RESTART_COUNT" = 0 ]; then
  squeue -h -j "$SLURM_JOB_ID" -o '%i|%T|%j|%D|%l'
  scontrol show job "$SLURM_JOB_ID" | grep -o 'JobState=[A-Z]* Reason=None Requeue=1 Restarts=[0-9]*'
  bash -lc 'scontrol requeue "$SLURM_JOB_ID"'
  sleep 600
fi
scontrol show jobid -dd "$SLURM_JOB_ID" | grep -o 'Restarts=[0-9]*'
scontrol requeue 7
scancel "$OTHER"
squeue -u root
PATH=/nowhere:$PATH scancel "$SLURM_JOB_ID"
sleep 600
`

// TestSlurmInsideJob checks that a job requeues and cancels itself without a token, and no other job.
func TestSlurmInsideJob(t *testing.T) {
	c := clusterOf(t, "process")
	c.node("n1", "r1")
	home := t.TempDir()
	for _, dir := range []string{filepath.Dir(home), home} { // jobs of root have their own users
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	run := func(words ...string) result {
		t.Helper()
		cmd := c.command(filepath.Join(bin, "synapse-cli"), append([]string{"slurm"}, words...)...)
		cmd.Dir = home
		return ask(t, cmd)
	}
	if err := os.WriteFile(filepath.Join(home, "job.sh"), []byte(insideScript), 0o644); err != nil {
		t.Fatal(err)
	}
	other := strings.TrimSpace(run("sbatch", "--parsable", "--wrap", "sleep 600").wants(t, 0, "", "").out)
	id := strings.TrimSpace(run("sbatch", "--parsable", "--wait", "-J", "self", "-t", "90", "--export=OTHER="+other,
		"job.sh").wants(t, 1, "", "").out)
	run("sacct", "-n", "-P", "-j", id, "-o", "JobID,State").wants(t, 0, id+"|CANCELLED\n", "")
	run("squeue", "-h", "-j", other, "-o", "%T").wants(t, 0, "RUNNING\n", "")
	text, err := os.ReadFile(filepath.Join(home, "said"))
	want := "attempt 0\n" + id + "|RUNNING|self|1|01:30:00\nJobState=RUNNING Reason=None Requeue=1 Restarts=0\n" +
		"attempt 1\nRestarts=1\nscontrol: error: in a job, only"
	if err != nil || !strings.HasPrefix(string(text), want) || strings.Count(string(text), "attempt") != 2 {
		t.Errorf("the job printed %q (%v), want %q", text, err, want)
	}
	for _, refused := range []string{"only scancel of the job itself", "only squeue of the job itself"} {
		if !strings.Contains(string(text), refused) {
			t.Errorf("%q is missing in %q", refused, text)
		}
	}

	// An element of an array is named by the array and its index, and a job without requeue refuses.
	script := "#!/bin/sh\n[ $SLURM_RESTART_COUNT = 0 ] || exit 0\n" +
		"scontrol requeue ${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID\nexec sleep 600\n"
	once := "#!/bin/sh\nscontrol requeue $SLURM_JOB_ID && exit 3\nexit 4\n"
	for name, text := range map[string]string{"array.sh": script, "once.sh": once} { //order: each is another one
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run("sbatch", "--wait", "-a", "4", "array.sh").wants(t, 0, "", "")
	run("sbatch", "--wait", "--no-requeue", "-o", "once.out", "once.sh").wants(t, 4, "", "")
	if text, err := os.ReadFile(filepath.Join(home, "once.out")); err != nil ||
		!strings.HasPrefix(string(text), "scontrol: error: the job allows no second run") {
		t.Errorf("the job printed %q (%v)", text, err)
	}
}
