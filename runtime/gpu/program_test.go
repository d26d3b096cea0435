package gpu

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able/pace"
)

// noneLeft waits until the process in the script's file "child" is dead.
func (r *rig) noneLeft() {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.said, "child"))
	if err != nil {
		r.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		r.t.Fatal(err)
	}
	for end := pace.Until(20 * time.Second); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(end) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			r.t.Fatalf("process %d is left: %s", pid, stat)
		}
	}
}

// TestAnswer checks that both outputs of a program are read, and that any exit code is a result.
func TestAnswer(t *testing.T) {
	r := newRig(t)
	r.program(`echo "$1"; echo trouble >&2; exit 14`)
	said, err := (&program{name: r.smi(), timeout: time.Minute}).ask(context.Background(), "word")
	if err != nil || string(said.text) != "word\n" || string(said.trouble) != "trouble\n" || said.code != 14 {
		t.Error(said, err)
	}
}

// TestOutputHeld checks that a child that holds the output of an ended program causes only a short wait.
func TestOutputHeld(t *testing.T) {
	r := newRig(t)
	r.program(`echo said; sleep 1000 & echo $! > "$SAID/child"`)
	begin := time.Now()
	said, err := (&program{name: r.smi(), timeout: time.Minute}).ask(context.Background())
	if err != nil || string(said.text) != "said\n" || time.Since(begin) > pace.Of(30*time.Second) {
		t.Error(said, err, time.Since(begin))
	}
	r.noneLeft()
}

// TestStuck checks that no program is started while an abandoned one exists, and that programs can run again
// afterwards.
func TestStuck(t *testing.T) {
	r := newRig(t).says("query", "well")
	stuck := make(chan struct{})
	p := &program{name: r.smi(), timeout: time.Minute, stuck: stuck}
	if said, err := p.ask(context.Background(), "-q", "-x"); !errors.Is(err, errSilent) {
		t.Error(said, err)
	}
	close(stuck)
	if said, err := p.ask(context.Background(), "-q", "-x"); err != nil || string(said.text) != "well" {
		t.Error(said, err)
	}
}

// TestCancelled checks that the end of the agent does not wait for the driver.
func TestCancelled(t *testing.T) {
	r := newRig(t)
	r.program("sleep 1000")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	begin := time.Now()
	if said, err := (&program{name: r.smi(), timeout: time.Hour}).ask(ctx); err == nil ||
		time.Since(begin) > pace.Of(30*time.Second) {
		t.Error(said, err, time.Since(begin))
	}
}
