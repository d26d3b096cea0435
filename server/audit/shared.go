package audit

import (
	"fmt"
	"slices"
	"time"
)

// This file owns how the account of one scheduler is tied to those of the others that share its store. Each keeps its
// head there, and whoever leads next names all heads in its own account: from then on the lines up to them can be
// neither changed nor cut off without its account telling so, too.

const (
	// keepsEvery is how often the head goes to the store where there are new lines: what a scheduler wrote in the last
	// seconds before it was killed is pinned by nobody.
	keepsEvery = 10 * time.Second
	// maxPins bounds how many heads a line names. Nobody has as many schedulers, but a store may have a past.
	maxPins = 64
)

// Pin is a head that a line of another account, or a later line of the same one, names.
type Pin struct {
	Of   string `json:"of"` // the scheduler whose account it is
	N    uint64 `json:"n"`
	Hash string `json:"hash"`
}

// The calls of lines that a scheduler writes of itself. By them an account says whose it is.
const (
	callStart = "start"
	callLead  = "lead"
)

// Board keeps the heads of all schedulers: in the store that they share. It has one of each.
type Board interface {
	KeepHead(head Pin) error
	Heads() ([]Pin, error)
}

// Share says whose account this is and where its head is kept, with a line about the start. Where the store remembers a
// line that is not here any more it tells so; the account goes on, and says for ever what is missing. The error is only
// about the line.
func (l *Log) Share(who, version string, in Board) error {
	line := Line{Who: who, Call: callStart, What: version, Outcome: OK}
	heads, err := in.Heads()
	if err != nil {
		line.What += "; " + unknownHeads(err)
	}
	was := slices.IndexFunc(heads, func(h Pin) bool { return h.Of == who })
	if was >= 0 {
		line.Heads = heads[was : was+1]
		if own := line.Heads[0]; l.lacks(own) {
			l.tell("The audit log in %s does not match line %d in the store: lines were cut off, or it "+
				"is another folder. It continues, and `synapse-cli audit verify` reports the "+
				"gap", l.dir, own.N)
		}
	}
	l.who, l.in = who, in
	l.running.Add(1)
	go l.keepHeads()
	_, err = l.Add(line)
	return err
}

// lacks reports whether the account ends before a line of it that was kept, or with another one.
func (l *Log) lacks(own Pin) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return own.N > l.head.N || own.N == l.head.N && own.Hash != l.head.Hash
}

// Lead writes that the scheduler leads from here on, after which one (empty: nobody knows), and how far the account of
// each scheduler had got.
func (l *Log) Lead(epoch uint64, after string) error {
	line := Line{Who: l.who, Call: callLead, What: fmt.Sprintf("lead in epoch %d", epoch), Outcome: OK}
	if after != "" {
		line.What += ", after " + after
	}
	heads, err := l.in.Heads()
	switch {
	case err != nil:
		line.What += "; " + unknownHeads(err)
	case len(heads) > maxPins:
		line.What += fmt.Sprintf("; of %d heads %d are named", len(heads), maxPins)
		heads = heads[:maxPins]
	}
	line.Heads = heads
	_, err = l.Add(line)
	return err
}

func unknownHeads(err error) string {
	return fmt.Sprintf("how far other accounts have got is not known: %v", err)
}

func (l *Log) keepHeads() {
	defer l.running.Done()
	often := time.NewTicker(keepsEvery)
	defer often.Stop()
	for {
		select {
		case <-l.closed:
			return
		case <-often.C:
			l.KeepHead()
		}
	}
}

// KeepHead brings the head to the store where there are new lines. The account goes on where that fails.
func (l *Log) KeepHead() {
	l.keeping.Lock()
	defer l.keeping.Unlock()
	l.mu.Lock()
	head := l.head
	l.mu.Unlock()
	if l.in == nil || head == l.kept {
		return
	}
	err := l.in.KeepHead(Pin{Of: l.who, N: head.N, Hash: head.Hash})
	switch {
	case err == nil:
		l.kept, l.unkept = head, false
	case !l.unkept:
		l.unkept = true
		l.tell("The head of the audit log is not in the store yet, and is written when the store answers: "+
			"%v", err)
	}
}
