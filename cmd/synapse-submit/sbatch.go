package main

import (
	"bytes"
	"crypto/rand"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/yi-json/synapse/cmd/internal/sbatch"
	"github.com/yi-json/synapse/messages/plain"
)

// This file serves sbatch with the common options. Package sbatch converts the options into a job, here and in
// synapse-cli.

// maxScriptBytes is the size from which synapse-cli reads the script, because it may be too large.
const maxScriptBytes = 512 << 10

// options maps the names and letters of the served options.
type options map[string]sbatch.Option

func known() options {
	all := options{}
	for _, o := range sbatch.Options() {
		all["--"+o.Long] = o
		if o.Short != "" {
			all["-"+o.Short] = o
		}
	}
	return all
}

// take sets the options at the start of a command line, and returns the arguments after them. It reports false for a
// word that synapse-cli must judge.
func (all options) take(b *sbatch.Plain, words []string) (rest []string, ok bool) {
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
		case !known, has && word[1] != '-' && (o.Bare != "" || value[0] == '='):
			return nil, false
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
		b.Given[o.Long] = true
	}
	return words, true
}

// parse reads the command line and the script. It reports false if synapse-cli must do it.
func (c *call) parse(words []string) (b sbatch.Plain, text []byte, args []string, ok bool) {
	all, line := known(), sbatch.New()
	rest, ok := all.take(&line, words)
	if !ok || line.Wrap == "" && len(rest) == 0 || line.Wrap != "" && len(rest) > 0 {
		return b, nil, nil, false
	}
	for _, v := range sbatch.InEnvironment {
		if c.variable("SBATCH_"+v[0]) != "" {
			return b, nil, nil, false
		}
	}
	b = sbatch.New()
	if line.Wrap != "" {
		text = line.Wrapped()
	} else {
		if text, ok = script(rest[0]); !ok || sbatch.Directives(text, func(words []string) ([]string, error) {
			rest, ok := all.take(&b, words)
			if !ok {
				return nil, errUnknown
			}
			return rest, nil
		}) != nil {
			return b, nil, nil, false
		}
		args = rest[1:]
		b.NameFrom(rest[0])
	}
	_, ok = all.take(&b, words)
	return b, text, args, ok
}

var errUnknown = &sbatch.Refusal{Text: "synapse-cli decides"}

// elsewhere lists words in a script that only synapse-cli understands: programs that a job lacks, and the containers of
// steps.
var elsewhere = []string{"sattach", "salloc", "sstat", "--container-"}

// script reads a script. Only a regular file can be read again by synapse-cli.
func script(name string) (text []byte, ok bool) {
	file, err := os.Open(name)
	if err != nil {
		return nil, false
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxScriptBytes {
		return nil, false
	}
	if text, err = io.ReadAll(file); err != nil || !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		return nil, false
	}
	for _, word := range elsewhere {
		if bytes.Contains(text, []byte(word)) {
			return nil, false
		}
	}
	return text, true
}

// sbatch submits a script, and reports whether that succeeded.
func (c *call) sbatch(words []string) bool {
	b, text, args, ok := c.parse(words)
	if !ok || b.Exclusive || b.WholeMemory {
		return false
	}
	to, ok := c.settings()
	if !ok {
		return false
	}
	body, id, ok := requestOf(&b, text, args, to.identifies())
	if !ok {
		return false
	}
	answer, sent := to.post("SubmitScript", body)
	if sent {
		c.request = id
	}
	job, ok := jobOf(answer)
	if ok {
		c.output = b.Submitted(job) + "\n"
	}
	return ok
}

// requestOf returns the JSON of the request that submits a job, and its ID.
func requestOf(b *sbatch.Plain, text []byte, args []string, identifies bool) (body []byte, id string, ok bool) {
	from := sbatch.Here()
	if from.As = from.User; from.As != "" && identifies {
		from.As = plain.UserMe // the local login name is not related to the owner
	}
	shape, err := b.Shape()
	if err != nil {
		return nil, "", false
	}
	each, err := b.Amount(shape, nil)
	if err != nil {
		return nil, "", false
	}
	files, err := b.Files(false)
	if err != nil {
		return nil, "", false
	}
	job, err := b.Job("sbatch", shape, each, text, files, args, from, nil)
	if err != nil || !readable(job) {
		return nil, "", false
	}
	id = "cli-" + rand.Text()
	return encoded(job, id, b.Hold), id, true
}

// readable reports whether all texts are UTF-8. JSON cannot express others.
func readable(j *sbatch.Job) bool {
	all := append([]string{j.Queue, j.Name, j.Title, j.User, j.GPUType, j.SubmitDir}, j.Args...)
	for _, pair := range append(j.Labels, j.Env...) {
		all = append(all, pair[0], pair[1])
	}
	return utf8.Valid(j.Script) && utf8.ValidString(strings.Join(all, ""))
}
