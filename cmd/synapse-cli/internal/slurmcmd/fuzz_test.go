package slurmcmd

import (
	"context"
	"errors"
	"strings"
	"testing"

	client "github.com/yi-json/synapse/clients/go"
)

// This file tests Slurm's commands with random words.

// FuzzCommands checks that no words make a command panic, and that a command with a wrong word makes no request and
// explains itself on stderr.
func FuzzCommands(f *testing.F) {
	for i, line := range []string{"--jobs=1 -t R -o %i", "-A x -s CD -S now-1d", "-N -O NodeList:3", "show job 7 -o",
		"-j", "--", "update JobId=7 TimeLimit=1:00", "list user a format=account%20", "-u a,b --format=%99999999i", "-s B"} {
		f.Add(uint(i), line)
	}
	f.Fuzz(func(t *testing.T, which uint, line string) {
		names := Names()
		name := names[which%uint(len(names))]
		errs, asked := "", false
		a := &CLI{
			Name: name, Variable: func(string) string { return "" },
			Lookup: func(string) (string, bool) { return "", false },
			Read:   func(string) ([]byte, error) { return []byte("#!/bin/sh\ntrue\n"), nil },
			Moment: func(_, text string, _ int64) (int64, error) { return int64(len(text)), nil },
			Page:   func(string) error { return nil },
			Data:   func(string, ...any) error { return nil },
			Say:    func(format string, _ ...any) { errs += format },
			Tell:   func(err error) { errs += err.Error() },
			With: func(func(context.Context, *client.Client) error) error {
				asked = true
				return errors.New("no cluster")
			},
		}
		code := a.Run(strings.Fields(line))
		if code != 0 && errs == "" {
			t.Errorf("%s %s ends with %d without a word", name, line, code)
		}
		if strings.Contains(errs, "warning") && code != 0 && !asked && !strings.Contains(errs, "error") {
			t.Errorf("%s %s only warns, and ends with %d", name, line, code)
		}
	})
}
