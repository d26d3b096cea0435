package store

import (
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns records of which there is one: what was learned (policy.go), and the description of the queues.
// Leaders alone write them, so the write that made a record says which one is later, and a record that is damaged
// never keeps the next one out.

// single is a record of which there is one.
type single interface {
	messages.Message
	Validate() error
	GetWrittenBy() *messages.Token
}

// judgeSingle: the write of a later leader replaces that of an earlier one, and of one leader's writes the later.
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

// draftSingle is one of them in a transaction.
type draftSingle struct {
	by    topology.Token // the write that made the record
	data  []byte         // what replaces it
	known bool
}

func (s *draftSingle) found(row Row) error {
	s.known = true
	return row.Scan(&s.by.Epoch, &s.by.Counter)
}

// row returns the row to store; nil: none.
func (s *draftSingle) row() *SingleRow {
	if s.data == nil {
		return nil
	}
	return &SingleRow{Insert: !s.known, WrittenBy: s.by, Sealed: seal(s.data)}
}

// readSingle reads a row (epoch, counter, record); bad says what is wrong with the record.
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
		return damaged(table, by.String(), "it is of the write %s", was)
	}
	return nil
}
