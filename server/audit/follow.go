package audit

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
)

// This file compares the audit logs of several schedulers. It collects the pins of all logs and looks for each
// pinned line in all of them. Lines identify a log, so a log that was restored from a backup is also found. A log
// names its own scheduler, but that name is only used in texts.

// Given is an audit log to compare. Open is called twice.
type Given struct {
	Name string
	Open func() (io.ReadCloser, error)
}

// Followed describes an audit log whose lines are all unchanged.
type Followed struct {
	Name  string
	Of    string // its scheduler; empty: the log names none
	First uint64
	Head  Head
}

// Gap names lines that are missing in the audit logs. If From is 0, the complete log is missing.
type Gap struct {
	Of       string // the scheduler of the log; empty: unknown
	From, To uint64
	Other    bool   // line To exists but differs
	By       string // where the missing line is pinned
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

// Whole reports whether a complete audit log is missing. The log may be stored elsewhere.
func (g Gap) Whole() bool { return g.Of != "" && g.From == 0 }

// Report holds the result of a comparison.
type Report struct {
	Accounts []Followed
	Pins     int // pinned lines that were found
	Away     int // pinned lines that were moved away with the beginning of a log
	Gaps     []Gap
}

// account holds the state of one audit log during the comparison.
type account struct {
	Followed
	at map[uint64]string // hashes of pinned lines
}

// pinned is a pin and its position.
type pinned struct {
	Pin
	in   *account // nil: not from an audit log
	line uint64
}

func (p pinned) by() string {
	if p.in == nil {
		return "a head that was kept elsewhere"
	}
	return fmt.Sprintf("line %d of %s", p.line, cmp.Or(p.in.Of, p.in.Name))
}

// Follow reads audit logs to their ends. It compares their lines with the pins in all logs and with the heads that
// were kept elsewhere. It returns an error if a log is broken or unreadable.
func Follow(given []Given, kept []Head) (r Report, err error) {
	var all []*account
	var pins []pinned
	var ofOne []Head // heads for a single log; among several logs, the log of a head is unknown
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

// read opens an audit log, and adds the log's name to an error about a broken log.
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

// find reads all audit logs again and collects the hashes of pinned lines.
func find(given []Given, all []*account, pins []pinned) error {
	wanted := map[uint64]bool{}
	for _, p := range pins {
		wanted[p.N] = true
	}
	for i, g := range given {
		at := all[i].at
		if err := g.read(func(from io.Reader) error {
			_, err := read(from, func(l Line, hash string) error {
				if len(at) == 0 && wanted[l.N-1] { // the first line contains the hash of the missing line before it
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

// resolve looks for the pinned line in all audit logs.
func (r *Report) resolve(p pinned, all []*account) {
	if slices.ContainsFunc(all, func(a *account) bool { hash, ok := a.at[p.N]; return ok && hash == p.Hash }) {
		r.Pins++
		return
	}
	gap := Gap{Of: p.Of, To: p.N, By: p.by()}
	own := slices.IndexFunc(all, func(a *account) bool { return a.Of == p.Of && p.Of != "" })
	if own < 0 { // the line with the scheduler's name may have been moved away
		own = slices.IndexFunc(all, func(a *account) bool { return a.Of == "" && p.N+1 < a.First })
	}
	switch {
	case own < 0:
	case p.in == all[own] && p.line <= p.N: // the log reused numbers
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

// lack adds a gap. Of several gaps of one kind in a log, it keeps the widest range of missing lines, or the first
// changed line.
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
