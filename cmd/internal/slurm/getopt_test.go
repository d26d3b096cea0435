package slurm

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"pgregory.net/rapid"
)

// This file checks that options are parsed like getopt_long.

func someFlags() *pflag.FlagSet {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.StringP("partition", "p", "", "")
	f.StringP("nodes", "N", "", "")
	f.String("nodelist", "", "")
	f.StringP("ntasks", "n", "", "")
	f.String("ntasks-per-node", "", "")
	f.BoolP("noheader", "h", false, "")
	f.BoolP("long", "l", false, "")
	return f
}

// TestWhole checks that a unique abbreviation is completed and an ambiguous one is refused. Values are never
// completed.
func TestWhole(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"--part=x --noh", "--partition=x --noheader"},
		{"--part x", "--partition x"},
		{"--nodes 2 --nodel a", "--nodes 2 --nodelist a"},
		{"--ntasks 4 --ntasks-per 2", "--ntasks 4 --ntasks-per-node 2"}, // already complete
		{"--part --long", "--partition --long"},                         // the value of --part
		{"-p --lon", "-p --lon"},
		{"-lp --lon", "-lp --lon"},
		{"-lpx --lon", "-lpx --long"},
		{"-l --lon", "-l --long"},
		{"-- --lon", "-- --lon"},
		{"--unheard --lon", "--unheard --long"},
		{"-Zn --lon", "-Zn --long"},
		{"", ""},
	} {
		got, err := Whole(someFlags(), false, strings.Fields(c.line))
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, %v, want %q", c.line, got, err, c.want)
		}
	}
	for line, names := range map[string]string{
		"--no": "--nodelist, --nodes, --noheader", "--nt": "--ntasks, --ntasks-per-node", "--nodel=a --n=4": "--nodes",
	} {
		_, err := Whole(someFlags(), false, strings.Fields(line))
		if r := (*Refusal)(nil); !errors.As(err, &r) || !strings.Contains(r.Text, names) {
			t.Errorf("%s: %v, want %s", line, err, names)
		}
	}
	for stops, want := range map[bool]string{true: "--long word --lon", false: "--long word --long"} {
		if got, err := Whole(someFlags(), stops, []string{"--lon", "word", "--lon"}); err != nil ||
			strings.Join(got, " ") != want {
			t.Errorf("behind a word: %q, %v, want %q", got, err, want)
		}
	}
}

// TestWholeIsRead checks that complete names stay unchanged, and that abbreviations parse like the complete names.
func TestWholeIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var whole, short []string
		for range rapid.IntRange(0, 6).Draw(t, "options") {
			var all []*pflag.Flag
			someFlags().VisitAll(func(f *pflag.Flag) { all = append(all, f) })
			flag := rapid.SampledFrom(all).Draw(t, "option")
			least := len(flag.Name) // the shortest unique abbreviation
			for least > 1 && !slices.ContainsFunc(all, func(o *pflag.Flag) bool {
				return o != flag && strings.HasPrefix(o.Name, flag.Name[:least-1])
			}) {
				least--
			}
			name := flag.Name[:rapid.IntRange(least, len(flag.Name)).Draw(t, "letters")]
			value := rapid.SampledFrom([]string{"x", "--long", "-p", "--part", "a=b"}).Draw(t, "value")
			switch {
			case flag.NoOptDefVal != "":
				whole, short = append(whole, "--"+flag.Name), append(short, "--"+name)
			case rapid.Bool().Draw(t, "attached"):
				whole, short = append(whole, "--"+flag.Name+"="+value), append(short, "--"+name+"="+value)
			default:
				whole, short = append(whole, "--"+flag.Name, value), append(short, "--"+name, value)
			}
		}
		for _, words := range [][]string{whole, short} {
			if got, err := Whole(someFlags(), true, words); err != nil || !slices.Equal(got, whole) {
				t.Fatalf("%q: %q, %v, want %q", words, got, err, whole)
			}
		}
	})
}

// TestList checks that a repeated option has the values of all occurrences.
func TestList(t *testing.T) {
	f, jobs := someFlags(), ""
	f.VarP(List{&jobs}, "jobs", "j", "")
	if err := f.Parse([]string{"-j", "1", "--jobs=2,3", "-j", ""}); err != nil || jobs != "1,2,3" {
		t.Errorf("%q: %v", jobs, err)
	}
}
