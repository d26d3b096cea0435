// Command member is one member of a gang in the chaos test: it takes what it was given so that nobody else can have it
// too, writes down what it saw, and reports where the cluster broke a promise. It must never mend anything.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// lonely is how long a member waits for the others before the gang counts as one
// that runs in part. A scheduler stops such a gang when its start deadline is
// over, and may itself be away for a while.
const lonely = 2 * time.Minute

func main() {
	if err := run(); err != nil {
		complain(err)
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func folder(name string) string { return filepath.Join(os.Getenv("CHAOS_DIR"), name) }

// complain leaves a message for the test. Each member has a file of its own.
func complain(err error) {
	who := fmt.Sprintf("%s.%s.%s.%d",
		os.Getenv("SYNAPSE_JOB_ID"), os.Getenv("SYNAPSE_ATTEMPT"), os.Getenv("SYNAPSE_RANK"), os.Getpid())
	_ = os.WriteFile(filepath.Join(folder("broken"), who), []byte(err.Error()), 0o666)
}

func run() error {
	job, attempt, rank := os.Getenv("SYNAPSE_JOB_ID"), os.Getenv("SYNAPSE_ATTEMPT"), os.Getenv("SYNAPSE_RANK")
	size, err := strconv.Atoi(os.Getenv("SYNAPSE_WORLD_SIZE"))
	if err != nil {
		return fmt.Errorf("world size: %w", err)
	}
	for gpu := range strings.SplitSeq(os.Getenv("SYNAPSE_GPUS"), ",") {
		if err := take(os.Getenv("SYNAPSE_NODE") + "." + gpu); err != nil {
			return err
		}
	}
	if got := strings.Count(os.Getenv("SYNAPSE_GPUS"), ",") + 1; strconv.Itoa(got) != os.Getenv("CHAOS_GPUS") {
		return fmt.Errorf("shape: the member got %d GPUs but requested %s", got, os.Getenv("CHAOS_GPUS"))
	}
	mark := filepath.Join(folder("marks"), job+"."+attempt+".")
	if err := put(mark + rank + ".started"); err != nil {
		return fmt.Errorf("second start: %w", err)
	}
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		started, err := filepath.Glob(mark + "*.started")
		if err != nil || len(started) == size {
			break
		}
		if time.Since(began) > lonely {
			return fmt.Errorf("partial gang: only %d of %d members run", len(started), size)
		}
	}
	pause, err := time.ParseDuration(os.Getenv("CHAOS_WORK"))
	if err != nil {
		return err
	}
	time.Sleep(pause)
	return put(mark + rank + ".done")
}

// take holds a device until the process is gone.
func take(device string) error {
	fd, err := syscall.Open(filepath.Join(folder("devices"), device),
		syscall.O_RDWR|syscall.O_CREAT|syscall.O_CLOEXEC, 0o666)
	if err != nil {
		return err
	}
	if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("double allocation: another member has %s", device)
	} else if err != nil {
		return err
	}
	return nil
}

// put makes a file that must not be there.
func put(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	return f.Close()
}
