package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// This file tests that a batch script finds the same as on Slurm: its files, its environment, its number, and an end
// that its own programs see.

func TestSlurm(t *testing.T) {
	c := clusterOf(t, "process")
	for _, n := range []string{"n1", "n2"} {
		c.node(n, "r1")
	}
	home := t.TempDir()
	for _, dir := range []string{filepath.Dir(home), home} { // jobs of root have their own users
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	cli := filepath.Join(bin, "synapse-cli")
	run := func(words ...string) result {
		t.Helper()
		cmd := c.command(cli, append([]string{"slurm"}, words...)...)
		cmd.Dir = home
		return ask(t, cmd)
	}
	script := "#!/bin/sh\n#SBATCH -N 2 --ntasks-per-node=3 -o %x-%j.out -e err.%j\n#SBATCH -J Both\n" +
		"echo number $SLURM_JOB_ID of $SLURM_NTASKS on $SLURM_NNODES as \"$*\" in $PWD\necho wrong >&2\nexit 5\n"
	if err := os.WriteFile(filepath.Join(home, "job.sh"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	id := strings.TrimSpace(run("sbatch", "--parsable", "--wait", "job.sh", "a b", "c").wants(t, 5, "", "").out)
	holds := func(name, want string) {
		t.Helper()
		if text, err := os.ReadFile(filepath.Join(home, name)); err != nil || string(text) != want {
			t.Errorf("%s has %q (%v), want %q", name, text, err, want)
		}
	}
	holds("Both-"+id+".out", "number "+id+" of 6 on 2 as a b c in "+home+"\n")
	holds("err."+id, "wrong\n")
	run("sacct", "-j", id, "-P", "-n", "-o", "JobID,JobName,State,ExitCode,NNodes").wants(t, 0, id+"|Both|FAILED|5:0|2\n",
		"")

	stepped(t, home, run)
	steppedApart(t, home, run)
	steppedFromOutside(t, c, home)
	array := strings.TrimSpace(run("sbatch", "--parsable", "--wait", "-a", "1-2", "--wrap",
		"echo element $SLURM_ARRAY_TASK_ID").
		wants(t, 0, "", "").out)
	holds("slurm-"+array+"_1.out", "element 1\n")
	holds("slurm-"+array+"_2.out", "element 2\n")

	several := strings.TrimSpace(run("sbatch", "--parsable", "-H", "-a", "3,9,10", "--wrap", "true").wants(t, 0,
		"", "").out)
	run("squeue", "-h", "-j", several, "-o", "%i %t").wants(t, 0, several+"_[3,9,10] PD\n", "")
	run("squeue", "-h", "-r", "-S", "-i", "-o", "%i %t %r").wants(t, 0, strings.ReplaceAll("N_10 PD JobHeldUser\n"+
		"N_9 PD JobHeldUser\nN_3 PD JobHeldUser\n", "N", several), "")
	run("scancel", several+"_[3,11]").wants(t, 2, "", "has no element 11")
	run("scontrol", "release", several+"_[").wants(t, 2, "", several+"_[")
	run("scancel", several+"_[3,9]").wants(t, 0, "", "")
	run("squeue", "-h", "-r", "-o", "%i %t").wants(t, 0, several+"_10 PD\n", "")
	run("sacct", "-n", "-P", "-o", "JobID,State", "-j", several+"_[11]").wants(t, 2, "", "has no element 11")
	run("scancel", several).wants(t, 0, "", "")
	held := strings.TrimSpace(run("sbatch", "--parsable", "-H", "--wrap", "sleep 600").wants(t, 0, "", "").out)
	run("squeue", "-h", "-j", held, "-o", "%i %t %r").wants(t, 0, held+" PD JobHeldUser\n", "")
	run("scontrol", "release", held).wants(t, 0, "", "")
	c.await(c.newest(), messages.PhaseRunning)
	run("scontrol", "show", "job", held).wants(t, 0, "JobState=RUNNING", "")
	run("scancel", held).wants(t, 0, "", "")
	c.await(c.newest(), messages.PhaseCancelled)
	run("squeue", "-h").wants(t, 0, "", "")
	run("sacct", "-j", held, "-P", "-n", "-o", "State").wants(t, 0, "CANCELLED\n", "")
}

// stepped checks that srun in a script runs a step on all nodes, with the script's environment and Slurm's numbering.
// Its exit code is the worst of them. Unsupported options are rejected.
func stepped(t *testing.T, home string, run func(...string) result) {
	t.Helper()
	script := "#!/bin/sh\nexport MINE=\"it's mine\"\nscontrol show hostnames | wc -l\n" +
		"srun -l sh -c 'echo $SLURM_PROCID.$SLURM_LOCALID of $SLURM_NTASKS, $MINE, node $SLURM_NODEID' | sort\n" +
		"srun -N 1 -n 1 -w \"$(scontrol show hostnames | tail -n 1)\" sh -c 'echo alone on $SLURM_NODEID of $SLURM_NNODES " +
		"with " +
		"$SLURM_NTASKS'\n" +
		"srun sh -c 'echo $SLURM_NODEID,$CUDA_VISIBLE_DEVICES' | sort -u | tr -cd ',\\n' | uniq -c\n" +
		"srun --mpi=pmix sh -c 'echo ${PMI_PORT:+port} ${PMI_ID:+secret}' | sort -u\n" +
		"srun --mpi=mvapich true\necho refused with $?\nsrun --mpi=none sh -c 'echo $PMI_PORT' | sort -u\n" +
		"srun -N 1 -n 1 --input none --export=ALL,MORE='a b',MINE=other sh -c 'cat; echo $MORE, $MINE' <&-\n" +
		"srun --wait=1 sh -c 'test $SLURM_PROCID = 0 || exec sleep 600' 2>/dev/null\necho waited with $?\n" +
		"srun -K sh -c 'test $SLURM_PROCID != 3 || exit 7; sleep 600'\necho killed with $?\n" +
		"srun sh -c 'exit $SLURM_PROCID'\n"
	if err := os.WriteFile(filepath.Join(home, "steps.sh"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	run("sbatch", "--wait", "-N", "2", "--ntasks-per-node", "2", "--gpus-per-task", "2", "-o", "steps.out",
		"steps.sh").wants(t, 3, "", "")
	want := "2\n0: 0.0 of 4, it's mine, node 0\n1: 1.1 of 4, it's mine, node 0\n2: 2.0 of 4, it's mine, node 1\n" +
		"3: 3.1 of 4, it's mine, node 1\nalone on 0 of 1 with 1\n      4 ,,\n" +
		"srun: warning: --mpi=pmix: there is no PMIx here: start programs of Open MPI with mpirun; programs of MPICH and " +
		"programs without MPI run as usual\nport secret\n" +
		"srun: error: --mpi=mvapich: use pmi2 (MPICH), pmix (accepted, has no effect), none or list\n" +
		"refused with 1\n\na b, other\nwaited with 143\n"
	for process, code := range []string{"143", "143", "143", "7", "", "1", "2", "3"} {
		switch {
		case process == 4:
			want += "killed with 143\n"
		default:
			want += fmt.Sprintf("srun: error: task %d: Exited with exit code %s\n", process%4, code)
		}
	}
	if text, err := os.ReadFile(filepath.Join(home, "steps.out")); err != nil || string(text) != want {
		t.Errorf("the steps printed %q (%v), want %q", text, err, want)
	}
}

// apartScript has one line per step. The files of the steps are printed at the end.
const apartScript = `#!/bin/sh
echo "step ${SLURM_STEP_ID:-none}, $SLURM_JOBID" | sed "s/$SLURM_JOB_ID/N/"
srun -n 3 -lo 'out.%3t' -e wrong.%j sh -c 'echo $SLURM_PROCID of $SLURM_NTASKS on $SLURM_TASKS_PER_NODE; echo wrong >&2'
srun -N 1 -r 1 --open-mode=append -o 'out.%3t' sh -c 'echo $SLURM_STEP_ID, $SYNAPSE_RANK'
printf '# a comment\n0 echo first %%t "a  b" $HOME\n1-2 \\\n  echo middle %%t %%o\n* echo last %%t\n' >programs
srun -l --multi-prog programs | sort
srun -n 2 --multi-prog nothing
srun -l -n 1 --export=ALL,WHO=one sh -c 'echo $WHO $SLURM_NTASKS $SYNAPSE_RANK' : -n 2 --export=ALL,WHO=two \
  sh -c 'echo $WHO $SLURM_NTASKS $SYNAPSE_RANK' | sort
GONE=1 STAYS=2 srun -N 2 -n 2 --export=STAYS,NEW=3 sh -c 'echo $GONE.$STAYS.$NEW.$SLURM_JOBID' | sed "s/$SLURM_JOB_ID/N/"
echo input >data
srun -n 2 -i data cat
echo typed | srun -n 2 -i 1 sh -c 'echo $SLURM_PROCID $(cat)' | sort
srun -N 2 -n 2 -t 0:01 sleep 600 2>/dev/null
echo limited to $?
srun -n 1 -c 3 --mem=1G --cpu-bind=none --overlap sh -c 'echo $SLURM_CPUS_PER_TASK'
srun --nta=1 true
srun --switches=1 true
srun -N 1-2 true
srun --het-group=1 true
srun --version
scontrol show hostnames 'n[08-10],x' | paste -s -d, -
for name in out.* wrong.*; do sed "s/^/$name: /" $name | sed "s/$SLURM_JOB_ID/N/"; done
`

// apartSaid is its output.
const apartSaid = `step none, N
0: first 0 a  b $HOME
1: middle 1 0
2: middle 2 1
3: last 3
srun: error: --multi-prog: nothing cannot be read on n1
0: one 3 0
1: two 3 1
2: two 3 0
.2.3.N
.2.3.N
input
input
0
1 typed
limited to 143
srun: warning: --mem has no effect on a step, whose processes share their nodes
3
srun: error: --nta: is ambiguous: ntasks ntasks-per-node ntasks-per-core ntasks-per-socket
srun: error: --switches: is not supported
srun: error: --nodes=1-2: ranges are not supported, because the job has fixed nodes
srun: error: --het-group=1: the job has one group of nodes: select nodes with --nodelist or --relative
slurm 24.11.0
n08,n09,n10,x
out.000: 0: 0 of 3 on 2,1
out.000: 1, 1
out.001: 1: 1 of 3 on 2,1
out.002: 2: 2 of 3 on 2,1
wrong.N: 0: wrong
wrong.N: 1: wrong
wrong.N: 2: wrong
`

// steppedApart checks the files, the programs, the components and the limits of steps.
func steppedApart(t *testing.T, home string, run func(...string) result) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(home, "apart.sh"), []byte(apartScript), 0o644); err != nil {
		t.Fatal(err)
	}
	run("sbatch", "--wait", "-N", "2", "--ntasks-per-node", "2", "-o", "apart.txt", "apart.sh").wants(t, 0, "", "")
	text, err := os.ReadFile(filepath.Join(home, "apart.txt"))
	if err != nil {
		t.Fatal(err)
	}
	got, want := strings.Split(string(text), "\n"), strings.Split(apartSaid, "\n")
	slices.Sort(got[max(len(got)-4, 0):]) // the errors of concurrent processes
	slices.Sort(want[len(want)-4:])
	if !slices.Equal(got, want) {
		t.Errorf("the steps printed\n%s\nwant\n%s", text, apartSaid)
	}
}
