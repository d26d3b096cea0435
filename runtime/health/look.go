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

// This file owns the built-in checks. An access to a file system may hang, so a separate process does it, which can be
// abandoned. In the agent, it would block a thread forever.

// SubCommand is the argument with which this program only checks a file system.
const SubCommand = "health-look"

// Main runs a check in a separate process. It prints the problem and exits with 1.
func Main(arguments []string) int {
	err := errors.New("no check was given; use mount or disk with its arguments")
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

// Mounted returns a check that a file system is mounted at a path and answers.
func Mounted(self, path string, limit time.Duration) func(context.Context) (<-chan struct{}, error) {
	return apart(self, limit, "mount", path)
}

// Disk returns a check that the file system of a path has this many bytes free and is writable.
func Disk(self, path string, least int64, limit time.Duration) func(context.Context) (<-chan struct{}, error) {
	return apart(self, limit, "disk", path, strconv.FormatInt(least, 10))
}

// apart returns a check that runs in a separate process of this program.
func apart(self string, limit time.Duration, arguments ...string) func(context.Context) (<-chan struct{}, error) {
	return procgroup.Program{Command: append([]string{self, SubCommand}, arguments...), Timeout: limit, Own: true}.Run
}

// mounted checks the kernel's list of mounts before it accesses the path.
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

// unescaped returns a path without the octal numbers that the kernel uses for spaces and similar characters.
func unescaped(path string) string {
	for _, c := range []string{" ", "\t", "\n", "\\"} {
		path = strings.ReplaceAll(path, fmt.Sprintf("\\%03o", c[0]), c)
	}
	return path
}

// roomy checks the free space of a file system, and writes and removes a file.
func roomy(path string, least uint64) error {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if free := s.Bavail * uint64(s.Bsize); free < least {
		return fmt.Errorf("%s has %d MiB free, but %d are required", path, free>>20, least>>20)
	}
	file, err := os.CreateTemp(path, ".synapse-health-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString("written")
	return errors.Join(err, file.Sync(), file.Close())
}

// Memory returns a check that the kernel has this many bytes of memory. A failed memory module is missing after a boot.
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
				err = fmt.Errorf("the node has %d MiB of memory, but %d are required", kib>>10, least>>20)
			}
			return nil, err
		}
		return nil, errors.New("the kernel does not report the memory size")
	}
}

// Clock returns a check of the difference between the node's clock and the scheduler's, which ask returns.
func Clock(most time.Duration, ask func(context.Context) (time.Duration, error),
) func(context.Context) (<-chan struct{}, error) {
	return func(ctx context.Context) (<-chan struct{}, error) {
		off, err := ask(ctx)
		if err == nil && off.Abs() > most {
			err = fmt.Errorf("the clock differs by %s from the scheduler's, but only %s are allowed", off, most)
		}
		return nil, err
	}
}

// Ports returns a check that each port of all InfiniBand cards, or of the named cards, is active.
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
				wrong = append(wrong, card+" is missing")
			}
		}
		if len(seen) == 0 && len(cards) == 0 {
			wrong = append(wrong, "no InfiniBand card found")
		}
		if len(wrong) > 0 {
			return nil, errors.New(strings.Join(wrong, "; "))
		}
		return nil, nil
	}
}
