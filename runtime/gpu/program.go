package gpu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"time"

	"github.com/yi-json/synapse/runtime/procgroup"
)

// This file runs a vendor's program with a time limit. A program that hangs in the driver may not even die when it is
// killed. It is then abandoned. While it still exists, no other program is started, because each one would hang too.

var (
	errAbsent = errors.New("is not installed")
	errSilent = errors.New("did not answer")
)

const (
	maxOutput = 16 << 20
	// outputPatience bounds how long an ended program may hold its output open.
	outputPatience = time.Second
)

// program is a vendor's program.
type program struct {
	name    string
	timeout time.Duration
	stuck   <-chan struct{} // closed when an abandoned run has ended
}

// output holds the output of a program.
type output struct {
	text    []byte
	trouble []byte // its error output
	code    int
}

// ask runs the program and returns its whole output. Any exit code is a valid result.
func (p *program) ask(ctx context.Context, arguments ...string) (*output, error) {
	path, err := exec.LookPath(p.name)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s %w", p.name, errAbsent)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	if p.stuck != nil {
		select {
		case <-p.stuck:
			p.stuck = nil
		default:
			return nil, fmt.Errorf("%s %w: an earlier run still hangs in the driver and cannot be killed", p.name, errSilent)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	out, trouble := &bounded{}, &bounded{}
	run := exec.Command(path, arguments...)
	run.Stdout, run.Stderr = out, trouble
	all, err := procgroup.Start(run, outputPatience)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	select {
	case <-all.Ended():
	case <-ctx.Done():
		p.giveUp(all)
		return nil, fmt.Errorf("%s %w within %v; check whether the driver hangs", p.name, errSilent, p.timeout)
	}
	if err := all.Err(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	if out.over {
		return nil, fmt.Errorf("%s: printed more than %d MiB", p.name, maxOutput>>20)
	}
	return &output{text: out.text, trouble: trouble.text, code: run.ProcessState.ExitCode()}, nil
}

// giveUp kills the process group, and notes a process that does not die.
func (p *program) giveUp(all *procgroup.Crew) {
	all.Kill()
	patience := time.NewTimer(2 * outputPatience)
	defer patience.Stop()
	select {
	case <-all.Ended():
	case <-patience.C:
		p.stuck = all.Ended()
	}
}

// bounded keeps the beginning of an output and discards the rest.
type bounded struct {
	text []byte
	over bool
}

func (b *bounded) Write(text []byte) (int, error) {
	if room := maxOutput - len(b.text); len(text) > room {
		b.text, b.over = append(b.text, text[:room]...), true
	} else {
		b.text = append(b.text, text...)
	}
	return len(text), nil
}
