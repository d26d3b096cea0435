package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// This file runs real batch scripts (internal/slurm/testdata/wild) and checks that they behave as on Slurm.
// testdata/slurm.txt holds what each script prints about its gang and its environment, its files, and how it ends. `go
// test ./test/e2e -run TestSlurmWild -update` writes that file.

const (
	wildScripts = "../../cmd/internal/slurm/testdata/wild"
	wildRan     = "testdata/slurm.txt"
	// wildPatience bounds one script on a busy host.
	wildPatience = 2 * time.Minute
)

// standIn replaces each program that the scripts call. It prints its arguments and its process's rank.
const standIn = `#!/bin/sh
line=${0##*/}
for word in "$@"; do line="$line ${word##*/}"; done
case $line in
"hostname --ip-address") echo 10.0.0.1 && exit ;;
"ray status"*) test "$(ls up.* 2>/dev/null | wc -l)" = "$2"; exit ;;
esac
n=$(echo "$CUDA_VISIBLE_DEVICES" | tr , '\n' | grep -c .)
set -- $(env | grep -E '^(OMP_NUM_THREADS|WANDB_MODE|MASTER_PORT|NCCL_DEBUG|SLURM_CPUS_PER_TASK|SLURM_NTASKS_PER_NODE|SLURM_ARRAY_TASK_ID)=' | sort)
echo "$line: $SLURM_PROCID/$SLURM_NTASKS, $SLURM_LOCALID on $SLURM_NODEID/$SLURM_NNODES, $n devices, $*"
case $line in
"ray start"*) >up.$SYNAPSE_RANK && exec sleep 1000 ;;
*--resume*) until [ -e save.now ]; do sleep 0.1; done ;;
esac
`

// standIns lists the names of these programs. Names with a slash are in the folder of the submit.
var standIns = []string{"python", "python3", "torchrun", "mpirun", "hostname", "ray", "solver", "accelerate",
	"./solver",
	"./work", "./hello", "./hybrid"}

func TestSlurmWild(t *testing.T) {
	c := newCluster(t)
	for n := range 8 {
		c.node(fmt.Sprintf("n%d", n+1), "r1", "--address", fmt.Sprintf("127.0.0.%d", n+1), "--gpu-type", "h100", "--cpus",
			"96",
			"--memory", "1Ti")
	}
	home := t.TempDir()
	if err := os.Chmod(filepath.Dir(home), 0o777); err != nil { // jobs of root have their own users
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(wildScripts, "*.sh"))
	if err != nil || len(names) < 20 {
		t.Fatalf("%d scripts: %v", len(names), err)
	}
	var told strings.Builder
	first := ""
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(home, strings.TrimSuffix(filepath.Base(name), ".sh"))
		// An existing job and a smaller array.
		smaller := strings.NewReplacer("1128448779", first, "=0-31%8", "=0-3%2").Replace(string(text))
		ran := c.wild(t, dir, filepath.Base(name), smaller)
		if first == "" {
			first = ran
		}
		fmt.Fprintf(&told, "== %s\n%s", filepath.Base(name), c.left(t, dir, ran))
	}
	if *update {
		if err := os.WriteFile(wildRan, []byte(told.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(wildRan)
	if err != nil || told.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s%v", told.String(), want, err)
	}
}

// wild runs one script to its end in a separate folder, and returns its number.
func (c *cluster) wild(t *testing.T, dir, name, text string) string {
	t.Helper()
	for _, part := range []string{"", "bin", "logs", "venv/bin", "my runs"} {
		if err := os.MkdirAll(filepath.Join(dir, part), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]string{"rates.txt": strings.Repeat("0.1\n", 32), "input.txt": "in\n", "venv/bin/activate": "",
		name: strings.NewReplacer("/scratch/", dir+"/", "~/", dir+"/").Replace(text)}
	for _, program := range standIns {
		if program, here := strings.CutPrefix(program, "./"); here {
			files[program] = standIn
		} else {
			files["bin/"+program] = standIn
		}
	}
	for file, text := range files { //order: each is another one
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			err = os.Chmod(path, 0o777)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	words := []string{"slurm", "sbatch", "--parsable", "--wait"}
	if strings.Contains(text, "--signal") { // its stated time is not awaited
		words = append(words, "-t", "1", "--signal=B:USR1@55")
	}
	cmd := c.command(filepath.Join(bin, "synapse-cli"), append(words, name, "--epochs", "3")...)
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(cmd.Env, func(entry string) bool { return !strings.HasPrefix(entry, "SYNAPSE_") })
	cmd.Env = append(cmd.Env, "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	ran := ask(t, cmd, func(pid int) {
		limit := time.AfterFunc(wildPatience, func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
		t.Cleanup(func() { limit.Stop() })
	})
	number := strings.TrimSpace(ran.out)
	if number == "" || ran.code < 0 {
		t.Fatalf("%s ended with %d: %s", name, ran.code, ran.err)
	}
	return number
}

var (
	// random matches text that differs between runs.
	random = regexp.MustCompile(`--rdzv_id \d+|/\S*/|line \d+|127\.0\.0\.\d|r1\.n\d`)
	// passing matches text that may be present or not: output of steps that the job's end has ended, variables that
	// are not Slurm's, and values that depend on the user of the test, because jobs of root name no user.
	passing = regexp.MustCompile(`^(srun: error: task 0: Exited with exit code (137|143|255)|synapse-exec:)` +
		`|^SLURM_(SUBMIT_HOST|JOB_USER)=` +
		`|^\}|^[A-RT-Z_]\w*(%%)?=|^S[A-KM-Z]\w*=`)
)

// left returns what a job left: how it ended, and its new files with sorted lines.
func (c *cluster) left(t *testing.T, dir, number string) string {
	t.Helper()
	ended := c.cli("slurm", "sacct", "-j", number, "-P", "-n", "-o", "JobID,JobName,State,ExitCode,NNodes,ReqTRES").out
	said := strings.ReplaceAll(strings.Join(slices.Sorted(strings.Lines(ended)), ""), number, "N")
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		info, failed := os.Stat(path)
		if err != nil || failed != nil || e.IsDir() || info.Mode().Perm() == 0o755 {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		said += "-- " + strings.ReplaceAll(name, number, "N") + "\n"
		for _, line := range slices.Sorted(strings.Lines(string(text))) {
			if !passing.MatchString(line) || strings.HasPrefix(line, "WANDB_") {
				said += "   " + random.ReplaceAllString(strings.ReplaceAll(line, number, "N"), "*")
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return said
}
