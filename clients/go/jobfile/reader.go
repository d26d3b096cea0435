package jobfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/spelling"
	"github.com/yi-json/synapse/policy/share"
)

// This file reads single values, independent of their key. A reader continues after a problem, so that one
// run reports all mistakes.

type reader struct {
	file     fileKind
	spec     *messages.JobSpec // for a job file
	queues   *share.Queues     // for a queue file
	queue    *share.QueueSpec  // the queue that is being read
	sources  map[string]Source // of the job's secrets
	problems Problems
	// where maps field names of package messages to positions. A key that starts with @ is the path of a
	// part, and maps to the start of this part.
	where map[string]place
}

// fileKind describes the keys of one kind of file.
type fileKind struct {
	name     string // such as "a job file"
	table    string // key of renamed for its old keys
	header   string // first line of the file
	sections []section
}

// read reads a value and stores it in its field.
type read func(r *reader, n *yaml.Node, path string)

func (r *reader) refuse(n *yaml.Node, path string, p *Problem) {
	if !r.full() {
		r.problems = append(r.problems, &Problem{n.Line, n.Column, path, p.Text, p.Hint})
	}
}

// full reports whether the problems have reached the limit. Without the limit, the search for similar names
// of 100,000 keys would take minutes.
func (r *reader) full() bool { return len(r.problems) >= maxProblems }

func (r *reader) read(root *yaml.Node) {
	readSection(r, root, "")
	for _, key := range []string{"apiVersion", "kind"} {
		if _, there := r.where["@"+key]; !there && root.Kind == yaml.MappingNode {
			r.refuse(root, key, say("write "+r.file.header, "is missing"))
		}
	}
}

// readSection reads a mapping with fixed keys.
func readSection(r *reader, n *yaml.Node, path string) {
	s := r.sectionOf(path)
	if n.Kind != yaml.MappingNode {
		r.refuse(n, path, say("use the keys "+strings.Join(s.names(), ", "), "is %s and must be a mapping",
			kindOf(n)))
		return
	}
	r.where["@"+path] = placeOf(path, n)
	for i := 0; i+1 < len(n.Content) && !r.full(); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := join(path, key.Value)
		k := s.find(key.Value)
		if k == nil {
			r.refuse(key, join(path, quoteOdd(key.Value)), say(r.elsewhere(s, key.Value), "is not a key of %s", r.file.name))
			continue
		}
		r.where["@"+at] = placeOf(at, value)
		if k.field != "" {
			r.where[k.field] = placeOf(at, value)
		}
		if k.read == nil {
			continue
		}
		if value.Kind == yaml.ScalarNode && value.Tag == "!!null" {
			r.refuse(value, at, say("give a value, or omit the key", "is empty"))
			continue
		}
		k.read(r, value, at)
	}
}

// quoteOdd quotes a key unless it is a simple word.
func quoteOdd(s string) string {
	q := quote(s)
	if strings.ContainsAny(s, " .:\t") || s == "" || len(q) != len(s)+2 {
		return q
	}
	return s
}

func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "empty"
	}
	return quote(n.Value)
}

// scalar returns the text of a value as it was written, regardless of its YAML type. The value 010 of a
// variable stays 010.
func (r *reader) scalar(n *yaml.Node, path, what string) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		r.refuse(n, path, say("", "is %s and must be %s", kindOf(n), what))
		return "", false
	}
	return n.Value, true
}

// readText reads any text.
func readText(to func(*messages.JobSpec) *string) read {
	return func(r *reader, n *yaml.Node, path string) {
		if s, ok := r.scalar(n, path, "text"); ok {
			*to(r.spec) = s
		}
	}
}

// readWord reads a text that must be one of these words.
func readWord(what string, words []string, take func(*messages.JobSpec, string)) read {
	return func(r *reader, n *yaml.Node, path string) {
		oneOf(what, words, func(word string) { take(r.spec, word) })(r, n, path)
	}
}

// oneOf reads a word like readWord, for values outside a job.
func oneOf(what string, words []string, take func(string)) read {
	return func(r *reader, n *yaml.Node, path string) {
		s, ok := r.scalar(n, path, "text")
		if !ok {
			return
		}
		for _, w := range words {
			if s == w {
				take(s)
				return
			}
		}
		r.refuse(n, path, say(spelling.Meant(s, words), "%s is not %s", quote(s), what))
	}
}

// readName reads a name that users choose.
func readName(to func(*messages.JobSpec) *string) read {
	return func(r *reader, n *yaml.Node, path string) {
		if s, ok := r.name(n, path); ok {
			*to(r.spec) = s
		}
	}
}

// readTitle reads the name of a job and keeps it as given.
func readTitle(r *reader, n *yaml.Node, path string) {
	s, ok := r.scalar(n, path, "a name")
	switch {
	case ok && !messages.Titled(s):
		r.refuse(n, path, say(messages.TitleHint, "%s is not a name", quote(s)))
	case ok:
		r.spec.Call(s)
	}
}

func (r *reader) name(n *yaml.Node, path string) (string, bool) {
	s, ok := r.scalar(n, path, "a name")
	if !ok {
		return "", false
	}
	better := messages.NameOf(s)
	if better == s && s != "" {
		return s, true
	}
	hint := "use 1 to 63 of a-z, 0-9 and '-'"
	if better != "" {
		hint += fmt.Sprintf(": did you mean %q?", better)
	}
	r.refuse(n, path, say(hint, "%s is not a name", quote(s)))
	return "", false
}

// readCount reads a whole number.
func readCount(to func(*messages.JobSpec) *int32) read {
	return func(r *reader, n *yaml.Node, path string) {
		if count, ok := r.number(n, path, 32); ok {
			*to(r.spec) = int32(count)
		}
	}
}

// readRestarts reads a number of restarts, or the word never.
func readRestarts(r *reader, n *yaml.Node, path string) {
	if n.Kind == yaml.ScalarNode && n.Value == Never {
		restart(r.spec).Never = true
		return
	}
	readCount(func(s *messages.JobSpec) *int32 { return &restart(s).Limit })(r, n, path)
}

// number reads an integer that fits into this number of bits.
func (r *reader) number(n *yaml.Node, path string, bits int) (int64, bool) {
	s, ok := r.scalar(n, path, "a whole number")
	if !ok {
		return 0, false
	}
	count, err := strconv.ParseInt(s, 10, bits)
	if err != nil || strconv.FormatInt(count, 10) != s || n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		r.refuse(n, path, say("write digits only", "%s is not a valid whole number", quote(s)))
		return 0, false
	}
	return count, true
}

// readAmount reads a quantity by one of the Parse functions of this package.
func readAmount(parse func(string) (int64, error), to func(*messages.JobSpec) *int64) read {
	return func(r *reader, n *yaml.Node, path string) {
		s, ok := r.scalar(n, path, "an amount")
		if !ok {
			return
		}
		amount, err := parse(s)
		if err != nil {
			r.refuse(n, path, err.(*Problem))
			return
		}
		*to(r.spec) = amount
	}
}

// boolean reads true or false. It refuses all other words, because YAML readers differ in which words mean
// true.
func (r *reader) boolean(n *yaml.Node, path string) bool {
	s, ok := r.scalar(n, path, "true or false")
	if ok && (s != "true" && s != "false" || n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0) {
		hint := "write true or false, without quotes"
		switch strings.ToLower(s) {
		case "yes", "on", "y", "1":
			hint = "did you mean true?"
		case "no", "off", "n", "0":
			hint = "did you mean false?"
		}
		r.refuse(n, path, say(hint, "%s is neither true nor false", quote(s)))
	}
	return s == "true"
}

// pairs reads a mapping with keys of the user, in the order of the file.
func (r *reader) pairs(n *yaml.Node, path, field string, take func(key, value string)) {
	if n.Kind != yaml.MappingNode {
		r.refuse(n, path, say("write it as {KEY: value}", "is %s and must be a mapping", kindOf(n)))
		return
	}
	for i := 0; i+1 < len(n.Content) && !r.full(); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := join(path, quoteOdd(key.Value))
		if value.Kind == yaml.ScalarNode && value.Tag == "!!null" {
			r.refuse(value, at, say(`write "" for an empty text`, "is empty"))
			continue
		}
		if s, ok := r.scalar(value, at, "text"); ok {
			entry := fmt.Sprintf("%s[%d]", field, i/2)
			r.where[entry] = placeOf(at, key)
			take(key.Value, s)
		}
	}
}

// readLabels reads a mapping of labels.
func readLabels(field string, to func(*messages.JobSpec) *[]*messages.Label) read {
	return func(r *reader, n *yaml.Node, path string) {
		r.pairs(n, path, field, func(key, value string) {
			*to(r.spec) = append(*to(r.spec), &messages.Label{Key: key, Value: value})
		})
	}
}

func readEnv(r *reader, n *yaml.Node, path string) {
	if n.Kind == yaml.SequenceNode {
		r.refuse(n, path, say("write it as {NCCL_DEBUG: WARN}", "is a list and must be a mapping"))
		return
	}
	r.pairs(n, path, "env", func(key, value string) {
		r.spec.Env = append(r.spec.Env, &messages.EnvVar{Name: key, Value: value})
	})
}

// readArguments reads the arguments of a program.
func readArguments(field string, to func(*messages.JobSpec) *[]string) read {
	return func(r *reader, n *yaml.Node, path string) {
		if n.Kind == yaml.ScalarNode {
			words := strings.Fields(n.Value)
			hint := "write [\"/bin/sh\", \"-c\", \"…\"] to use a shell"
			if len(words) > 0 && len(words) < 10 && !strings.ContainsAny(n.Value, "\"'\\|&;<>$`*?") {
				hint = "write " + strings.ReplaceAll(fmt.Sprintf("%q", words), `" "`, `", "`)
			}
			r.refuse(n, path, say(hint, "is a string and must be a list of arguments"))
			return
		}
		if n.Kind != yaml.SequenceNode {
			r.refuse(n, path, say(`write ["program", "argument"]`, "is %s and must be a list of arguments", kindOf(n)))
			return
		}
		for i, part := range n.Content {
			at := fmt.Sprintf("%s[%d]", path, i)
			r.where[fmt.Sprintf("%s[%d]", field, i)] = placeOf(at, part)
			if s, ok := r.scalar(part, at, "text"); ok {
				*to(r.spec) = append(*to(r.spec), s)
			}
		}
	}
}

// readMachines reads a list of node names.
func readMachines(field string, to func(*messages.JobSpec) *[]string) read {
	return func(r *reader, n *yaml.Node, path string) {
		if n.Kind != yaml.SequenceNode {
			r.refuse(n, path, say("write it as [n1, n2]", "is %s and must be a list of nodes", kindOf(n)))
			return
		}
		for i, part := range n.Content {
			at := fmt.Sprintf("%s[%d]", path, i)
			r.where[fmt.Sprintf("%s[%d]", field, i)] = placeOf(at, part)
			if s, ok := r.scalar(part, at, "a node name"); ok {
				*to(r.spec) = append(*to(r.spec), s)
			}
		}
	}
}

func readMounts(r *reader, n *yaml.Node, path string) {
	r.list(n, path, "mounts", "write [{source: /data, target: /data}]", func(part *yaml.Node, path, field string) {
		m := &messages.Mount{}
		if r.part(part, path, field, "a mount", []partKey{
			{"source", func(v *yaml.Node, at string) { m.Source, _ = r.scalar(v, at, "a path") }},
			{"target", func(v *yaml.Node, at string) { m.Target, _ = r.scalar(v, at, "a path") }},
			{"readOnly", func(v *yaml.Node, at string) { m.ReadOnly = r.boolean(v, at) }},
		}) {
			r.spec.Mounts = append(r.spec.Mounts, m)
		}
	})
}

// list reads a list of mappings.
func (r *reader) list(n *yaml.Node, path, field, hint string, read func(n *yaml.Node, path, field string)) {
	if n.Kind != yaml.SequenceNode {
		r.refuse(n, path, say(hint, "is %s and must be a list", kindOf(n)))
		return
	}
	for i, part := range n.Content {
		if r.full() {
			return
		}
		read(part, fmt.Sprintf("%s[%d]", path, i), fmt.Sprintf("%s[%d]", field, i))
	}
}

// partKey describes a key of a list entry.
type partKey struct {
	name string
	read func(n *yaml.Node, path string)
}

// part reads one entry of a list, and reports whether it is a mapping. The table of sections does not contain
// these keys, because list entries have no fixed path.
func (r *reader) part(n *yaml.Node, path, field, what string, keys []partKey) bool {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	if n.Kind != yaml.MappingNode {
		r.refuse(n, path, say("use the keys "+strings.Join(names, ", "), "is %s and must be a mapping", kindOf(n)))
		return false
	}
	r.where[field] = placeOf(path, n)
	for i := 0; i+1 < len(n.Content) && !r.full(); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := join(path, quoteOdd(key.Value))
		r.where[field+"."+key.Value] = placeOf(at, value)
		k := slices.Index(names, key.Value)
		if k < 0 {
			r.refuse(key, at, say(spelling.Meant(key.Value, names), "is not a key of %s", what))
			continue
		}
		keys[k].read(value, at)
	}
	return true
}
