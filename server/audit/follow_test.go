package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// This file tests the comparison of audit logs of schedulers that share a store.

const (
	ofA = "synapse://c/scheduler/a"
	ofB = "synapse://c/scheduler/b"
)

// pair holds two schedulers that lead alternately.
type pair struct {
	t     *testing.T
	board *board
	a, b  *scroll
}

func newPair(t *testing.T) *pair {
	p := &pair{t: t, board: &board{}, a: newScroll(t), b: newScroll(t)}
	p.share(p.a, ofA)
	p.share(p.b, ofB)
	return p
}

func (p *pair) share(s *scroll, who string) {
	p.t.Helper()
	if err := s.Share(who, "v1", p.board); err != nil {
		p.t.Fatal(err)
	}
}

// reign simulates the time in which a scheduler leads. Its head is stored at the end.
func (p *pair) reign(s *scroll, epoch uint64, lines int) {
	p.t.Helper()
	if err := s.Lead(epoch, "the other"); err != nil {
		p.t.Fatal(err)
	}
	for i := range lines {
		s.add(fmt.Sprintf("epoch %d, line %d", epoch, i+1))
	}
	s.KeepHead()
}

// turns lets a, b and a lead one after the other, and closes both logs.
func turns(t *testing.T) *pair {
	p := newPair(t)
	p.reign(p.a, 1, 5) // lines 1 to 7: start, lead, and five more
	p.reign(p.b, 2, 5)
	p.reign(p.a, 3, 2) // lines 8 to 10
	p.a.shut()
	p.b.shut()
	return p
}

// follow compares the audit logs in these folders.
func follow(t *testing.T, dirs ...string) Report {
	t.Helper()
	r, err := followed(nil, dirs...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func followed(kept []Head, dirs ...string) (Report, error) {
	var given []Given
	for i, dir := range dirs {
		given = append(given, Given{
			Name: fmt.Sprint("account ", i), Open: func() (io.ReadCloser, error) { return OpenAccount(dir) },
		})
	}
	return Follow(given, kept)
}

func (r Report) gaps() string {
	var all []string
	for _, g := range r.Gaps {
		all = append(all, g.String())
	}
	return strings.Join(all, "\n")
}

// cut removes the last lines of an audit log. The rest is still a valid chain.
func (s *scroll) cut(last int) {
	s.t.Helper()
	lines := bytes.SplitAfter(bytes.TrimSuffix(s.text(), []byte("\n")), []byte("\n"))
	s.rewrite(bytes.Join(lines[:len(lines)-last], nil))
}

func (s *scroll) rewrite(text []byte) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, File), text, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// TestFollow checks that a new leader pins the heads of all audit logs, and that all pins are found.
func TestFollow(t *testing.T) {
	p := turns(t)
	r := follow(t, p.a.dir, p.b.dir)
	if got := r.gaps(); got != "" || r.Pins != 3 || r.Accounts[0].Of != ofA || r.Accounts[1].Of != ofB {
		t.Errorf("%+v: %s", r, got) // b pinned a; a pinned itself and b
	}
	var led []string
	if _, err := Read(bytes.NewReader(p.b.text()), func(l Line) error {
		if l.Call == callLead {
			led = append(led, fmt.Sprint(l.What, " ", l.Heads))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	aHeads, _ := Heads(strings.NewReader(strings.Join(p.a.told, "\n")))
	if len(led) != 1 || !strings.HasPrefix(led[0], "lead in epoch 2, after the other [{"+ofA+" 7 ") || len(aHeads) == 0 {
		t.Errorf("%q, %v", led, aHeads)
	}
	if r, err := followed(aHeads, p.a.dir, p.b.dir); err != nil || len(r.Gaps) != 0 || r.Pins != 3+len(aHeads) {
		t.Errorf("with the heads of a log %+v: %v", r, err)
	}
	if one := follow(t, p.a.dir); len(one.Gaps) != 1 || !one.Gaps[0].Whole() || one.Pins != 1 {
		t.Errorf("of one alone it says that there is another: %+v", one)
	}
}

// TestFollowFindsGaps checks that removed, rewritten and changed lines are reported. The report names the log with
// the gap and the log with the pin.
func TestFollowFindsGaps(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(p *pair) // after both logs are closed
		want  string
	}{
		"cut at the end": {func(p *pair) { p.b.cut(3) },
			"lines 5 to 7 of " + ofB + " are missing: line 8 of " + ofA + " names the last of them"},
		"the last one alone": {func(p *pair) { p.b.cut(1) },
			"line 7 of " + ofB + " is missing: line 8 of " + ofA + " names it"},
		"cut, and gone on": {func(p *pair) {
			p.b.cut(2)
			p.b.open()
			p.share(p.b, ofB)
			p.b.add("as if nothing was")
			p.b.shut()
		}, "line 7 of " + ofB + " is another one than line 8 of " + ofA + " names: it, or one before it, was changed\n" +
			"lines 6 to 7 of " + ofB + " are missing: line 6 of " + ofB + " names the last of them"},
		"begun again": {func(p *pair) {
			p.b.rewrite(nil)
			p.b.open()
			p.share(p.b, ofB)
			p.b.shut()
		}, "lines 2 to 7 of " + ofB + " are missing: line 8 of " + ofA + " names the last of them\n" +
			"lines 1 to 7 of " + ofB + " are missing: line 1 of " + ofB + " names the last of them"},
		"made again": {func(p *pair) {
			p.b.rewrite(nil)
			p.b.open()
			for i := range 8 {
				p.b.add(fmt.Sprint("made up ", i))
			}
			p.b.Log.who, p.b.Log.in = ofB, &board{}
			if err := p.b.Lead(2, "the other"); err != nil {
				p.t.Fatal(err)
			}
			p.b.shut()
		}, "line 7 of " + ofB + " is another one than line 8 of " + ofA + " names: it, or one before it, was changed"},
		"of nobody": {func(p *pair) {
			p.b.rewrite(nil)
			p.b.open()
			p.b.add("it says of nobody whose it is")
			p.b.shut()
		}, "the account of " + ofB + " is not here: line 8 of " + ofA + " names its line 7"},
	} {
		p := turns(t)
		c.spoil(p)
		if got := follow(t, p.a.dir, p.b.dir).gaps(); got != c.want {
			t.Errorf("%s: it says\n%s\nand should\n%s", name, got, c.want)
		}
	}
	p := turns(t)
	p.b.rewrite(bytes.Replace(p.b.text(), []byte("line 2"), []byte("line 9"), 1))
	_, err := followed(nil, p.a.dir, p.b.dir)
	if b := new(Broken); !errors.As(err, &b) || b.Account != "account 1" || b.Line != 5 {
		t.Errorf("one is broken in itself: %v", err)
	}
	p = turns(t)
	if r, err := followed([]Head{{3, "not a hash"}}, p.a.dir, p.b.dir); err != nil || len(r.Gaps) != 1 {
		t.Errorf("a head that fits nowhere: %+v, %v", r, err)
	}
}

// TestFollowAway checks that lines that were moved away with the beginning are counted separately. The hash in the
// first line proves the line before it.
func TestFollowAway(t *testing.T) {
	p := turns(t)
	lines := bytes.SplitAfter(p.a.text(), []byte("\n"))
	for first, want := range map[int]Report{ // line 8 has two heads; line 2 of the other log pins its line 7
		8: {Pins: 3}, 9: {Away: 1},
	} {
		p.a.rewrite(bytes.Join(lines[first-1:], nil))
		r := follow(t, p.a.dir, p.b.dir)
		if r.Pins != want.Pins || r.Away != want.Away || len(r.Gaps) != 0 {
			t.Errorf("from line %d on: %+v", first, r)
		}
	}
}

// TestLostOnesAreTold checks that a scheduler that starts with another audit log reports this immediately.
func TestLostOnesAreTold(t *testing.T) {
	p := turns(t)
	told := func() int { return strings.Count(strings.Join(p.b.told, "\n"), "does not match line 7") }
	p.b.open()
	p.share(p.b, ofB)
	if p.b.shut(); told() != 0 {
		t.Errorf("nothing is missing: %q", p.b.told)
	}
	p = turns(t)
	p.b.cut(1)
	p.b.open()
	p.share(p.b, ofB)
	if p.b.shut(); told() != 1 {
		t.Errorf("it said %q", p.b.told)
	}
}

// TestHeadsInTheStore checks that a head is stored only if there are new lines. An unreachable store is logged once
// and stops nothing.
func TestHeadsInTheStore(t *testing.T) {
	s, kept := newScroll(t), &board{}
	if err := s.Share(ofA, "v1", kept); err != nil {
		t.Fatal(err)
	}
	s.KeepHead()
	s.KeepHead()
	if kept.writes != 1 {
		t.Errorf("%d writes for one line", kept.writes)
	}
	kept.away = errors.New("away")
	s.add("two")
	s.KeepHead()
	s.KeepHead()
	if err := s.Lead(1, ""); err != nil || len(s.told) != 1 || !strings.Contains(s.told[0], "is not in the store") {
		t.Errorf("%v, %q", err, s.told)
	}
	kept.away = nil
	head, err := Read(bytes.NewReader(s.shut()), nil)
	if err != nil || head.N != 3 {
		t.Fatalf("%v, %v", head, err)
	}
	want := Pin{Of: ofA, N: 3, Hash: head.Hash}
	if got, err := kept.Heads(); err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("the store has %v, want %v: %v", got, want, err)
	}
}

// board is a fake store of heads. It counts writes and can be made unreachable.
type board struct {
	heads  []Pin
	writes int
	away   error
}

func (s *board) KeepHead(h Pin) error {
	if s.away != nil {
		return s.away
	}
	s.writes++
	s.heads = append(slices.DeleteFunc(s.heads, func(o Pin) bool { return o.Of == h.Of }), h)
	return nil
}

func (s *board) Heads() ([]Pin, error) {
	return slices.Clone(s.heads), s.away
}
