// Package jobfile reads the file in which a user describes a job. It owns the
// way from text to messages.JobSpec: which keys there are, how amounts and times
// are written, and what is refused. Whatever it does not understand it refuses,
// with line, column and the way out: a key that is quietly passed over is a job
// that runs for a day with the wrong settings.
//
// Whether a job makes sense is messages' to say; its refusals come back from here
// in the words of the file.
package jobfile

import (
	"cmp"
	"errors"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/messages"
)

// Parse reads the jobs of a file, one a document. The error is a Problems where the
// file is at fault. JSON is read too: it is a way to write YAML.
func Parse(data []byte) ([]*messages.JobSpec, error) {
	specs, _, err := ParseWithSources(data)
	return specs, err
}

// ParseWithSources is Parse, and says besides where the values of each job's secrets come from, by their names.
func ParseWithSources(data []byte) (specs []*messages.JobSpec, from []map[string]Source, err error) {
	roots, problems := documents(data)
	if problems != nil {
		return nil, nil, problems
	}
	for _, root := range roots {
		r := &reader{file: jobFile(), spec: &messages.JobSpec{Gang: &messages.GangSpec{}}, where: map[string]place{},
			sources: map[string]Source{}}
		r.read(root)
		if r.problems == nil {
			err := r.complete()
			if err == nil {
				err = Valid(r.spec)
			}
			if err != nil {
				r.problems = Problems{r.locate(err)}
			}
		}
		problems = append(problems, r.problems...)
		specs, from = append(specs, r.spec), append(from, r.sources)
	}
	if problems != nil {
		return nil, nil, problems[:min(len(problems), maxProblems)]
	}
	return specs, from, nil
}

// jobFile is what a job is read by. It is a function for the reason that sections is one.
func jobFile() fileKind {
	return fileKind{"a job file", "`apiVersion: synapse/v1` and `kind: Job`", sections()}
}

// complete fills in what a file may leave out.
func (r *reader) complete() error {
	g := r.spec.Gang
	_, counted := r.where["gang.replicas_min"]
	switch {
	case g.Total == nil && !counted:
		g.ReplicasMin = 1
	case g.Total != nil && g.Split == messages.Split_SPLIT_UNSPECIFIED:
		g.Split = messages.Split_SPLIT_WHOLE
	}
	g.ReplicasMax = g.ReplicasMin
	s := r.spec.Script
	if s == nil {
		return nil
	}
	made, err := messages.NewScript(cmp.Or(s.Name, messages.DefaultScriptName), s.Text)
	if err == nil {
		made.Args = s.Args
		r.spec.Script = made
	}
	return err
}

// place is where something stands in the file.
type place struct {
	path         string // spec.gang.replicas
	line, column int
}

func placeOf(path string, n *yaml.Node) place { return place{path, n.Line, n.Column} }

// locate says in the words of the file what messages refused in its own. What is
// missing has no place: then the nearest part around it is shown.
func (r *reader) locate(err error) *Problem {
	var f *messages.FieldError
	if !errors.As(err, &f) {
		return &Problem{Text: err.Error()}
	}
	p := &Problem{Path: pathOf(f.Field), Text: InUnits(f.Field, f.Text), Hint: InUnits(f.Field, f.Hint)}
	for field := f.Field; ; {
		if at, known := r.where[field]; known {
			p.Line, p.Column = at.line, at.column
			if p.Path == f.Field {
				p.Path = at.path
				if strings.HasPrefix(field, "mounts") || strings.HasPrefix(field, "secrets") {
					p.Path += f.Field[len(field):]
				}
			}
			return p
		}
		cut := strings.LastIndexAny(field, ".[")
		if cut < 0 {
			break
		}
		field = field[:cut]
	}
	for path := p.Path; path != ""; path = path[:max(strings.LastIndexByte(path, '.'), 0)] {
		if at, known := r.where["@"+path]; known {
			p.Line, p.Column = at.line, at.column
			break
		}
	}
	return p
}

var digits = regexp.MustCompile(`[0-9]+`)

// InUnits writes the numbers of a refusal as a file does: messages counts in
// milliseconds and bytes.
func InUnits(field, text string) string {
	unit := field[strings.LastIndexByte(field, '_')+1:]
	if strings.HasSuffix(field, "_unix_ms") {
		unit = "unix_ms"
	}
	format := map[string]func(int64) string{
		"ms": FormatDuration, "unix_ms": FormatMoment, "bytes": FormatBytes, "cpu": FormatMilli, "gpu": FormatMilli,
	}[unit]
	if format == nil || unit == "gpu" && !strings.Contains(text, ", outside ") { // else it says itself what it counts
		return text
	}
	return digits.ReplaceAllStringFunc(text, func(s string) string {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return s
		}
		return format(n)
	})
}

// pathOf names a field of messages as the file does.
func pathOf(field string) string {
	for _, s := range sections() {
		for _, k := range s.keys {
			if k.field != "" && k.field == field {
				return join(s.path, k.name)
			}
		}
	}
	return field
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
