package procgroup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/file"
)

// This file owns programs of an administrator. Only files are run that nobody but root, or our own user, can have
// written. A program that hangs is killed when its time is over, with all that it started; one that cannot even be
// killed is given up, and nobody waits for it.

// maxWords bounds what is kept of what a program says: enough for the sentence that tells people what is wrong.
const maxWords = 1000

// dying is how long after its time a program may take to die, and to let go of its output.
const dying = 2 * time.Second

// ErrHangs is of a program that did not end in its time.
var ErrHangs = errors.New("it did not end in its time")

// Program is one that belongs to the machine's owner.
type Program struct {
	Command []string
	Env     []string // all of it; nil: the agent's own
	Input   []byte   // what it can read
	Timeout time.Duration
	// Own: it is the program that runs this, which whoever started it has chosen.
	Own bool
	// Holds, if any, stays open until the program and all that it started have ended.
	Holds *os.File
}

// Check refuses a program that somebody else could have written, or could put another in the place of.
func (p Program) Check() error {
	_, err := p.path()
	return err
}

// path is the file that is run, without links.
func (p Program) path() (string, error) {
	if len(p.Command) == 0 || p.Command[0] == "" {
		return "", errors.New("names no program")
	}
	if !filepath.IsAbs(p.Command[0]) {
		return "", fmt.Errorf("%s: give the whole path, from / on", p.Command[0])
	}
	path, err := file.Trusted(p.Command[0], "change what is run as root here")
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
		return "", fmt.Errorf("%s is not a program: chmod +x it", path)
	}
	return path, nil
}

// Run runs the program to its end, and returns why it failed: its exit code and what it said. A program that was
// given up may go on; gone is closed when it has ended after all, and is nil where nothing was given up.
func (p Program) Run(ctx context.Context) (gone <-chan struct{}, err error) {
	path, err := p.Command[0], error(nil)
	if !p.Own {
		path, err = p.path()
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	said := &words{}
	run := exec.Command(path, p.Command[1:]...)
	run.Env, run.Dir, run.Stdout, run.Stderr = p.Env, "/", said, said
	if p.Input != nil {
		run.Stdin = bytes.NewReader(p.Input)
	}
	if p.Holds != nil {
		run.ExtraFiles = []*os.File{p.Holds}
	}
	all, err := Start(run, dying)
	if err != nil {
		return nil, err
	}
	select {
	case <-all.Ended():
		return nil, said.failure(all.Err())
	case <-ctx.Done():
	}
	all.Kill()
	select {
	case <-all.Ended():
	case <-time.After(2 * dying):
		gone = all.Ended()
	}
	return gone, fmt.Errorf("%w (%s), and was killed", ErrHangs, p.Timeout)
}

// words keep the beginning of what a program says.
type words struct{ text []byte }

func (w *words) Write(text []byte) (int, error) {
	w.text = append(w.text, text[:min(len(text), maxWords-len(w.text))]...)
	return len(text), nil
}

// failure is how a program ended, in its own words where it has some.
func (w *words) failure(err error) error {
	exit := &exec.ExitError{}
	if !errors.As(err, &exit) {
		return err
	}
	text := messages.AsText(strings.Join(strings.Fields(string(w.text)), " "))
	if text == "" {
		text = "it said nothing"
	}
	return fmt.Errorf("%s: %s", exit, text)
}
