package audit

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
)

// This file owns how the accounts of several schedulers are held against each other: the pins of all of them are
// collected, and each is looked for in all of them. An account is known by its lines, so one of a folder that was lost
// and given back is found by them; whose it is, it says itself, and that is only for the words.

// Given is an account to be followed. It is read twice.
type Given struct {
	Name string
	Open func() (io.ReadCloser, error)
}

// Followed is an account whose every line is as it was written.
type Followed struct {
	Name  string
	Of    string // whose it is; empty: it does not say
	First uint64
	Head  Head
}

// Gap names lines that the accounts lack. From 0: the account is not among them.
type Gap struct {
	Of       string // whose account; empty: of any
	From, To uint64
	Other    bool   // line To is there, and is another one
	By       string // where the line is named that is not there
}

func (g Gap) String() string {
	switch of := g.Of; {
	case g.Whole():
		return fmt.Sprintf("the account of %s is not here: %s names its line %d", of, g.By, g.To)
	case g.Other:
		return fmt.Sprintf("line %d of %s is another one than %s names: it, or one before it, was changed", g.To, of, g.By)
	case of == "":
		return fmt.Sprintf("%s names line %d, and no account here has it", g.By, g.To)
	case g.From == g.To:
		return fmt.Sprintf("line %d of %s is missing: %s names it", g.To, of, g.By)
	default:
		return fmt.Sprintf("lines %d to %d of %s are missing: %s names the last of them", g.From, g.To, of, g.By)
	}
}

// Whole reports whether it is a whole account that is lacking, which may lie elsewhere.
func (g Gap) Whole() bool { return g.Of != "" && g.From == 0 }

// Report has what following found.
type Report struct {
	Accounts []Followed
	Pins     int // lines that others name, and that are there
	Away     int // those that others name, and that were moved away with what is before the beginning of an account
	Gaps     []Gap
}

// account is one while it is followed.
type account struct {
	Followed
	at map[uint64]string // the hashes of lines that somebody names
}

// pinned is a pin and where it was found.
type pinned struct {
	Pin
	in   *account // nil: in no account
	line uint64
}

func (p pinned) by() string {
	if p.in == nil {
		return "a head that was kept elsewhere"
	}
	return fmt.Sprintf("line %d of %s", p.line, cmp.Or(p.in.Of, p.in.Name))
}

// Follow reads accounts, each to its end, and holds what they say of each other, and the heads that were kept
// elsewhere, against their lines. The error is of an account that is broken in itself, or that cannot be read.
func Follow(given []Given, kept []Head) (r Report, err error) {
	var all []*account
	var pins []pinned
	var ofOne []Head // what a single account is held against, line by line; of several nobody knows whose a head is
	if len(given) == 1 {
		ofOne, r.Pins = kept, len(kept)
	} else {
		for _, h := range kept {
			pins = append(pins, pinned{Pin: Pin{N: h.N, Hash: h.Hash}})
		}
	}
	for _, g := range given {
		a := &account{Followed: Followed{Name: g.Name}, at: map[uint64]string{}}
		all = append(all, a)
		collect := func(l Line) {
			if l.Call == callStart || l.Call == callLead {
				a.Of = l.Who
			}
			for _, p := range l.Heads {
				pins = append(pins, pinned{p, a, l.N})
			}
		}
		if err := g.read(func(from io.Reader) (err error) {
			a.First, a.Head, err = verify(from, ofOne, collect)
			return err
		}); err != nil {
			return r, err
		}
	}
	if err := find(given, all, pins); err != nil {
		return r, err
	}
	for _, p := range pins {
		r.resolve(p, all)
	}
	for _, a := range all {
		r.Accounts = append(r.Accounts, a.Followed)
	}
	return r, nil
}

// read opens an account, and says of a broken one which it is.
func (g Given) read(with func(io.Reader) error) error {
	file, err := g.Open()
	if err != nil {
		return err
	}
	err = with(file)
	if b := new(Broken); errors.As(err, &b) {
		err = &Broken{Account: g.Name, Line: b.Line, Why: b.Why}
	}
	return errors.Join(err, file.Close())
}

// find reads all accounts again for the hashes of the lines that somebody names.
func find(given []Given, all []*account, pins []pinned) error {
	wanted := map[uint64]bool{}
	for _, p := range pins {
		wanted[p.N] = true
	}
	for i, g := range given {
		at := all[i].at
		if err := g.read(func(from io.Reader) error {
			_, err := read(from, func(l Line, hash string) error {
				if len(at) == 0 && wanted[l.N-1] { // what the first line follows is known without being here
					at[l.N-1] = l.Prev
				}
				if wanted[l.N] {
					at[l.N] = hash
				}
				return nil
			})
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// resolve looks for a pin's line in all accounts.
func (r *Report) resolve(p pinned, all []*account) {
	if slices.ContainsFunc(all, func(a *account) bool { hash, ok := a.at[p.N]; return ok && hash == p.Hash }) {
		r.Pins++
		return
	}
	gap := Gap{Of: p.Of, To: p.N, By: p.by()}
	own := slices.IndexFunc(all, func(a *account) bool { return a.Of == p.Of && p.Of != "" })
	if own < 0 { // what says whose an account is may have been moved away with its beginning
		own = slices.IndexFunc(all, func(a *account) bool { return a.Of == "" && p.N+1 < a.First })
	}
	switch {
	case own < 0:
	case p.in == all[own] && p.line <= p.N: // it went on with numbers that were used already
		gap.From = p.line
	case p.N > all[own].Head.N:
		gap.From = all[own].Head.N + 1
	case p.N+1 < all[own].First:
		r.Away++
		return
	default:
		gap.From, gap.Other = p.N, true
	}
	r.lack(gap)
}

// lack adds a gap. Of several of a kind in an account one says it all: of missing lines the widest, of changed ones the
// first.
func (r *Report) lack(g Gap) {
	i := slices.IndexFunc(r.Gaps, func(o Gap) bool {
		return o.Of == g.Of && g.Of != "" && o.Other == g.Other && (g.Other || o.From == g.From)
	})
	switch {
	case i < 0:
		r.Gaps = append(r.Gaps, g)
	case g.Other && g.To < r.Gaps[i].To, !g.Other && g.To > r.Gaps[i].To:
		r.Gaps[i] = g
	}
}
