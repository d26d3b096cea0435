package slurm

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/yi-json/synapse/cmd/internal/command"
	"github.com/yi-json/synapse/cmd/internal/sbatch"
)

// This file parses options like getopt_long, which Slurm's programs use.

// Whole completes abbreviated long options: `--part=x` becomes `--partition=x`. An ambiguous abbreviation is
// refused with the possible names. Arguments after `--` stay unchanged. If the flags stop at the first argument
// that is not an option, all arguments after it also stay unchanged.
func Whole(f *pflag.FlagSet, stops bool, words []string) ([]string, error) {
	words = slices.Clone(words)
	for i := 0; i < len(words); i++ {
		word := words[i]
		switch {
		case word == "--":
			return words, nil
		case len(word) < 2 || word[0] != '-':
			if stops {
				return words, nil
			}
		case word[1] != '-':
			if wantsNext(f, word[1:]) {
				i++
			}
		default:
			name, value, has := strings.Cut(word[2:], "=")
			flag, err := longOption(f, name)
			if err != nil {
				return nil, err
			}
			if flag == nil {
				continue // the parser refuses it by its name
			}
			words[i] = "--" + flag.Name
			if has {
				words[i] += "=" + value
			} else if flag.NoOptDefVal == "" {
				i++ // the next argument is its value
			}
		}
	}
	return words, nil
}

// longOption returns the option with a name, or the only one with this prefix, or nil.
func longOption(f *pflag.FlagSet, name string) (*pflag.Flag, error) {
	if flag := f.Lookup(name); flag != nil || name == "" {
		return flag, nil
	}
	var found []*pflag.Flag
	f.VisitAll(func(flag *pflag.Flag) {
		if strings.HasPrefix(flag.Name, name) {
			found = append(found, flag)
		}
	})
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return found[0], nil
	}
	names := make([]string, 0, len(found))
	for _, flag := range found {
		names = append(names, "--"+flag.Name)
	}
	slices.Sort(names)
	return nil, &Refusal{Option: "--" + name, Text: "is ambiguous: " + strings.Join(names, ", "),
		Hint: "write the full name"}
}

// wantsNext reports whether the last of these letters takes the next argument as its value. It does in -n 4, but
// not in -n4.
func wantsNext(f *pflag.FlagSet, letters string) bool {
	for i := range letters {
		flag := f.ShorthandLookup(letters[i : i+1])
		if flag == nil {
			return false
		}
		if flag.NoOptDefVal == "" {
			return i == len(letters)-1
		}
	}
	return false
}

// List is an option that may be repeated. Its values are joined by commas.
type List struct{ To *string }

// String returns the values.
func (l List) String() string {
	if l.To == nil {
		return ""
	}
	return *l.To
}

// Type returns the name of the value's type.
func (l List) Type() string { return "list" }

// Set adds values.
func (l List) Set(value string) error {
	command.Join(l.To, value)
	return nil
}

// Version is the release of Slurm whose options and words these programs follow.
const Version = sbatch.Version
