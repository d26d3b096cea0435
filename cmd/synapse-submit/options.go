package main

import (
	"strings"

	"github.com/yi-json/synapse/cmd/internal/sbatch"
)

// This file parses the options of the tables that synapse-cli shares.

// options maps the names and letters of the served options of a command.
type options[B any] map[string]sbatch.Option[B]

func byName[B any](table []sbatch.Option[B]) options[B] {
	all := options[B]{}
	for _, o := range table {
		all["--"+o.Long] = o
		if o.Short != "" {
			all["-"+o.Short] = o
		}
	}
	return all
}

// take sets the options at the start of a command line, and returns the arguments after them. given gets the name of
// each option. take reports false for a word that synapse-cli must judge.
func (all options[B]) take(b *B, words []string, given func(name string)) (rest []string, ok bool) {
	for len(words) > 0 {
		word := words[0]
		if word == "--" {
			return words[1:], true
		}
		if len(word) < 2 || word[0] != '-' {
			break
		}
		name, value, has := word, "", false
		if word[1] == '-' {
			name, value, has = strings.Cut(word, "=")
		} else if len(word) > 2 {
			name, value, has = word[:2], word[2:], true
		}
		o, known := all[name]
		switch words = words[1:]; {
		case !known, has && word[1] != '-' && value[0] == '=':
			return nil, false
		case has && word[1] != '-' && o.Bare != "": // several letters
			value, words = o.Bare, append([]string{"-" + value}, words...)
		case !has && o.Bare != "":
			value = o.Bare
		case !has && len(words) == 0:
			return nil, false
		case !has:
			value, words = words[0], words[1:]
		}
		if o.Set(b, value) != nil {
			return nil, false
		}
		given(o.Long)
	}
	return words, true
}
