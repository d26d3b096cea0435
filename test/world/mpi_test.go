//go:build world

package world

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able"
)

// This file tests MPI.

// TestMPI runs an allreduce over four nodes with separate networks, by Open MPI and by MPICH. mpirun on rank 0 starts
// its daemons in the other tasks by synapse-exec. No node runs an ssh server.
//
// MPICH 4.0 with UCX in Debian hangs in one of four runs. In MPI_Finalize some ranks wait in a barrier that reads
// nothing from UCX, and others wait until those ranks read. So the test checks its sums, and its end only if that comes
// before the time limit. Open MPI shows that mpirun's end is the gang's end.
func TestMPI(t *testing.T) {
	t.Parallel()
	able.Need(t, able.Bridges, able.Containers)
	bin, folder := made(t)
	here := room(t) // tasks cannot see the parents of the agents' own directories
	whole, s := t, (*street)(nil)
	for kind, launcher := range map[string]string{
		"openmpi": "mpirun.openmpi",
		// The nodes cannot resolve this host's name. They share one kernel, so UCX would treat them as one host
		// and wait for ever at the end, for memory that they do not share.
		"mpich": "mpiexec.hydra -localhost $MASTER_ADDR -genv UCX_TLS tcp,self",
	} {
		t.Run(kind, func(t *testing.T) {
			able.Need(t, able.Program("mpicc."+kind), able.Program(strings.Fields(launcher)[0]))
			program := filepath.Join(here, "allreduce."+kind)
			text, err := exec.Command("mpicc."+kind, "-o", program, "testdata/allreduce.c").CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			if s == nil {
				s = newStreet(whole, folder, bin, 4)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			run := func(words ...string) ([]byte, error) {
				submit := s.within(ctx, 0, filepath.Join(bin, "synapse-cli"), append([]string{"submit", "--allow-infeasible",
					"--cpu", "1", "--mem", "512Mi", "--time-limit", "20s", "--image", "host", "--attach"}, words...)...)
				submit.Dir = here
				submit.Env = append(os.Environ(), "SYNAPSE_SERVER="+s.scheduler)
				return submit.CombinedOutput()
			}
			// Many programs initialise MPI without mpirun. Nothing may make them believe that srun started
			// them.
			text, err = run("-N", "2", "--", "./allreduce."+kind)
			if n := bytes.Count(text, []byte("rank 0 of 1 at ")); n != 2 || err != nil {
				t.Errorf("without mpirun, %d of 2 programs started: %v:\n%s", n, err, text)
			}
			text, err = run("-N", "4", "--launcher", "mpi", "--", "sh", "-c",
				"exec $SYNAPSE_EXEC --lead "+launcher+" -n 4 ./allreduce."+kind)
			for rank := range 4 {
				if want := fmt.Sprintf("rank %d of 4 at %s: 10\n", rank, address(rank+1)); !bytes.Contains(text, []byte(want)) {
					t.Errorf("%q is missing", want)
				}
			}
			switch {
			case t.Failed() || err != nil && kind != "mpich":
				t.Errorf("%v: it said:\n%s", err, text)
			case err != nil:
				t.Logf("MPICH did not end: %v", err)
			}
		})
	}
}

// street is a switch with nodes on it, and the scheduler.
type street struct {
	t         *testing.T
	folder    string
	networks  []string // paths; the first one is the switch's, with the scheduler on it
	scheduler string
}

// newStreet starts at the first subtest that needs it, and ends with the whole test.
func newStreet(t *testing.T, folder, bin string, machines int) *street {
	s := &street{t: t, folder: folder, scheduler: "10.231.0.1:9000"}
	for range machines + 1 {
		s.networks = append(s.networks, s.network())
	}
	s.ip(0, "link", "add", "switch", "type", "bridge")
	s.ip(0, "addr", "add", "10.231.0.1/24", "dev", "switch")
	s.ip(0, "link", "set", "switch", "up")
	s.ip(0, "link", "set", "lo", "up")
	for i := 1; i <= machines; i++ {
		port := fmt.Sprint("port", i)
		s.ip(0, "link", "add", port, "type", "veth", "peer", "name", "cable", "netns", s.networks[i])
		s.ip(0, "link", "set", port, "master", "switch", "up")
		s.ip(i, "addr", "add", address(i)+"/24", "dev", "cable")
		s.ip(i, "link", "set", "cable", "up")
		s.ip(i, "link", "set", "lo", "up")
	}
	s.start(0, "scheduler", filepath.Join(bin, "synapse-scheduler"), "--listen", s.scheduler, "--store", "memory",
		"--insecure", "--insecure")
	for i := 1; i <= machines; i++ {
		name := fmt.Sprint("n", i)
		s.start(i, name, filepath.Join(bin, "synapse-node"), "--join", s.scheduler, "--id", name, "--address", address(i),
			"--data-dir", filepath.Join(folder, name), "--cpus", "4", "--memory", "4Gi", "--driver", "carapace")
	}
	return s
}

func address(machine int) string { return fmt.Sprint("10.231.0.", machine+1) }

// network creates a network that ends with its process.
func (s *street) network() string {
	first := exec.Command("sleep", "infinity")
	first.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	s.run(first)
	return fmt.Sprintf("/proc/%d/ns/net", first.Process.Pid)
}

// run starts a process that ends with the test.
func (s *street) run(command *exec.Cmd) {
	if err := command.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(30*time.Second, func() { _ = command.Process.Kill() })
		_ = command.Wait()
		late.Stop()
	})
}

// within returns a command in a network.
func (s *street) within(ctx context.Context, network int, program string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{"--net=" + s.networks[network], program}, args...)...)
}

func (s *street) ip(network int, args ...string) {
	if text, err := s.within(s.t.Context(), network, "ip", args...).CombinedOutput(); err != nil {
		s.t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, text)
	}
}

// start runs a service, and shows its output if the test fails.
func (s *street) start(network int, name, program string, args ...string) {
	log, err := os.Create(filepath.Join(s.folder, name+".log"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		log.Close()
		if text, _ := os.ReadFile(log.Name()); s.t.Failed() {
			s.t.Logf("%s said:\n%s", name, text)
		}
	})
	command := s.within(context.Background(), network, program, args...)
	command.Stdout, command.Stderr = log, log
	s.run(command)
}
