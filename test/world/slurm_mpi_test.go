//go:build world

package world

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able"
)

// This file tests MPI in jobs of Slurm's commands, as an ordinary user.

// inSpace matches the line of a rank, with its container.
var inSpace = regexp.MustCompile(`rank (\d) of 4 in (mnt:\[\d+\]): 10\n`)

// TestSlurmMPI starts four ranks on two nodes by mpirun of Open MPI and by mpiexec of MPICH, in jobs of sbatch, salloc
// and srun. Both find the nodes and the number of ranks in Slurm's variables, and start their daemons by srun. srun
// also starts the program of MPICH directly.
//
// MPICH 4.0 with UCX in Debian sometimes hangs in MPI_Finalize (TestMPI has the reason). So its end is checked only if
// it comes in time.
func TestSlurmMPI(t *testing.T) {
	t.Parallel()
	able.Need(t, able.Program("mpicc.openmpi"), able.Program("mpicc.mpich"), able.Program("mpirun.openmpi"),
		able.Program("mpiexec.hydra"))
	u := newSlurmUser(t)
	for _, kind := range []string{"openmpi", "mpich"} {
		text, err := exec.Command("mpicc."+kind, "-o", filepath.Join(u.home, kind), "testdata/ranks.c").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	size := []string{"-N2", "--ntasks-per-node=2", "--mem=512M", "-t", "2"}
	for _, launcher := range []string{
		"mpirun.openmpi ./openmpi",
		// Both nodes share one kernel, so UCX would wait for memory that they do not share.
		"timeout 20 mpiexec.hydra -genv UCX_TLS tcp,self ./mpich",
		"timeout 20 mpiexec.hydra -bootstrap slurm -genv UCX_TLS tcp,self ./mpich",
		"timeout -k 5 20 srun env UCX_TLS=tcp,self ./mpich",
	} {
		for _, words := range [][]string{
			{"sbatch", "--wait", "-o", "said", "--wrap", launcher},
			append([]string{"salloc"}, strings.Fields(launcher)...),
			append([]string{"srun", "--pty"}, strings.Fields(launcher)...),
		} {
			run := append([]string{words[0]}, append(size, words[1:]...)...)
			text, err := u.run(2*time.Minute, run...)
			if words[0] == "sbatch" {
				said, failed := u.run(time.Minute, "cat", "said")
				if text += said; failed != nil {
					t.Error(failed)
				}
			}
			ranks, spaces := map[string]bool{}, map[string]int{}
			for _, found := range inSpace.FindAllStringSubmatch(text, -1) {
				ranks[found[1]] = true
				spaces[found[2]]++
			}
			got := fmt.Sprint(len(ranks), len(spaces))
			for _, n := range spaces { //order: all are equal
				got += fmt.Sprint(" ", n)
			}
			if got != "4 2 2 2" {
				t.Errorf("%v: ranks, containers, and ranks in each: %s: %v\n%s", run, got, err, text)
			}
			if err != nil && strings.HasPrefix(launcher, "timeout") {
				t.Logf("%v: MPICH did not end: %v", run, err)
			} else if err != nil {
				t.Errorf("%v: %v\n%s", run, err, text)
			}
		}
	}
	// srun has no PMIx. Open MPI must not run as four programs of one rank.
	text, err := u.run(time.Minute, append(append([]string{"srun"}, size...), "--mpi=pmix", "./openmpi")...)
	if err == nil || !strings.Contains(text, "direct launched") || strings.Contains(text, "rank 0 of 1") ||
		strings.Count(text, "there is no PMIx here") != 1 {
		t.Errorf("Open MPI without mpirun: %v: %s", err, text)
	}
	// A program that starts without a launcher is alone: nothing makes it believe that srun started it.
	for _, kind := range []string{"openmpi", "mpich"} {
		if text, err := u.run(time.Minute, "sbatch", "--wait", "--mem=512M", "-o", "alone", "--wrap", "./"+kind); err != nil {
			t.Errorf("%s alone: %v: %s", kind, err, text)
		}
		if text, err := u.run(time.Minute, "cat", "alone"); err != nil || !strings.Contains(text, "rank 0 of 1 in ") {
			t.Errorf("%s alone: %v: %s", kind, err, text)
		}
	}
}
