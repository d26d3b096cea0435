package slurm

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/yi-json/synapse/cmd/internal/sbatch"
	"github.com/yi-json/synapse/messages"
)

// This file tests Slurm's forms of options and values with random texts.

// FuzzOptions checks that the ways to write an option are equal: --name=value, --name value, -Nvalue, -N value, and a
// line #SBATCH.
func FuzzOptions(f *testing.F) {
	for i, text := range []string{"2", "n[1-3]", "1-12:00", "4GB", "a b", "'", `"`, "-x", "=", "#", "", "--", "1:2,3"} {
		f.Add(uint(3*i), text)
	}
	f.Fuzz(func(t *testing.T, which uint, text string) {
		for _, p := range []*program{forSbatch, forSrun, forSalloc} {
			all := p.options()
			slices.SortFunc(all, func(x, y option) int { return strings.Compare(x.long, y.long) })
			o := all[which%uint(len(all))]
			ways := [][]string{{"--" + o.long + "=" + text}}
			if o.bare == "" {
				ways = append(ways, []string{"--" + o.long, text})
			}
			if o.bare == "" && o.short != "" {
				ways = append(ways, []string{"-" + o.short, text})
			}
			if o.bare == "" && o.short != "" && text != "" && text[0] != '=' { // the flag library reads -N=2 as -N 2
				ways = append(ways, []string{"-" + o.short + text})
			}
			want, wrong := said(p, ways[0])
			for _, way := range ways[1:] {
				if got, err := said(p, way); !reflect.DeepEqual(got, want) || fmt.Sprint(err) != fmt.Sprint(wrong) {
					t.Errorf("%s %q is not %q: %v, %v", p.name, way, ways[0], err, wrong)
				}
			}
			if strings.ContainsAny(text, "\n\r'") {
				continue
			}
			b := newBatch(p)
			err := sbatch.Directives([]byte("#!/bin/sh\n#SBATCH '--"+o.long+"="+text+"'\n"), b.take)
			if b.program = nil; wrong == nil && (err != nil || !reflect.DeepEqual(b, want)) || wrong != nil && err == nil {
				t.Errorf("#SBATCH of %s %q: %v, %v", p.name, ways[0], err, wrong)
			}
		}
	})
}

// said returns what a program reads from its options.
func said(p *program, words []string) (*Batch, error) {
	b := newBatch(p)
	_, err := b.take(words)
	b.program = nil // its functions cannot be compared
	return b, err
}

// TestForms checks that Slurm's times, sizes and lists of nodes are read as they are written.
func TestForms(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		ms := rapid.Int64Range(1, 1<<31).Draw(r, "seconds") * 1000
		for _, text := range []string{Clock(ms), wide(ms)} {
			if got, err := sbatch.ParseTime(text); err != nil || got != ms {
				r.Fatalf("%d ms is %q, which is %d: %v", ms, text, got, err)
			}
		}
		bytes := rapid.Int64Range(0, 1<<40).Draw(r, "mebibytes") << 20
		if got, err := sbatch.Size(mebibytes(bytes)); err != nil || got != bytes {
			r.Fatalf("%d bytes are %q, which is %d: %v", bytes, mebibytes(bytes), got, err)
		}
		name := rapid.StringMatching(`[a-z]{1,3}-?[0-9]{0,3}(\.[a-z][0-9]?)?`)
		names := rapid.SliceOfNDistinct(name, 1, 40, rapid.ID).Draw(r, "names")
		got, err := Hostnames(Hostlist(names))
		slices.Sort(names)
		slices.Sort(got)
		if err != nil || !slices.Equal(got, names) {
			r.Fatalf("%q is %q, which is %q: %v", names, Hostlist(names), got, err)
		}
		words := rapid.SliceOf(rapid.StringMatching(`[^'\n]*`)).Draw(r, "words")
		if got, err := sbatch.Words("'" + strings.Join(words, "' '") + "'"); len(words) > 0 &&
			(err != nil || !slices.Equal(got, words)) {
			r.Fatalf("%q is read as %q: %v", words, got, err)
		}
	})
}

// FuzzFormats checks that each format is refused, or that each line has the width of its columns and is valid text.
func FuzzFormats(f *testing.F) {
	for _, text := range []string{"%.18i|%j%%", "%999999999999999i", "%.3j%2j", "JobID:4,Name:.3", "Name%-3,State%5",
		"%all", "all", ",", ":", "%"} {
		f.Add(text, "déjà vu")
	}
	f.Fuzz(func(t *testing.T, format, value string) {
		e := &Entry{ArrayID: "N/A", Element: "N/A", Name: messages.OneLine(value), Comment: messages.OneLine(value)}
		check := func(before string, columns []Column[*Entry], err error) {
			if err != nil || len(columns) > 50 {
				return
			}
			least := utf8.RuneCountInString(before)
			for _, c := range columns {
				least += c.Width + utf8.RuneCountInString(c.After)
			}
			line := Line(before, columns, func(c Column[*Entry]) string { return c.Of(e) })
			if n := utf8.RuneCountInString(line); n < least {
				t.Errorf("%q has %d characters, and not %d: %q", format, n, least, line)
			}
			if utf8.ValidString(format) && !utf8.ValidString(line) {
				t.Errorf("%q prints %q", format, line)
			}
		}
		check(Percent(format, QueueFields()))
		for _, mark := range []string{":", "%"} {
			columns, err := Named(format, mark, 20, QueueFields())
			check("", columns, err)
		}
	})
}

// FuzzForms checks that each form of Slurm is refused or has a result that can be written and read again.
func FuzzForms(f *testing.F) {
	for _, text := range []string{"n[1-3,07],x", "1-12:00:00", "4GB", "%.18i|%j%%", "[", "n[1-]", "-1", "5:", "999999999T",
		"%999999999999999i",
		"afterok:1:2,after:3+5", "1-7:2%3", "gpu:h100:8", "USR1@90"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if names, err := Hostnames(text); err == nil {
			again, failed := Hostnames(Hostlist(names))
			slices.Sort(names)
			slices.Sort(again)
			if !strings.ContainsAny(text, " \t\n\r\v\f") && (failed != nil ||
				!slices.Equal(slices.Compact(names), slices.Compact(again))) {
				t.Errorf("%q: %q becomes %q: %v", text, names, again, failed)
			}
		}
		if ms, err := sbatch.ParseTime(text); err == nil && ms < 0 {
			t.Errorf("%q is %d ms", text, ms)
		}
		if n, err := sbatch.Size(text); err == nil && n < 0 {
			t.Errorf("%q is %d bytes", text, n)
		}
		if before, columns, err := Percent(text, QueueFields()); err == nil && len(columns) < 100 {
			e := &Entry{ArrayID: "N/A", Element: "N/A"}
			for _, c := range columns {
				if c.Width > 1<<12 {
					return
				}
			}
			Line(before, columns, func(c Column[*Entry]) string { return c.Of(e) })
		}
		for _, o := range options() {
			_ = o.set(newBatch(forSbatch), text)
		}
		if words, err := sbatch.Words(text); err == nil {
			_, _ = newBatch(forSbatch).take(words)
		}
		_, _ = newBatch(forSbatch).Pattern("--output", text)
	})
}
