package health

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/procgroup"
)

// This file owns the checks that need no program of the owner's. What may hang in a file system is looked at by a
// process of its own, which can be given up; the agent would keep a thread there for ever.

// SubCommand is the argument with which this program looks at a file system, and nothing else.
const SubCommand = "health-look"

// Main is that process: it says what is wrong, and exits with 1.
func Main(arguments []string) int {
	err := errors.New("look at what?")
	switch {
	case len(arguments) == 2 && arguments[0] == "mount":
		err = mounted(arguments[1])
	case len(arguments) == 3 && arguments[0] == "disk":
		var least uint64
		if least, err = strconv.ParseUint(arguments[2], 10, 63); err == nil {
			err = roomy(arguments[1], least)
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// Mounted checks that a file system is mounted at a path, and answers.
func Mounted(self, path string, limit time.Duration) func(context.Context) (<-chan struct{}, error) {
	return apart(self, limit, "mount", path)
}

// Disk checks that the file system of a path has so many bytes left, and can be written to.
func Disk(self, path string, least int64, limit time.Duration) func(context.Context) (<-chan struct{}, error) {
	return apart(self, limit, "disk", path, strconv.FormatInt(least, 10))
}

// apart looks by a process of its own, which is this program.
func apart(self string, limit time.Duration, arguments ...string) func(context.Context) (<-chan struct{}, error) {
	return procgroup.Program{Command: append([]string{self, SubCommand}, arguments...), Timeout: limit, Own: true}.Run
}

// mounted compares what the kernel has mounted with a path, before it touches that.
func mounted(path string) error {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer file.Close()
	there := false
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		there = there || len(fields) > 4 && unescaped(fields[4]) == filepath.Clean(path)
	}
	if !there {
		return fmt.Errorf("nothing is mounted at %s", path)
	}
	_, err = os.ReadDir(path)
	return err
}

// unescaped is a path as it is, where the kernel writes spaces and the like as octal numbers.
func unescaped(path string) string {
	for _, c := range []string{" ", "\t", "\n", "\\"} {
		path = strings.ReplaceAll(path, fmt.Sprintf("\\%03o", c[0]), c)
	}
	return path
}

// roomy asks a file system for its room, and writes a file that is gone at once.
func roomy(path string, least uint64) error {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if free := s.Bavail * uint64(s.Bsize); free < least {
		return fmt.Errorf("%s has %d MiB free, and %d are wanted", path, free>>20, least>>20)
	}
	file, err := os.CreateTemp(path, ".synapse-health-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString("written")
	return errors.Join(err, file.Sync(), file.Close())
}

// Memory checks that the kernel has so many bytes of memory: a module that has failed is left out at the boot.
func Memory(root string, least int64) func(context.Context) (<-chan struct{}, error) {
	return func(context.Context) (<-chan struct{}, error) {
		text, err := os.ReadFile(filepath.Join(root, "proc/meminfo"))
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) < 2 || fields[0] != "MemTotal:" {
				continue
			}
			kib, err := strconv.ParseInt(fields[1], 10, 53)
			if err == nil && kib<<10 < least {
				err = fmt.Errorf("it has %d MiB of memory, and %d are wanted", kib>>10, least>>20)
			}
			return nil, err
		}
		return nil, errors.New("the kernel does not say how much memory there is")
	}
}

// Clock checks how far the machine's clock is from the scheduler's, which ask finds out.
func Clock(most time.Duration, ask func(context.Context) (time.Duration, error),
) func(context.Context) (<-chan struct{}, error) {
	return func(ctx context.Context) (<-chan struct{}, error) {
		off, err := ask(ctx)
		if err == nil && off.Abs() > most {
			err = fmt.Errorf("the clock is %s from the scheduler's, and %s are allowed", off, most)
		}
		return nil, err
	}
}

// Ports checks that each port of the InfiniBand cards, or each of those named, is active.
func Ports(root string, cards []string) func(context.Context) (<-chan struct{}, error) {
	return func(context.Context) (<-chan struct{}, error) {
		states, err := filepath.Glob(filepath.Join(root, "sys/class/infiniband/*/ports/*/state"))
		if err != nil {
			return nil, err
		}
		var wrong []string
		seen := map[string]bool{}
		for _, path := range states {
			port := filepath.Dir(path)
			card := filepath.Base(filepath.Dir(filepath.Dir(port)))
			if len(cards) > 0 && !slices.Contains(cards, card) {
				continue
			}
			seen[card] = true
			text, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(text), "ACTIVE") {
				wrong = append(wrong, fmt.Sprintf("port %s of %s is %s", filepath.Base(port), card,
					strings.TrimSpace(string(text))))
			}
		}
		for _, card := range cards {
			if !seen[card] {
				wrong = append(wrong, card+" is not there")
			}
		}
		if len(seen) == 0 && len(cards) == 0 {
			wrong = append(wrong, "there is no InfiniBand card")
		}
		if len(wrong) > 0 {
			return nil, errors.New(strings.Join(wrong, "; "))
		}
		return nil, nil
	}
}
