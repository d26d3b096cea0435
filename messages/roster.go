package messages

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
)

// This file has the packed form of a gang's peers. Each node of a gang gets the list of all others, so the bytes sent
// grow with the square of the gang's size. The list has one entry per node, not per task. Most nodes have a name,
// address and rank that follow from the entry before. The list stores only the number of such nodes. General
// compression would save less and cost more.
//
// The list is a sequence of entries, one per node. The first byte of an entry has one bit for each field that is
// stored. The other fields are predicted from the entry before. A first byte of 0 is followed by a count: the next
// count entries are all predicted.

const (
	rosterNode    = 1 << iota // a text; predicted: the next name
	rosterAddress             // a text; predicted: the next address
	rosterRack                // a text; predicted: the same rack
	rosterTasks               // a number; predicted: the same number of tasks
	rosterFirst               // a number, the first rank; predicted: the rank after the last one
	rosterFields  = iota
)

// rosterEntry is the entry of one node, whose tasks have consecutive ranks.
type rosterEntry struct {
	node, address, rack string
	first, tasks        uint64
}

// foretold returns the predicted next entry.
func (e rosterEntry) foretold() rosterEntry {
	return rosterEntry{
		node: following(e.node), address: following(e.address), rack: e.rack, first: e.first + e.tasks, tasks: e.tasks,
	}
}

// following increments the last number in a text: n7 becomes n8, 10.0.0.9 becomes 10.0.0.10.
func following(s string) string {
	at, begin, end := lastNumber(s)
	if end == 0 {
		return s
	}
	b := []byte(s[:end])
	for i := at + 1; i < end; i++ {
		b[i] = '0'
	}
	if at >= begin {
		b[at]++
	} else {
		b[begin] = '1'
		b = append(b, '0')
	}
	return string(b) + s[end:]
}

// follows reports whether next equals following(s). It does not allocate memory.
func follows(s, next string) bool {
	at, begin, end := lastNumber(s)
	switch {
	case end == 0:
		return s == next
	case at < begin: // all digits are 9
		return len(next) == len(s)+1 && next[:begin] == s[:begin] && next[begin] == '1' && zeros(next[begin+1:end+1]) &&
			next[end+1:] == s[end:]
	}
	return len(next) == len(s) && next[:at] == s[:at] && next[at] == s[at]+1 && zeros(next[at+1:end]) &&
		next[end:] == s[end:]
}

// lastNumber returns the bounds of the last number in a text, and the position of its last digit that is not 9. The
// position is begin-1 if all digits are 9. The end is 0 if the text has no number.
func lastNumber(s string) (at, begin, end int) {
	for end = len(s); end > 0 && !digit(s[end-1]); {
		end--
	}
	for begin = end; begin > 0 && digit(s[begin-1]); {
		begin--
	}
	for at = end - 1; at >= begin && s[at] == '9'; {
		at--
	}
	return at, begin, end
}

func zeros(s string) bool { return strings.Trim(s, "0") == "" }

// PackRoster packs a gang's peers. The peers must be in rank order.
func PackRoster(peers []*Peer) []byte {
	var (
		data    = make([]byte, 0, 128)
		last    rosterEntry
		silence uint64 // number of predicted entries that are not written yet
	)
	for i := 0; i < len(peers); {
		now := entryOf(peers[i:])
		i += int(now.tasks)
		if fields := now.news(last); fields == 0 {
			silence++
		} else {
			data = now.append(appendSilence(data, silence), fields, last)
			silence = 0
		}
		last = now
	}
	return appendSilence(data, silence)
}

// entryOf returns the entry of the first peer. The entry includes the following peers on the same node.
func entryOf(peers []*Peer) rosterEntry {
	p := peers[0]
	e := rosterEntry{node: p.GetNode(), address: p.GetAddress(), rack: p.GetRack(), first: uint64(p.GetRank()), tasks: 1}
	for _, q := range peers[1:] {
		if q.GetNode() != e.node || q.GetAddress() != e.address || q.GetRack() != e.rack ||
			uint64(q.GetRank()) != e.first+e.tasks {
			break
		}
		e.tasks++
	}
	return e
}

func appendSilence(data []byte, n uint64) []byte {
	if n == 0 {
		return data
	}
	return binary.AppendUvarint(append(data, 0), n)
}

// news returns the bits of the fields that differ from the prediction.
func (e rosterEntry) news(last rosterEntry) byte {
	var fields byte
	for i, same := range [...]bool{
		follows(last.node, e.node), follows(last.address, e.address), e.rack == last.rack, e.tasks == last.tasks,
		e.first == last.first+last.tasks,
	} {
		if !same {
			fields |= 1 << i
		}
	}
	return fields
}

func (e rosterEntry) append(data []byte, fields byte, last rosterEntry) []byte {
	data = append(data, fields)
	if fields&rosterNode != 0 {
		data = appendText(data, e.node, last.node)
	}
	if fields&rosterAddress != 0 {
		data = appendText(data, e.address, last.address)
	}
	if fields&rosterRack != 0 {
		data = appendText(data, e.rack, last.rack)
	}
	if fields&rosterTasks != 0 {
		data = binary.AppendUvarint(data, e.tasks)
	}
	if fields&rosterFirst != 0 {
		data = binary.AppendUvarint(data, e.first)
	}
	return data
}

// appendText writes the part of a text between the prefix and the suffix that it shares with the last text.
func appendText(data []byte, s, last string) []byte {
	least := min(len(s), len(last))
	begin, end := 0, 0
	for begin < least && s[begin] == last[begin] {
		begin++
	}
	for end < least-begin && s[len(s)-1-end] == last[len(last)-1-end] {
		end++
	}
	own := s[begin : len(s)-end]
	data = binary.AppendUvarint(data, uint64(begin))
	data = binary.AppendUvarint(data, uint64(end))
	return append(binary.AppendUvarint(data, uint64(len(own))), own...)
}

// RosterDigest returns a hash of a packed list: FNV-1a, without an allocation.
func RosterDigest(data []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range data {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return h
}

var errRoster = errors.New("roster is corrupted")

// unpackRoster decodes a packed list. The peers of one node share its strings.
func unpackRoster(data []byte) ([]*Peer, error) {
	r := rosterReader{data: data}
	var entries []rosterEntry
	var last rosterEntry
	for tasks := uint64(0); len(r.data) > 0; {
		known, alike := last.foretold(), uint64(1)
		if fields := r.byte(); fields == 0 {
			alike = r.number(MaxGangTasks)
		} else {
			known = r.entry(fields, last)
		}
		for ; alike > 0 && !r.broken; alike-- {
			tasks += known.tasks
			r.broken = !known.sound() || tasks > MaxGangTasks
			entries = append(entries, known)
			last, known = known, known.foretold()
		}
		if r.broken {
			return nil, errRoster
		}
	}
	return peersOf(entries), nil
}

// sound reports whether an entry is valid. It also checks predicted entries, because a prediction can exceed the
// limits.
func (e rosterEntry) sound() bool {
	return e.node != "" && len(e.node) <= MaxIDBytes && len(e.address) <= MaxValueBytes && len(e.rack) <= MaxValueBytes &&
		e.tasks > 0 && e.tasks <= MaxGangTasks && e.first+e.tasks <= math.MaxInt32
}

func peersOf(entries []rosterEntry) []*Peer {
	n := uint64(0)
	for _, e := range entries {
		n += e.tasks
	}
	peers := Many[Peer](int(n))
	next := peers
	for _, e := range entries {
		for i := range e.tasks {
			p := next[0]
			p.Rank, p.Node, p.Address, p.Rack = int32(e.first+i), e.node, e.address, e.rack
			next = next[1:]
		}
	}
	return peers
}

// rosterReader decodes values. After the first invalid value it returns only zeros.
type rosterReader struct {
	data   []byte
	broken bool
}

func (r *rosterReader) byte() byte {
	if len(r.data) == 0 {
		r.broken = true
		return 0
	}
	b := r.data[0]
	r.data = r.data[1:]
	return b
}

func (r *rosterReader) number(most uint64) uint64 {
	v, n := binary.Uvarint(r.data)
	if n <= 0 || v > most {
		r.data, r.broken = nil, true
		return 0
	}
	r.data = r.data[n:]
	return v
}

func (r *rosterReader) entry(fields byte, last rosterEntry) rosterEntry {
	e := last.foretold()
	r.broken = r.broken || fields >= 1<<rosterFields
	if fields&rosterNode != 0 {
		e.node = r.text(last.node)
	}
	if fields&rosterAddress != 0 {
		e.address = r.text(last.address)
	}
	if fields&rosterRack != 0 {
		e.rack = r.text(last.rack)
	}
	if fields&rosterTasks != 0 {
		e.tasks = r.number(MaxGangTasks)
	}
	if fields&rosterFirst != 0 {
		e.first = r.number(math.MaxInt32)
	}
	return e
}

func (r *rosterReader) text(last string) string {
	begin, end := r.number(uint64(len(last))), r.number(uint64(len(last)))
	own := r.number(uint64(len(r.data)))
	if r.broken || own > uint64(len(r.data)) || begin+own+end > MaxValueBytes {
		r.data, r.broken = nil, true
		return ""
	}
	s := last[:begin] + string(r.data[:own]) + last[uint64(len(last))-end:]
	r.data = r.data[own:]
	return s
}

// Unpacked returns the rendezvous with the list of peers. It decodes a packed list.
func (x *Rendezvous) Unpacked() (*Rendezvous, error) {
	if len(x.GetRoster()) == 0 {
		return x, nil
	}
	peers, err := unpackRoster(x.Roster)
	if err != nil {
		return nil, err
	}
	return &Rendezvous{Address: x.Address, Port: x.Port, Peers: peers}, nil
}
