package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file implements `submit -f -` with several YAML documents. Each job is submitted when its document is complete,
// over one connection, and only one document is in memory.

// document is one document of a stream of YAML.
type document struct {
	number, line int    // from 1; the line is that of the first byte of text
	text         []byte // at most one byte more than a job file may have
}

// documents splits a stream of YAML.
type documents struct {
	in      *bufio.Reader
	line    int    // of the last line that was read
	number  int    // of the last document
	pending []byte // the separator that begins the next document
	ended   bool   // the stream has no more documents
}

func newDocuments(in io.Reader) *documents {
	return &documents{in: bufio.NewReaderSize(in, 64<<10)}
}

// script reports whether the stream is a script instead.
func (d *documents) script() bool {
	start, _ := d.in.Peek(len("\ufeff#!"))
	return bytes.HasPrefix(bytes.TrimPrefix(start, []byte("\ufeff")), []byte("#!"))
}

// separates reports whether a line begins a document.
func separates(line []byte) bool {
	rest, is := bytes.CutPrefix(line, []byte("---"))
	return is && (len(rest) == 0 || strings.IndexByte(" \t\r\n", rest[0]) >= 0)
}

// filled reports whether a line is part of a job, and not only a comment, a directive or a separator.
func filled(line []byte) bool {
	if separates(line) {
		line = line[3:]
	} else if bytes.HasPrefix(line, []byte("%")) {
		return false
	}
	line = bytes.TrimSpace(line)
	return len(line) > 0 && line[0] != '#' && !bytes.Equal(line, []byte("..."))
}

// next returns the next document that is not empty. At the end of the stream, it returns io.EOF.
func (d *documents) next() (*document, error) {
	doc := &document{number: d.number + 1, line: max(d.line, 1), text: d.pending}
	begun, has, starts := len(d.pending) > 0, filled(d.pending), true
	d.pending = nil
	for {
		part, err := d.in.ReadSlice('\n')
		if starts && len(part) > 0 {
			d.line++
		}
		switch {
		case !starts:
			has = has || len(bytes.TrimSpace(part)) > 0
		case separates(part) && has:
			d.pending, d.number = bytes.Clone(part), doc.number
			return doc, nil
		case separates(part) && begun:
			doc.text, doc.line, has = nil, d.line, filled(part) // the document before was empty
		default:
			begun, has = begun || separates(part), has || filled(part)
		}
		doc.text = append(doc.text, part[:min(len(part), jobfile.MaxBytes+1-len(doc.text))]...)
		starts = err == nil
		if err == nil || errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if d.ended = true; !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		if !has {
			return nil, io.EOF
		}
		d.number = doc.number
		return doc, nil
	}
}

// streamed reads the first document of standard input. It returns nil if standard input is submitted as a whole: a
// script, a single document, or a submit that must know all jobs first.
func (a *app) streamed(s *submission, files []string) (*documents, *document, error) {
	known := s.dryRun != "" || s.attach || s.requestID != "" || len(s.secretFlags.files)+len(s.secretFlags.env) > 0
	if s.brings != nil || known || !slices.Equal(files, []string{"-"}) {
		return nil, nil, nil
	}
	d := newDocuments(a.stdin)
	if d.script() {
		a.stdin = d.in
		return nil, nil, nil
	}
	first, err := d.next()
	if errors.Is(err, io.EOF) {
		first, err = &document{}, nil
	}
	if err == nil && d.ended {
		a.stdin = bytes.NewReader(first.text)
		return nil, nil, nil
	}
	a.stdin = strings.NewReader("") // a secret cannot be read from it
	return d, first, err
}

// stream submits each document. A wrong document does not stop the others; a lost scheduler and an interrupt do.
func (a *app) stream(ctx context.Context, c *client.Client, s *submission, d *documents, first *document) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	read := make(chan *document)
	failed := make(chan error, 1)
	go func() {
		defer close(read)
		for doc, err := first, error(nil); ; doc, err = d.next() {
			if err != nil {
				failed <- err
				return
			}
			select {
			case read <- doc:
			case <-ctx.Done():
				failed <- ctx.Err()
				return
			}
		}
	}()
	t := streaming{app: a, s: s}
	for {
		select {
		case doc, is := <-read:
			if !is {
				return t.end(ctx, c, <-failed)
			}
			if err := t.submit(ctx, c, doc); err != nil {
				return t.end(ctx, c, err)
			}
		case <-ctx.Done():
			return t.end(ctx, c, ctx.Err())
		}
	}
}

// streaming counts what became of the documents.
type streaming struct {
	*app
	s               *submission
	seen, submitted int // documents, and jobs
	code            int // exit code of the first refusal
	ids             []string
}

// submit submits the jobs of a document, and reports a refusal. It returns an error if the next documents would fail
// too.
func (t *streaming) submit(ctx context.Context, c *client.Client, doc *document) error {
	t.seen = doc.number
	specs, sources, err := doc.jobs()
	if t.s.sources = sources; err == nil {
		for _, spec := range specs {
			beginHere(spec)
		}
		err = t.fillSecrets(t.s, specs)
	}
	for _, spec := range specs {
		if err != nil {
			break
		}
		var id string
		if id, err = t.order(ctx, c, t.s, spec); err == nil {
			t.submitted++
			if t.s.wait {
				t.ids = append(t.ids, id)
			}
		}
	}
	if ctx.Err() != nil {
		t.say("%s: document %d (line %d) may have been submitted too", t.name, doc.number, doc.line)
		return ctx.Err()
	}
	if err == nil {
		return nil
	}
	refused := &exit.Failure{Code: exit.Code(err)}
	if f := (*exit.Failure)(nil); errors.As(err, &f) {
		refused.More, refused.Problems = f.More, f.Problems
	}
	refused.Text, refused.Hint = exit.Words(err)
	refused.Text = fmt.Sprintf("document %d (line %d): %s", doc.number, doc.line, refused.Text)
	code := t.app.end(refused)
	if t.code == exit.OK {
		t.code = code
	}
	if code == exit.Unavailable {
		return refused
	}
	return nil
}

// jobs returns the jobs of a document. The lines in its problems are those of the stream.
func (d *document) jobs() (specs []*messages.JobSpec, sources []map[string]jobfile.Source, err error) {
	if len(d.text) > jobfile.MaxBytes {
		return nil, nil, exit.Hint("put large data into separate files", "has more than %d bytes", jobfile.MaxBytes)
	}
	specs, sources, err = jobfile.ParseWithSources(d.text)
	problems := jobfile.Problems(nil)
	if !errors.As(err, &problems) {
		return specs, sources, err
	}
	for _, p := range problems {
		if p.Line > 0 {
			p.Line += d.line - 1
		}
	}
	return nil, nil, refusedFile("standard input", problems)
}

// end says what was submitted unless all was, and waits for the jobs on request. why is the reason of the end: io.EOF
// at the end of the stream.
func (t *streaming) end(ctx context.Context, c *client.Client, why error) error {
	whole := errors.Is(why, io.EOF)
	if !whole || t.code != exit.OK {
		t.say("%s: jobs submitted: %d, documents read: %d", t.name, t.submitted, t.seen)
	}
	switch {
	case !whole && exit.Code(why) == exit.Unavailable:
		return exit.With(exit.Unavailable) // it was printed
	case !whole:
		return why
	case t.s.wait:
		if err := t.waitAll(ctx, c, t.ids, true); t.code == exit.OK {
			return err
		}
	}
	return exit.With(t.code)
}
