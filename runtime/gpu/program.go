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

// This file owns the bounded run of a vendor's program. A program that hangs in
// the driver may not even die when it is killed, so it is given up rather than
// waited for; while it is still there no other is started, because each would
// hang as it does.

var (
	errAbsent = errors.New("is not installed")
	errSilent = errors.New("did not answer")
)

const (
	maxOutput = 16 << 20
	// outputPatience is how long after the end of its time a program may hold its output open.
	outputPatience = time.Second
)

// program is one that can be asked.
type program struct {
	name    string
	timeout time.Duration
	stuck   <-chan struct{} // closed when the one that was given up has ended after all
}

// output holds what a program said.
type output struct {
	text    []byte
	trouble []byte // on its error output
	code    int
}

// ask runs the program and answers its whole output. Any exit code is an answer.
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
			return nil, fmt.Errorf("%s %w: an earlier one still hangs in the driver and cannot be killed", p.name, errSilent)
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
		return nil, fmt.Errorf("%s %w within %v; see whether the driver hangs", p.name, errSilent, p.timeout)
	}
	if err := all.Err(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	if out.over {
		return nil, fmt.Errorf("%s: said more than %d MiB", p.name, maxOutput>>20)
	}
	return &output{text: out.text, trouble: trouble.text, code: run.ProcessState.ExitCode()}, nil
}

// giveUp kills the whole group, and remembers what does not die.
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

// bounded keeps the beginning of an output, and takes the rest without keeping it.
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
