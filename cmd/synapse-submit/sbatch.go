package main

import (
	"bytes"
	"crypto/rand"
	"io"
	"os"
	"unicode/utf8"

	"github.com/yi-json/synapse/cmd/internal/command"
	"github.com/yi-json/synapse/cmd/internal/sbatch"
	"github.com/yi-json/synapse/messages/plain"
)

// This file serves sbatch with the common options. The scheduler converts the options into a job with the code of
// synapse-cli, so this program needs neither that code nor the helper scripts of a job.

// maxScriptBytes is the size from which synapse-cli reads the script, because it may be too large.
const maxScriptBytes = 512 << 10

// parse reads the command line and the script. It reports false if synapse-cli must do it.
func (c *call) parse(words []string) (b sbatch.Plain, text []byte, ok bool) {
	all, line := byName(sbatch.Options()), sbatch.New()
	rest, ok := all.take(&line, words, line.Give)
	if !ok || line.Wrap == "" && len(rest) == 0 || line.Wrap != "" && len(rest) > 0 {
		return b, nil, false
	}
	for _, v := range sbatch.InEnvironment {
		if c.variable("SBATCH_"+v[0]) != "" {
			return b, nil, false
		}
	}
	b = sbatch.New()
	if line.Wrap == "" {
		text, ok = script(rest[0])
		if !ok || sbatch.Directives(text, func(words []string) ([]string, error) {
			rest, ok := all.take(&b, words, b.Give)
			if !ok {
				return nil, errUnknown
			}
			return rest, nil
		}) != nil {
			return b, nil, false
		}
	}
	_, ok = all.take(&b, words, b.Give)
	return b, text, ok
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
	b, text, ok := c.parse(words)
	if !ok {
		return false
	}
	to, ok := c.settings()
	if !ok {
		return false
	}
	from := sbatch.Here()
	if from.As = from.User; from.As != "" && to.identifies() {
		from.As = plain.UserMe // the local login name is not related to the owner
	}
	set, err := b.Exported(from.Env)
	if err != nil {
		return false
	}
	o := &command.Batch{Words: words, Script: string(text), Dir: from.Dir, Host: from.Host, User: from.User, As: from.As,
		Env: entries(set), RequestID: "cli-" + rand.Text()}
	body := ofBatch(o)
	if !utf8.Valid(body) { // JSON cannot express other texts
		return false
	}
	answer, sent := to.post(command.Prefix+"sbatch", body, maxAnswer)
	if sent {
		c.request = o.RequestID
	}
	c.output = string(answer)
	return answer != nil
}

// ofBatch returns the request of sbatch.
func ofBatch(b *command.Batch) []byte {
	var o object
	o.whole(func(o *object) {
		o.texts("Words", b.Words)
		o.text("Script", b.Script)
		o.text("Dir", b.Dir)
		o.text("Host", b.Host)
		o.text("User", b.User)
		o.text("As", b.As)
		o.texts("Env", b.Env)
		o.text("RequestID", b.RequestID)
	})
	return o.Bytes()
}

// entries returns variables as NAME=value.
func entries(set map[string]string) (all []string) {
	for name, value := range set { //order: the scheduler sorts them
		all = append(all, name+"="+value)
	}
	return all
}
