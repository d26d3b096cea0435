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

// This file runs programs of an administrator. It runs only files that no user other than root or the agent's own user
// can have written. A hanging program is killed with its children at its timeout. If it cannot even be killed, it is
// abandoned.

// maxWords bounds the kept output of a program: enough for a sentence about the problem.
const maxWords = 1000

// dying is the time after its timeout in which a killed program must end and close its output.
const dying = 2 * time.Second

// ErrHangs reports a program that did not end in time.
var ErrHangs = errors.New("the program did not end in time")

// Program is a program of the node's administrator.
type Program struct {
	Command []string
	Env     []string // the complete environment; nil: the agent's own
	Input   []byte   // its standard input
	Timeout time.Duration
	// Own reports that the program is this program itself, which needs no check.
	Own bool
	// Holds is a file that stays open until the program and all its children have ended; nil: none.
	Holds *os.File
}

// Check refuses a program that another user could have written or could replace.
func (p Program) Check() error {
	_, err := p.path()
	return err
}

// path returns the path of the program without links.
func (p Program) path() (string, error) {
	if len(p.Command) == 0 || p.Command[0] == "" {
		return "", errors.New("no program is set")
	}
	if !filepath.IsAbs(p.Command[0]) {
		return "", fmt.Errorf("%s: use an absolute path", p.Command[0])
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
		return "", fmt.Errorf("%s is not executable; run chmod +x on it", path)
	}
	return path, nil
}

// Run runs the program until its end. If it failed, the error contains its exit code and its output. An abandoned
// program may still run; gone closes when it has ended. gone is nil if nothing was abandoned.
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

// words keeps the beginning of a program's output.
type words struct{ text []byte }

func (w *words) Write(text []byte) (int, error) {
	w.text = append(w.text, text[:min(len(text), maxWords-len(w.text))]...)
	return len(text), nil
}

// failure returns how a program ended, with its own output if there is any.
func (w *words) failure(err error) error {
	exit := &exec.ExitError{}
	if !errors.As(err, &exit) {
		return err
	}
	text := messages.AsText(strings.Join(strings.Fields(string(w.text)), " "))
	if text == "" {
		text = "no output"
	}
	return fmt.Errorf("%s: %s", exit, text)
}
