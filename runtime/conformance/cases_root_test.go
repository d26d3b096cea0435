//go:build linux

// This file has the cases of a task's view of files, and of its effects on the host's files.
package conformance

import (
	"os"
	"path/filepath"
	"strings"
)

var rootCases = []testCase{
	{"own root and processes", []Trait{Rootfs, Namespaces}, ownRoot},
	{"linked /proc, /sys, /dev are refused", []Trait{Rootfs, PlainRoot}, linkedSystem},
	{"linked /etc reads nothing of the machine", []Trait{Rootfs, Users}, linkedEtc},
	{"mount target by way of a link stays inside", []Trait{Rootfs, Namespaces, Links}, linkedTarget},
	{"no mount reaches the machine", []Trait{Rootfs, Namespaces}, noMountLeak},
}

func ownRoot(s *suite) {
	text := s.output(
		s.sh("ls / | grep -v '^scratch$' | wc -l; test -e /usr/bin && echo machine; ls -d /proc/[0-9]* | wc -l"),
	)
	lines := strings.Fields(text)
	if len(lines) != 2 || lines[0] != "7" || len(lines[1]) > 1 {
		s.Errorf("the task saw %q", text)
	}
}

func linkedSystem(s *suite) {
	for _, name := range []string{"proc", "sys", "dev"} {
		for _, target := range []string{"/tmp", "/etc", "../../../../tmp"} {
			place := filepath.Join(s.rootfs, name)
			if err := os.RemoveAll(place); err != nil {
				s.Fatal(err)
			}
			if err := os.Symlink(target, place); err != nil {
				s.Fatal(err)
			}
			if got := s.code(s.sh("true")); got != 125 {
				s.Errorf("/%s -> %s ended with %d", name, target, got)
			}
			if err := os.Remove(place); err != nil {
				s.Fatal(err)
			}
			if err := os.Mkdir(place, 0o755); err != nil {
				s.Fatal(err)
			}
		}
	}
}

func linkedEtc(s *suite) {
	if err := os.RemoveAll(filepath.Join(s.rootfs, "etc")); err != nil {
		s.Fatal(err)
	}
	outside := s.TempDir()
	write(s, filepath.Join(outside, "passwd"), "mallory:x:7:7::/:/bin/sh\n", 0o644)
	if err := os.Symlink(outside, filepath.Join(s.rootfs, "etc")); err != nil {
		s.Fatal(err)
	}
	task := s.sh("id -u; cat /etc/passwd 2>/dev/null; true")
	task.User = "1000:1000"
	if got := s.output(task); got != "1000\n" {
		s.Errorf("the task saw %q", got)
	}
}

func linkedTarget(s *suite) {
	outside, shown := s.TempDir(), s.TempDir()
	write(s, filepath.Join(shown, "file"), "shown", 0o644)
	if err := os.Symlink(outside, filepath.Join(s.rootfs, "data")); err != nil {
		s.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(s.rootfs, outside), 0o755); err != nil {
		s.Fatal(err)
	}
	task := s.sh("cat /data/file")
	task.Mounts = map[string]string{"/data": shown}
	if got := s.output(task); got != "shown" {
		s.Errorf("the task saw %q", got)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		s.Errorf("the host's directory got %v (%v)", entries, err)
	}
}

// noMountLeak counts the host's mounts while the task lives. The leak check around every case counts them after it.
func noMountLeak(s *suite) {
	before := countMounts(s)
	s.ready(s.sh("echo ready; sleep 1000"))
	if now := countMounts(s); now != before {
		s.Errorf("%d mounts before, %d while the task lives", before, now)
	}
}
