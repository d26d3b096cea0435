package messages

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"unicode/utf8"

	"github.com/yi-json/synapse/messages/plain"
)

// This file has the script of a job: a text file whose first line names its interpreter. The leader's store keeps the
// text and sends it to the nodes. Records and commands have only the digest of the text, because they are held in
// memory and written with every change.

// DefaultScriptName is the file name of a script without a name.
const DefaultScriptName = "script"

// MaxScriptNameBytes limits the file name.
const MaxScriptNameBytes = MaxNameBytes

// hostfile is a file that the launcher writes to the directory of scripts.
const hostfile = "hostfile"

// NewScript returns a script with this text. It refuses a text that cannot run.
func NewScript(name string, text []byte) (*Script, error) {
	if err := validText(text); err != nil {
		return nil, in("script", err)
	}
	return &Script{Name: name, Digest: ScriptDigest(text), SizeBytes: int64(len(text)), Text: text}, nil
}

// ScriptDigest returns the digest of a text.
func ScriptDigest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// IsScript reports whether a text begins with #!.
func IsScript(text []byte) bool { return plain.IsScript(text) }

// validText refuses a text that no node could run.
func validText(text []byte) error {
	line := func(i int) int { return bytes.Count(text[:i], []byte("\n")) + 1 }
	first, _, _ := bytes.Cut(text, []byte("\n"))
	switch {
	case len(text) == 0:
		return refuse("text", "is missing", "start the script with its interpreter, such as #!/bin/sh")
	case !IsScript(text):
		return refuse("text", "must start with #!", "name the interpreter in the first line, such as #!/bin/sh")
	case len(text) > MaxScriptBytes:
		return refuse("text", fmt.Sprintf("is larger than %d bytes", MaxScriptBytes),
			"put large data where the nodes can read it, and submit a short script that uses it")
	case len(bytes.TrimSpace(first[2:])) == 0:
		return refuse("text", "has no interpreter after #!", "write, for example, #!/bin/sh")
	case bytes.IndexByte(text, 0) >= 0:
		return refuse("text", fmt.Sprintf("contains a NUL byte in line %d and is not text", line(bytes.IndexByte(text,
			0))),
			"put the program where the nodes can read it, or into the image")
	case bytes.Contains(text, []byte("\r\n")):
		return refuse("text", fmt.Sprintf("has Windows line endings, the first in line %d", line(bytes.Index(text,
			[]byte("\r\n")))),
			"convert it to Unix line endings with dos2unix")
	case !utf8.Valid(text):
		return refuse("text", "is not UTF-8", "save it as UTF-8")
	}
	return nil
}

// without refuses a script with its text, for messages that must not have one.
func (x *Script) without() error {
	if len(x.GetText()) > 0 {
		return refuse("script.text", "is not allowed here", "use SubmitScript")
	}
	return nil
}

// validScript checks the script of a job, and its text if the message has it.
func (x *JobSpec) validScript() error {
	s := x.GetScript()
	switch {
	case s == nil:
		return nil
	case len(x.GetCommand()) > 0:
		return refuse("command", "cannot be combined with a script",
			"use args for the script's arguments, or omit one of them")
	}
	return in("script", s.valid())
}

func (x *Script) valid() error {
	name := x.GetName()
	switch {
	case name == "" || len(name) > MaxScriptNameBytes || !only(name, fileChar) || name[0] == '.' || name[0] == '-':
		return refuse("name", fmt.Sprintf("%q is not a valid name", short(name)),
			fmt.Sprintf("use 1 to %d letters, digits, '.', '_' and '-', starting with a letter or digit",
				MaxScriptNameBytes))
	case name == hostfile:
		return refuse("name", "is reserved for a file that each task gets next to the script", "use another name")
	case len(x.GetDigest()) != 2*sha256.Size || !only(x.GetDigest(), hexDigit):
		return refuse("digest", "is not a SHA-256 hash", "")
	}
	if err := between("size_bytes", x.GetSizeBytes(), 1, MaxScriptBytes); err != nil {
		return err
	}
	if text := x.GetText(); len(text) > 0 {
		if err := validText(text); err != nil {
			return err
		}
		if ScriptDigest(text) != x.GetDigest() || int64(len(text)) != x.GetSizeBytes() {
			return refuse("digest", "does not match the text", "")
		}
	}
	return arguments("args", x.GetArgs())
}

// Bare returns the spec without the script's text and the values of secrets. Records and actors have only the bare
// spec.
func (x *JobSpec) Bare() *JobSpec {
	if len(x.GetScript().GetText()) == 0 && x.withoutSecrets() == nil {
		return x
	}
	_, bare := x.TakeSecrets()
	if bare.Script != nil {
		bare.Script.Text = nil
	}
	return bare
}

// without refuses data that is submitted with a job but not stored in its spec.
func (x *JobSpec) without() error { return first(x.GetScript().without(), x.withoutSecrets()) }

func fileChar(c byte) bool {
	return lower(c) || upper(c) || digit(c) || c == '.' || c == '_' || c == '-'
}

func hexDigit(c byte) bool { return digit(c) || 'a' <= c && c <= 'f' }
