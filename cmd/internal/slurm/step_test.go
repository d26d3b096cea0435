package slurm

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/yi-json/synapse/cmd/internal/sbatch"
)

// This file tests the options of srun and salloc outside a script, and which of them reach a step.

// lookup returns an environment with the given variables.
func lookup(env string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for entry := range strings.FieldsSeq(env) {
			if key, value, _ := strings.Cut(entry, "="); key == name {
				return value, true
			}
		}
		return "", false
	}
}

func TestStep(t *testing.T) {
	for _, c := range []struct{ env, line, wants, step string }{
		{"", "hostname -f", "1 cpu=1", "srun -- hostname -f"},
		{"", "-N 2 --ntasks-per-node=4 --gpus-per-task=1 -c 6 -t 30 -p gpu -l -K ./train --label",
			"2 apart gpu=4 cpu=24 time=30m queue=gpu", "srun --label --kill-on-bad-exit=1 -- ./train --label"},
		{"", "-n 4 -K1 -K0 --mem-per-cpu=1G true -K2", "4 cpu=1 mem=1Gi", "srun -- true -K2"},
		{"", "--gres=gpu:1 --pty bash -i", "1 gpu=1 cpu=1", "bash -i"},
		{"SLURM_PARTITION=gpu SLURM_TIMELIMIT=5 SBATCH_QOS=9", "-t 6 true", "1 cpu=1 time=6m queue=gpu", "srun -- true"},
		{"SLURM_JOB_ID=7 SLURM_GPUS=8 SLURM_TIMELIMIT=5", "-n 4 -N 2 -w n[1-2] --overlap --mpi=none true", "",
			"srun --nodes=2 --ntasks=4 --nodelist=n1,n2 --mpi=none -- true"},
		{"", "--jobid=7 --pty -w n2 bash", "", "bash"},
		{"SLURM_JOB_ID=7", "--export=NONE -D /scratch true", "", "srun -- true"},
		{"", "-n 2 -o out.%t -e /logs/err.%j --open-mode=append -W 60 -i data --multi-prog conf", "2 cpu=1",
			"srun --output=/home/ann/run/out.%t --error=/logs/err.%j --open-mode=append --wait=60 --input=/home/ann/run/data " +
				"--multi-prog -- conf"},
		{"SLURM_JOB_ID=7", "-o all -i 1 -e none -r 1 -x n2 -t 1:30 -c 4 a : -n 2 b", "",
			"srun --cpus-per-task=4 --time=0:90 --exclude=n2 --output=all --input=1 --error=none --relative=1 -- a : -n 2 b"},
		{"SLURM_JOB_ID=7", "--mem=4G --gres=gpu:1 -A lab true", "", "srun -- true"},
	} {
		b, command, err := ParseStep(strings.Fields(c.line), lookup(c.env))
		if err != nil {
			t.Errorf("%s %s: %v", c.env, c.line, err)
			continue
		}
		words, _, err := b.Step(command, here)
		if got := strings.Join(words[min(5, len(words)):], " "); got != c.step || err != nil {
			t.Errorf("%s: the step is %s (%v), and not %s", c.line, got, err, c.step)
		}
		if c.wants == "" {
			if b.InJob() != "7" {
				t.Errorf("%s runs in job %q", c.line, b.InJob())
			}
			continue
		}
		spec, err := b.Room("keep", "leave", here)
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
		} else if got := shortly(spec); got != c.wants || b.InJob() != "" {
			t.Errorf("%s\ncomes to %s\nand not  %s", c.line, got, c.wants)
		}
	}
}

// TestStepCarries checks that a step in an existing job has the caller's folder and variables.
func TestStepCarries(t *testing.T) {
	for _, c := range []struct{ line, dir, env string }{
		{"true", "/home/ann/run", "KEY=v PATH=/opt/bin:/bin"}, {"-D sub --export=KEY,NEW=2 true", "/home/ann/run/sub",
			"KEY=v NEW=2"}, {"-D /scratch --export=NONE true", "/scratch", ""},
	} {
		b, command, err := ParseStep(strings.Fields(c.line), lookup("SLURM_JOB_ID=7"))
		if err != nil {
			t.Fatal(err)
		}
		words, env, err := b.Step(command, here)
		if err != nil || words[4] != c.dir || strings.Join(env, " ") != c.env {
			t.Errorf("%s begins in %s with %v: %v", c.line, words[4], env, err)
		}
	}
}

// TestStepMPI checks that srun in the job gets --mpi, and that --mpi=list needs no command.
func TestStepMPI(t *testing.T) {
	for _, kind := range []string{"none", "pmi1", "pmi2", "pmix", "pmix_v4", "openmpi"} {
		b, command, err := ParseStep([]string{"--mpi=" + kind, "true"}, lookup(""))
		if err != nil {
			t.Fatal(err)
		}
		words, _, err := b.Step(command, here)
		if err != nil || !slices.Contains(words, "--mpi="+kind) {
			t.Errorf("--mpi=%s becomes %q: %v", kind, words, err)
		}
	}
	if b, _, err := ParseStep([]string{"--mpi=list"}, lookup("")); err != nil || !b.ListsMPI() {
		t.Errorf("--mpi=list: %v", err)
	}
}

func TestRoom(t *testing.T) {
	for _, c := range []struct{ line, wants, name, command string }{
		{"", "1 cpu=1", "interactive", ""}, {"-N 2 --exclusive -t 1:00:00", "2 apart cpu=96 mem=1Ti time=1h", "interactive",
			""},
		{"-n 4 -J probe ./run.sh -N 9", "4 cpu=1", "probe", "./run.sh -N 9"}, {"--no-shell -G 2", "1 gpu=2 cpu=1",
			"interactive", ""},
		{"-K sh -c true", "1 cpu=1", "sh", "sh -c true"},
	} {
		b, command, err := ParseRoom(strings.Fields(c.line), lookup("SALLOC_ACCOUNT=lab"))
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		from := here
		from.Whole = &sbatch.Amount{MilliCPU: 96_000, MemoryBytes: 1 << 40, MilliGPU: 8000}
		spec, err := b.Room("keep\n", "return", from)
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		text := string(spec.GetScript().GetText())
		if got := shortly(spec); got != c.wants || spec.GetName() != c.name || strings.Join(command, " ") != c.command ||
			label(spec.GetLabels(), "account") != "lab" || !strings.Contains(text, "#!/bin/sh\nkeep\n") ||
			strings.Contains(text, "slurm-") || spec.GetScript().GetArgs()[0] != "return" {
			t.Errorf("%s\ncomes to %s, %s %q\n%s", c.line, got, spec.GetName(), command, text)
		}
	}
}

// TestStepRefused checks that unsupported options are refused by name, also options for a job in a step.
func TestStepRefused(t *testing.T) {
	parse := map[string]func([]string, func(string) (string, bool)) (*Batch, []string, error){
		"srun": ParseStep, "salloc": ParseRoom,
	}
	for _, c := range []struct{ env, line, option string }{
		{"", "srun --mpi=pmix_vx true", "--mpi"}, {"", "srun -o out.%y true", "--output"},
		{"", "srun --array=1-3 true", "--array"},
		{"", "srun -n 1 a : -n 2 b", ":"}, {"", "srun -I true", "--immediate"}, {"", "srun -W x true", "--wait"},
		{"", "srun --wrap true", "--wrap"}, {"", "srun", "COMMAND"}, {"", "srun -H true", "--hold"},
		{"", "srun -i %y true", "--input"}, {"", "srun -K2 true", "--kill-on-bad-exit"},
		{"", "srun --no-kill true", "--no-kill"}, {"", "srun --licenses=x true", "--licenses"},
		{"SLURM_JOB_ID=7", "srun --switches=1 true", "--switches"},
		{"SLURM_JOB_ID=7", "srun --het-group=1 true", "--het-group"},
		{"", "salloc -o x", "-o"}, {"", "salloc --array=1-3", "--array"}, {"", "salloc --pty", "--pty"},
		{"", "salloc -I5", "--immediate"}, {"", "salloc --no-shell true", "--no-shell"}, {"", "salloc --label", "--label"},
		{"", "salloc --reservation=r", "--reservation"}, {"", "salloc -N 2-4", "--nodes"},
	} {
		words := strings.Fields(c.line)
		_, _, err := parse[words[0]](words[1:], lookup(c.env))
		if r := (*Refusal)(nil); !errors.As(err, &r) || r.Option != c.option {
			t.Errorf("%s is refused as %v, and not as %s", c.line, err, c.option)
		}
	}
}
