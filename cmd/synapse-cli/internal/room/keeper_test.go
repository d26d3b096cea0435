//go:build linux

package room

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// This file tests the keeper of a job (run.go) with real shells.

// TestKeeper checks that a keeper ends with the code of its lifeline, and with 129 without one. Only a keeper with
// "return" survives its first lifeline.
func TestKeeper(t *testing.T) {
	for _, c := range []struct {
		manner string
		broken int // lifelines that are killed before one sends 7; -1: no lifeline
		code   int
	}{{"leave", 0, 7}, {"leave", 1, 129}, {"leave", -1, 129}, {"return", 0, 7}, {"return", 3, 7}, {"return", -1, 129}} {
		scratch := t.TempDir()
		bin := filepath.Join(scratch, "bin")
		if err := os.Mkdir(bin, 0o755); err != nil {
			t.Fatal(err)
		}
		if c.broken < 0 { // the minute ends immediately
			if err := os.WriteFile(filepath.Join(bin, "sleep"), []byte("#!/bin/sh\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		shell := func(text string, args ...string) *exec.Cmd {
			cmd := exec.Command("/bin/sh", append([]string{"-c", text, "run"}, args...)...)
			cmd.Env = []string{"SYNAPSE_HOSTFILE=" + filepath.Join(scratch, "hosts"), "SYNAPSE_RANK=0",
				"PATH=" + bin + ":" + os.Getenv("PATH")}
			return cmd
		}
		keeps := shell(Keeper, c.manner)
		if err := keeps.Start(); err != nil {
			t.Fatal(err)
		}
		for n := 0; n <= c.broken; n++ {
			line := shell(lifeline)
			in, _ := line.StdinPipe()
			out, _ := line.StdoutPipe()
			if err := line.Start(); err != nil {
				t.Fatal(err)
			}
			if said, err := bufio.NewReader(out).ReadString('\n'); said != "held\n" {
				t.Fatalf("%+v: lifeline %d says %q: %v", c, n, said, err)
			}
			if n == c.broken {
				_, _ = in.Write([]byte("7\n"))
				_ = line.Wait()
				break
			}
			_ = line.Process.Kill()
			_ = line.Wait()
			if c.manner == "leave" {
				break
			}
		}
		err := keeps.Wait()
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != c.code {
			t.Errorf("%+v: the keeper ended with %v", c, err)
		}
	}
}
