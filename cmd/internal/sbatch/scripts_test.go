package sbatch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// This file tests the commands of a script about its own job (job.sh), with a stand-in for synapse-exec.

// answers is the stand-in: it writes the requested verb to a file, and describes a job.
const answers = `#!/bin/sh
echo "$*" >>"$0.asked"
[ "$2" != cancel ] || { echo "synapse-exec: no scheduler answers" >&2; exit 1; }
printf 'id=jx\nphase=running\nowner=ann\nname=train\nqueue=\npriority=3\nrestarts=1\nlimit=93600\nsubmitted=0\ncomment=a b\n'
`

func TestOwnJobCommands(t *testing.T) {
	dir, installed := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{ //order: each is another one
		filepath.Join(dir, "scontrol"): jobText(), filepath.Join(dir, "squeue"): jobText(),
		filepath.Join(dir, "scancel"): jobText(), filepath.Join(dir, "exec"): answers,
		filepath.Join(installed, "scancel"): "#!/bin/sh\necho installed $*\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ line, out, errs, asked string }{
		{"squeue -j 77", "             JOBID PARTITION     NAME     USER ST  NODES NODELIST(REASON)\n" +
			"                77       all    train      ann  R      2 n1,n2\n", "", "--job show\n"},
		{"squeue -hj 77 -o %i|%T:%t,%k%%", "77|RUNNING:R,a b%\n", "", "--job show\n"},
		{"squeue --noheader --job=77 --format=%.5D|%6u|%l", "    2|ann   |1-02:00:00\n", "", "--job show\n"},
		{"squeue -j 77,78", "", "squeue: error: in a job, only squeue of the job itself", ""},
		{"squeue -j 77 -o %Z", "", "only squeue of the job itself", "--job show\n"},
		{"squeue -u ann", "", "only squeue of the job itself", ""},
		{"scontrol requeue 77", "", "", "--job requeue\n"},
		{"scontrol requeuehold 76_3", "", "", "--job requeue-hold\n"},
		{"scontrol requeue 78", "", "scontrol: error: in a job, only these commands", ""},
		{"scontrol requeue", "", "only these commands", ""},
		{"scontrol hold 77", "", "only these commands", ""},
		{"scontrol show hostnames", "n1\nn2\n", "", ""},
		{"scontrol show hostnames a,b", "a\nb\n", "", ""},
		{"scancel 77", "", "scancel: error: no scheduler answers", "--job cancel\n"},
		{"scancel -s USR1 77", "installed -s USR1 77\n", "", ""},
	} {
		words := strings.Fields(c.line)
		cmd := exec.Command(filepath.Join(dir, words[0]), words[1:]...)
		cmd.Env = []string{"PATH=/nowhere:" + dir + ":" + installed + ":/usr/bin:/bin", "SLURM_JOB_ID=77",
			"SYNAPSE_EXEC=" + filepath.Join(dir, "exec"), "SLURM_JOB_NODELIST=n1,n2", "SLURM_JOB_NUM_NODES=2"}
		if strings.Contains(c.line, "76_3") {
			cmd.Env = append(cmd.Env, "SLURM_ARRAY_JOB_ID=76", "SLURM_ARRAY_TASK_ID=3")
		}
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.Output()
		asked, _ := os.ReadFile(filepath.Join(dir, "exec.asked"))
		os.Remove(filepath.Join(dir, "exec.asked"))
		if string(out) != c.out || !strings.Contains(errs.String(), c.errs) || (err != nil) != (c.errs != "") ||
			string(asked) != c.asked {
			t.Errorf("%s: printed %q and %q (%v), and asked %q", c.line, out, errs.String(), err, asked)
		}
	}
}
