package messages

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
)

// This file owns the packed form of a gang's peers. Every machine of a gang is
// told all the others, so the list crosses the network as often as the gang has
// machines: each byte of it counts with the gang's square. It is kept by machine and not by
// task, and most machines follow each other in name, address and rank: of those nothing is
// written but their number. Compression by a library would save less than that, and costs more.
//
// The list is a sequence of machines. A machine begins with a byte that says which of its
// fields follow; what does not follow is foretold by the machine before it. A byte of 0
// is followed by a count: that many machines are as foretold.

const (
	rosterNode    = 1 << iota // a text; foretold: the next name
	rosterAddress             // a text; foretold: the next address
	rosterRack                // a text; foretold: the same rack
	rosterTasks               // a number; foretold: as many tasks
	rosterFirst               // a number, the first rank; foretold: the one behind the last
	rosterFields  = iota
)

// rosterEntry is one machine of the list: tasks of consecutive ranks.
type rosterEntry struct {
	node, address, rack string
	first, tasks        uint64
}

// foretold is the machine that follows, if nothing is said of it.
func (e rosterEntry) foretold() rosterEntry {
	return rosterEntry{
		node: following(e.node), address: following(e.address), rack: e.rack, first: e.first + e.tasks, tasks: e.tasks,
	}
}

// following counts the last number in a text up by one: n7 becomes n8, 10.0.0.9 becomes 10.0.0.10.
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

// follows reports whether next is following(s), without making it.
func follows(s, next string) bool {
	at, begin, end := lastNumber(s)
	switch {
	case end == 0:
		return s == next
	case at < begin: // nines become a one and zeros
		return len(next) == len(s)+1 && next[:begin] == s[:begin] && next[begin] == '1' && zeros(next[begin+1:end+1]) &&
			next[end+1:] == s[end:]
	}
	return len(next) == len(s) && next[:at] == s[:at] && next[at] == s[at]+1 && zeros(next[at+1:end]) &&
		next[end:] == s[end:]
}

// lastNumber is where the last number in a text stands, and in it the last digit
// that is no nine; before its beginning where all are. Without any the end is 0.
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

// PackRoster writes a gang's peers, which are in the order of their ranks.
func PackRoster(peers []*Peer) []byte {
	var (
		data    = make([]byte, 0, 128)
		last    rosterEntry
		silence uint64 // machines as foretold that are not written yet
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

// entryOf is the machine of the first peers, and those that follow each other on it.
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

// news are the fields that are not as foretold.
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

// appendText writes what a text has of its own between what it shares with the
// last one at its beginning and at its end.
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

// RosterDigest tells one list from another: FNV-1a, without an object for each list.
func RosterDigest(data []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range data {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return h
}

var errRoster = errors.New("the roster makes no sense")

// unpackRoster reads what PackRoster wrote. Peers of one machine share its texts.
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

// sound reports whether a machine is one that peers can be made of. What is
// foretold grows and grows, so it is looked at as well.
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

// rosterReader takes values off; once something made no sense, all are zero.
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

// Unpacked is the rendezvous with its peers, wherever they stand in it.
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
