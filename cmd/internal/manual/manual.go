// Package manual writes the help of commands and their flags as Markdown, for the reference pages and for man
// pages.
package manual

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/yi-json/synapse/cmd/internal/settings"
)

// FlagTable returns a table of flags.
func FlagTable(flags *pflag.FlagSet) string {
	if !flags.HasAvailableFlags() {
		return ""
	}
	table := "| flag | meaning | default |\n|---|---|---|\n"
	flags.VisitAll(func(f *pflag.Flag) {
		kind, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		switch {
		case f.NoOptDefVal != "" && f.Value.Type() == "string":
			name += "[=" + strings.ToUpper(kind) + "]"
		case kind != "" && f.Value.Type() != "bool" && f.Value.Type() != "count":
			name += " " + strings.TrimSuffix(strings.ToUpper(kind), "S")
		}
		usage, value := Default(f, usage)
		table += fmt.Sprintf("| `%s` | %s | %s |\n", name, Sentence(usage), value)
	})
	return table
}

var toldDefault = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?s)^(.*?)\.? \(default:? (.*?)\)$`)
})

// Default returns the usage of a flag without its default, and the default.
func Default(f *pflag.Flag, usage string) (meaning, value string) {
	usage = strings.Join(strings.Fields(usage), " ")
	if m := toldDefault().FindStringSubmatch(usage); m != nil {
		return m[1], WithCode(m[2])
	}
	if f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "0" && f.DefValue != "false" {
		value = "`" + short(strings.Trim(f.DefValue, "[]")) + "`"
	}
	return usage, value
}

// short returns a value in its usual notation: 24h instead of 24h0m0s.
func short(value string) string {
	if span, err := time.ParseDuration(value); err == nil && span > 0 {
		value = strings.ReplaceAll(strings.ReplaceAll(value, "m0s", "m"), "h0m", "h")
	}
	return value
}

// Sentence converts a line of help into a sentence.
func Sentence(short string) string {
	text := strings.ReplaceAll(strings.Join(strings.Fields(short), " "), "|", "\\|")
	first, _, _ := strings.Cut(text, " ")
	if strings.ToLower(first) == first && !strings.HasPrefix(first, "-") && !strings.ContainsAny(first, ":[.=`") {
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	return WithCode(strings.TrimSuffix(text, ".") + ".")
}

var (
	endOfSentence = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile("([.:]|\\.`)\\s+([A-Z]|[`0-9-].*\\b(?:is|removes|are|exits|accept)\\b)")
	})
	flagInText = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(^|[\s(])(-{1,2}[a-z][a-z-]*)`)
	})
)

// WithCode returns a text in which the flags are formatted as code.
func WithCode(text string) string {
	parts := strings.Split(text, "`")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = flagInText().ReplaceAllString(parts[i], "$1`$2`")
	}
	return strings.Join(parts, "`")
}

// Markdown returns help with one sentence per line. Tables of the help stay as they are.
func Markdown(long string) string {
	var page strings.Builder
	for i, paragraph := range strings.Split(strings.TrimSpace(long), "\n\n") {
		if i > 0 {
			page.WriteString("\n")
		}
		lead, table, found := strings.Cut("\n"+paragraph, "\n  ")
		if lead = strings.TrimSpace(lead); lead != "" {
			lead = strings.Join(strings.Fields(lead), " ")
			page.WriteString(endOfSentence().ReplaceAllString(WithCode(lead), "$1\n$2") + "\n")
		}
		if found {
			if lead != "" {
				page.WriteString("\n")
			}
			page.WriteString("```text\n" + strings.ReplaceAll(table, "\n  ", "\n") + "\n```\n")
		}
	}
	return page.String()
}

// SettingsTable returns a table of the settings of flags, in the order of an annotated settings file. The examples
// come from that file, which has one line per setting, with or without a comment mark.
func SettingsTable(flags *pflag.FlagSet, file string) string {
	table := "| key | meaning | default | example |\n|---|---|---|---|\n"
	for _, m := range aSetting().FindAllStringSubmatch(file, -1) {
		f := flags.Lookup(m[1])
		if f == nil {
			continue
		}
		kind, usage := pflag.UnquoteUsage(f)
		meaning, value := Default(f, usage)
		if value == "" && f.Value.Type() == "bool" {
			value = "`false`"
		}
		if kind == "" {
			kind = f.Value.Type()
		}
		if !strings.Contains(meaning, kind) && !plainKinds[kind] {
			meaning += " (" + kind + ")"
		}
		table += fmt.Sprintf("| `%s` | %s | %s | `%s` |\n", f.Name, Sentence(meaning), value, m[2])
	}
	return table
}

var (
	aSetting = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^#?([a-z][a-z-]*): ([^{\n]+)$`)
	})
	plainKinds = map[string]bool{"string": true, "bool": true, "int": true, "strings": true, "count": true,
		"duration": true}
)

// Text describes a key of a section of a settings file.
type Text struct{ Meaning, Example string }

// SectionTable returns a table of the keys of a section. The texts must be in the order of the keys.
func SectionTable(keys []settings.Key, texts []Text) (string, error) {
	table := "| key | meaning | default | example |\n|---|---|---|---|\n"
	n := 0
	var add func(prefix string, keys []settings.Key)
	add = func(prefix string, keys []settings.Key) {
		for _, k := range keys {
			if k.Keys != nil {
				add(prefix+k.Name+".", k.Keys)
				continue
			}
			if n++; n > len(texts) {
				continue
			}
			value := ""
			if shown := k.Get(); shown != "" && shown != "[]" {
				value = "`" + short(shown) + "`"
			}
			table += fmt.Sprintf("| `%s` | %s | %s | `%s` |\n", prefix+k.Name, texts[n-1].Meaning, value,
				texts[n-1].Example)
		}
	}
	add("", keys)
	if n != len(texts) {
		return "", fmt.Errorf("%d keys have %d texts", n, len(texts))
	}
	return table, nil
}

// SettingsFile returns an annotated settings file with the help text of each setting above it. It keeps the
// settings, their order, and the blocks without settings.
func SettingsFile(flags *pflag.FlagSet, file string) string {
	var blocks []string
	for block := range strings.SplitSeq(strings.TrimSpace(file), "\n\n") {
		var settings []string
		for line := range strings.SplitSeq(block, "\n") {
			m := aSetting().FindStringSubmatch(line)
			if m == nil || flags.Lookup(m[1]) == nil {
				continue
			}
			_, usage := pflag.UnquoteUsage(flags.Lookup(m[1]))
			usage = strings.ReplaceAll(Sentence(usage), "`", "")
			settings = append(settings, comment(usage)+line)
		}
		if settings == nil {
			settings = []string{block}
		}
		blocks = append(blocks, settings...)
	}
	return strings.Join(blocks, "\n\n") + "\n"
}

// comment returns a text as the lines of a YAML comment.
func comment(text string) string {
	lines, line := "", "#"
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > 100 {
			lines, line = lines+line+"\n", "#"
		}
		line += " " + word
	}
	return lines + line + "\n"
}
