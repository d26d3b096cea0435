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
// is followed by a count: so many machines are as foretold.

const (
	rosterNode    = 1 << iota // a text; foretold: the next name
	rosterAddress             // a text; foretold: the next address
	rosterRack                // a text; foretold: the same rack
	rosterTasks               // a number; foretold: as many tasks
	rosterFirst               // a number, the first rank; foretold: the one behind the last
	rosterFields  = iota
)

// seat is one machine of the list: tasks of consecutive ranks.
type seat struct {
	node, address, rack string
	first, tasks        uint64
}

// foretold is the machine that follows, if nothing is said of it.
func (s seat) foretold() seat {
	return seat{node: following(s.node), address: following(s.address), rack: s.rack, first: s.first + s.tasks, tasks: s.tasks}
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
		return len(next) == len(s)+1 && next[:begin] == s[:begin] && next[begin] == '1' && zeros(next[begin+1:end+1]) && next[end+1:] == s[end:]
	}
	return len(next) == len(s) && next[:at] == s[:at] && next[at] == s[at]+1 && zeros(next[at+1:end]) && next[end:] == s[end:]
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
		last    seat
		silence uint64 // machines as foretold that are not written yet
	)
	for i := 0; i < len(peers); {
		now := seatOf(peers[i:])
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

// seatOf is the machine of the first peers: those that follow each other on it.
func seatOf(peers []*Peer) seat {
	p := peers[0]
	s := seat{node: p.GetNode(), address: p.GetAddress(), rack: p.GetRack(), first: uint64(p.GetRank()), tasks: 1}
	for _, q := range peers[1:] {
		if q.GetNode() != s.node || q.GetAddress() != s.address || q.GetRack() != s.rack || uint64(q.GetRank()) != s.first+s.tasks {
			break
		}
		s.tasks++
	}
	return s
}

func appendSilence(data []byte, n uint64) []byte {
	if n == 0 {
		return data
	}
	return binary.AppendUvarint(append(data, 0), n)
}

// news are the fields that are not as foretold.
func (s seat) news(last seat) byte {
	var fields byte
	for i, same := range [...]bool{
		follows(last.node, s.node), follows(last.address, s.address), s.rack == last.rack, s.tasks == last.tasks, s.first == last.first+last.tasks,
	} {
		if !same {
			fields |= 1 << i
		}
	}
	return fields
}

func (s seat) append(data []byte, fields byte, last seat) []byte {
	data = append(data, fields)
	if fields&rosterNode != 0 {
		data = appendText(data, s.node, last.node)
	}
	if fields&rosterAddress != 0 {
		data = appendText(data, s.address, last.address)
	}
	if fields&rosterRack != 0 {
		data = appendText(data, s.rack, last.rack)
	}
	if fields&rosterTasks != 0 {
		data = binary.AppendUvarint(data, s.tasks)
	}
	if fields&rosterFirst != 0 {
		data = binary.AppendUvarint(data, s.first)
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
	var seats []seat
	var last seat
	for tasks := uint64(0); len(r.data) > 0; {
		known, alike := last.foretold(), uint64(1)
		if fields := r.byte(); fields == 0 {
			alike = r.number(MaxGangTasks)
		} else {
			known = r.seat(fields, last)
		}
		for ; alike > 0 && !r.broken; alike-- {
			tasks += known.tasks
			r.broken = !known.sound() || tasks > MaxGangTasks
			seats = append(seats, known)
			last, known = known, known.foretold()
		}
		if r.broken {
			return nil, errRoster
		}
	}
	return peersOf(seats), nil
}

// sound reports whether a machine is one that peers can be made of. What is
// foretold grows and grows, so it is looked at as well.
func (s seat) sound() bool {
	return s.node != "" && len(s.node) <= MaxIDBytes && len(s.address) <= MaxValueBytes && len(s.rack) <= MaxValueBytes &&
		s.tasks > 0 && s.tasks <= MaxGangTasks && s.first+s.tasks <= math.MaxInt32
}

func peersOf(seats []seat) []*Peer {
	n := uint64(0)
	for _, s := range seats {
		n += s.tasks
	}
	peers := Many[Peer](int(n))
	next := peers
	for _, s := range seats {
		for i := range s.tasks {
			p := next[0]
			p.Rank, p.Node, p.Address, p.Rack = int32(s.first+i), s.node, s.address, s.rack
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

func (r *rosterReader) seat(fields byte, last seat) seat {
	s := last.foretold()
	r.broken = r.broken || fields >= 1<<rosterFields
	if fields&rosterNode != 0 {
		s.node = r.text(last.node)
	}
	if fields&rosterAddress != 0 {
		s.address = r.text(last.address)
	}
	if fields&rosterRack != 0 {
		s.rack = r.text(last.rack)
	}
	if fields&rosterTasks != 0 {
		s.tasks = r.number(MaxGangTasks)
	}
	if fields&rosterFirst != 0 {
		s.first = r.number(math.MaxInt32)
	}
	return s
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
