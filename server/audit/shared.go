package audit

import (
	"fmt"
	"slices"
	"time"

	"github.com/yi-json/synapse/clock"
)

// This file links the audit logs of the schedulers that share a store. Each scheduler keeps its head in the store.
// The next leader writes all heads into its own log. After that, a change or removal of an earlier line also
// contradicts another log.

const (
	// keepsEvery is the interval for storing the head, if there are new lines. The lines of the last interval
	// before a kill are not pinned.
	keepsEvery = 10 * time.Second
	// maxPins limits the number of heads in one line. A store may contain heads of many earlier schedulers.
	maxPins = 64
)

// Pin is the head of an audit log that a later line of the same log or a line of another log contains.
type Pin struct {
	Of   string `json:"of"` // the scheduler of the pinned log
	N    uint64 `json:"n"`
	Hash string `json:"hash"`
}

// These calls mark the lines that a scheduler writes about itself. They name the scheduler of a log.
const (
	callStart = "start"
	callLead  = "lead"
)

// Board stores the last head of each scheduler, in the store that the schedulers share.
type Board interface {
	KeepHead(head Pin) error
	Heads() ([]Pin, error)
}

// Share sets the scheduler's name and the store of heads, and writes a line about the start. If the stored head is
// missing in this log, Share logs this, and the new line records the missing head. It returns only an error of
// writing the line.
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

// lacks reports whether the stored line is missing at the end of the log, or differs.
func (l *Log) lacks(own Pin) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return own.N > l.head.N || own.N == l.head.N && own.Hash != l.head.Hash
}

// Lead writes that the scheduler now leads, with the previous leader (empty: unknown) and the heads of all
// schedulers.
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
	clock.Every(keepsEvery, l.closed, l.KeepHead)
}

// KeepHead stores the head if there are new lines. If the store fails, the log continues.
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
