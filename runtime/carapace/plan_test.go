//go:build linux

package carapace

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/carapace/fork"
)

// TestEveryStepIsTold checks that every failed step of a fork is reported with its name and the kernel's reason.
func TestEveryStepIsTold(t *testing.T) {
	spec := good()
	spec.Rlimits = []Rlimit{{"nofile", 1, 2}}
	o := &order{Spec: spec, Join: []string{"/group/tasks"}, Leaf: "/group"}
	for step := range fork.StepExec + 1 {
		failure := o.explainStep(&fork.Failure{Step: step, Errno: unix.EIO})
		if failure.Step == "" || failure.Code < CodeSetupFailed || failure.Code > CodeNotFound || !errors.Is(failure,
			unix.EIO) ||
			step != fork.StepBinary && !strings.Contains(failure.Reason, unix.EIO.Error()) {
			t.Errorf("step %d: %+v", step, failure)
		}
	}
	for errno, code := range map[unix.Errno]int{unix.ENOENT: 127, unix.EACCES: 126, unix.ENOEXEC: 126,
		unix.ELIBBAD: 126, unix.E2BIG: 125, unix.ENOMEM: 125} {
		if failure := o.explainStep(&fork.Failure{Step: fork.StepExec, Errno: errno}); failure.Code != code {
			t.Errorf("%v is reported as %d", errno, failure.Code)
		}
	}
	if failure := o.explainStep(&fork.Failure{Step: fork.StepJoin, Index: 1,
		Errno: unix.EIO}); !strings.Contains(failure.Step, "/group") {
		t.Errorf("the last group is reported as %q", failure.Step)
	}
}

// TestPlanOfLimits checks that the last limit of a name counts, and that the limit of processes is set after the change
// of user.
func TestPlanOfLimits(t *testing.T) {
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &now); err != nil {
		t.Fatal(err)
	}
	p := &fork.Plan{}
	if err := limit(p, []Rlimit{{"core", 1, 1}, {"nproc", 3, 4}, {"core", 0, -1}}, false); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(p.Limits, []fork.Limit{{Number: unix.RLIMIT_CORE, Soft: 0, Hard: unix.RLIM_INFINITY, Index: 2}}) {
		t.Errorf("at first: %+v", p.Limits)
	}
	if p.Late == nil || *p.Late != (fork.Limit{Number: unix.RLIMIT_NPROC, Soft: 3, Hard: 4, Index: 1}) {
		t.Errorf("late: %+v", p.Late)
	}
	p = &fork.Plan{}
	if err := limit(p, []Rlimit{{"nproc", 3, 4}}, true); err != nil || p.Late != nil || len(p.Limits) != 1 {
		t.Errorf("without a change of user: %+v, %+v (%v)", p.Limits, p.Late, err)
	}
	if now.Max != unix.RLIM_INFINITY {
		p = &fork.Plan{}
		if err := limit(p, []Rlimit{{"nproc", 3, -1}}, false); err != nil || p.Late == nil || len(p.Limits) != 1 ||
			p.Limits[0].Soft != unix.RLIM_INFINITY {
			t.Errorf("raised: %+v, then %+v (%v)", p.Limits, p.Late, err)
		}
	}
}

// TestOwnThreadIsNotTheMainOne checks that onOwnThread never uses the main thread. The main thread cannot end, and
// /proc/self shows its namespaces.
func TestOwnThreadIsNotTheMainOne(t *testing.T) {
	done := make(chan int)
	for range 100 {
		onOwnThread(func() { done <- unix.Gettid() })
		if <-done == os.Getpid() {
			t.Fatal("it is the main thread")
		}
	}
}
