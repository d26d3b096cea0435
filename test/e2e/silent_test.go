package e2e

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/test/able/pace"
)

// This file measures the cost of connections that never authenticate: their memory, and whether other clients are
// served.

// silent is the number of connections in a usual run, next to other tests. It exceeds the limit of all sources. Ten
// times as many would use up the host.
var silent = flag.Int("e2e.silent", 2000, "how many silent connections there are")

// keepingSilent is the argument that makes this test's program a crowd of silent connections. The scheduler's address
// and their number follow.
const keepingSilent = "silent"

// keepSilent connects from a few addresses, and reconnects whenever it is cut off, until its input ends.
func keepSilent(address, number string) int {
	many, err := strconv.Atoi(number)
	if err != nil {
		return 2
	}
	made := make(chan struct{}, many)
	for i := range many {
		from := &net.Dialer{Timeout: 5 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 9, 0, byte(i%8+1))}}
		go func() {
			for first := true; ; first = false {
				conn, err := from.Dial("tcp", address)
				if first {
					made <- struct{}{}
				}
				if err != nil {
					time.Sleep(time.Second)
					continue
				}
				_, _ = io.Copy(io.Discard, conn)
				conn.Close()
				time.Sleep(time.Second)
			}
		}()
	}
	for range many {
		<-made
	}
	fmt.Println("silent")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// resident returns the resident memory of a process, in bytes.
func resident(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}

// TestSilentConnections opens thousands of silent connections, at most as many as file descriptors allow, which
// reconnect whenever they are closed. They must cost less than 100 MB, which must be freed afterwards. An honest client
// must be served meanwhile.
func TestSilentConnections(t *testing.T) {
	pace.Crowd(t)
	s := newSecured(t)
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	many := int(min(uint64(*silent), files.Max-200))
	admin := filepath.Join(s.keys, "admin")
	honest := func() time.Duration {
		a := s.as(admin, "get", "nodes")
		a.wants(t, 0, "", "")
		return a.took
	}
	alone := honest()
	pid := s.scheduler.cmd.Process.Pid
	before := resident(t, pid)

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	crowd := exec.Command(self, keepingSilent, s.address, strconv.Itoa(many))
	stdin, err := crowd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := crowd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	crowd.Stderr = os.Stderr
	if err := crowd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { stdin.Close(); _ = crowd.Wait() }()
	told := make(chan struct{})
	go func() {
		_, _ = bufio.NewReader(stdout).ReadString('\n')
		close(told)
	}()
	most, slowest := 0, time.Duration(0)
	for limit, all := pace.Until(60*time.Second), false; ; {
		most, slowest = max(most, resident(t, pid)), max(slowest, honest())
		select {
		case <-told:
			if !all {
				all, limit = true, pace.Until(7*time.Second)
			}
		default:
		}
		if time.Now().After(limit) {
			if !all {
				t.Fatal("not all connections were made within a minute")
			}
			break
		}
	}
	stdin.Close()
	_ = crowd.Wait()
	var left int
	for limit := pace.Until(time.Minute); time.Now().Before(limit); time.Sleep(time.Second) {
		if left = resident(t, pid); left-before < 25<<20 {
			break
		}
	}
	t.Logf("%d silent connections: %d MB before, %d at most, %d afterwards; a call took %s alone, and %s at most", many,
		before>>20, most>>20, left>>20, alone.Round(time.Millisecond), slowest.Round(time.Millisecond))
	if most-before > 100<<20 || left-before > 25<<20 {
		t.Errorf("the scheduler had %d MB before, %d meanwhile and %d a minute afterwards", before>>20, most>>20, left>>20)
	}
	if slowest > pace.Of(5*time.Second) {
		t.Errorf("a call took %s", slowest)
	}
	if said := s.scheduler.said(); !strings.Contains(said, "Closed silent connections from ") {
		t.Error("the scheduler did not log the closed connections")
	}
}
