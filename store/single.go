package store

import (
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns records of which there is only one: the statistics (policy.go) and the queue configuration. Only
// leaders write them. The write that created a record decides which one is later, so a damaged record never blocks the
// next one.

// single is a record of which there is only one.
type single interface {
	messages.Message
	Validate() error
	GetWrittenBy() *messages.Token
}

// judgeSingle accepts the write of a later leader, and a later write of the same leader.
func judgeSingle(stored topology.Token, next single) judged {
	by := messages.FromToken(next.GetWrittenBy())
	switch {
	case !fits(by):
		return judged{broken: RuleShape}
	case stored == by:
		return judged{}
	case !stored.Less(by):
		return judged{broken: RuleRevision}
	case readable(next) != nil:
		return judged{broken: RuleReadable}
	}
	return judged{single: encode(next)}
}

// draftSingle is such a record in a transaction.
type draftSingle struct {
	by    topology.Token // the write that created the record
	data  []byte         // its new record
	known bool
}

func (s *draftSingle) found(row Row) error {
	s.known = true
	return row.Scan(&s.by.Epoch, &s.by.Counter)
}

// row returns the row to store, or nil if there is none.
func (s *draftSingle) row() *SingleRow {
	if s.data == nil {
		return nil
	}
	return &SingleRow{Insert: !s.known, WrittenBy: s.by, Sealed: seal(s.data)}
}

// readSingle reads a row (epoch, counter, record). The result bad is the error of an unreadable record.
func readSingle[B ~[]byte](row Row, table string, into single) (bad, err error) {
	var by topology.Token
	var sealed B
	if err := row.Scan(&by.Epoch, &by.Counter, &sealed); err != nil {
		return nil, err
	}
	data, bad := unseal(table, by.String(), sealed)
	if bad == nil {
		bad = parseSingle(table, by, data, into)
	}
	return bad, nil
}

func parseSingle(table string, by topology.Token, data []byte, into single) error {
	if err := parse(table, by.String(), data, into); err != nil {
		return err
	}
	if was := messages.FromToken(into.GetWrittenBy()); was != by {
		return damaged(table, by.String(), "it contains the record of write %s", was)
	}
	return nil
}
