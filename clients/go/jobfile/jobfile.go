// Package jobfile reads the file in which a user describes a job. It parses the text into a messages.JobSpec:
// the keys, the notation of amounts and times, and the errors. The package refuses everything that it does
// not understand, with line, column and a fix. If it ignored a misspelled key, a job could run for a day with
// the wrong settings.
//
// Package messages validates the job as a whole. This package translates those errors into the names of the
// file.
package jobfile

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/messages"
)

// Parse reads the jobs of a file, one per document. JSON is also accepted, because JSON is a subset of YAML.
// If the file is invalid, the error is a Problems.
func Parse(data []byte) ([]*messages.JobSpec, error) {
	specs, _, err := ParseWithSources(data)
	return specs, err
}

// ParseWithSources reads the jobs like Parse. It also returns the sources of each job's secrets, by the
// secret's name.
func ParseWithSources(data []byte) (specs []*messages.JobSpec, from []map[string]Source, err error) {
	roots, problems := documents(data)
	if problems != nil {
		return nil, nil, problems
	}
	for _, root := range roots {
		r := &reader{file: jobFile(), spec: &messages.JobSpec{Gang: &messages.GangSpec{}}, where: map[string]place{},
			sources: map[string]Source{}}
		r.read(root)
		r.check()
		problems = append(problems, r.problems...)
		specs, from = append(specs, r.spec), append(from, r.sources)
	}
	if problems != nil {
		return nil, nil, problems[:min(len(problems), maxProblems)]
	}
	return specs, from, nil
}

// check validates the job as a whole. It skips errors that only follow from an unreadable value. It checks
// nothing if the file contains no job.
func (r *reader) check() {
	err := r.complete()
	if err == nil {
		err = Valid(r.spec)
	}
	if err == nil {
		return
	}
	all := []error{err}
	if f := (*messages.FieldError)(nil); errors.As(err, &f) {
		all = nil
		for _, one := range f.All() {
			all = append(all, one)
		}
	}
	read := r.problems
	for _, err := range all {
		p := r.locate(err)
		follows := slices.ContainsFunc(read, func(known *Problem) bool {
			return known.Path == "" || known.Path == "kind" || within(p.Path, known.Path) || within(known.Path, p.Path)
		})
		if !follows && !r.full() {
			r.problems = append(r.problems, p)
		}
	}
	slices.SortStableFunc(r.problems, func(x, y *Problem) int {
		return cmp.Or(cmp.Compare(x.Line, y.Line), cmp.Compare(x.Column, y.Column))
	})
}

// within reports whether a path equals another path or is below it.
func within(path, whole string) bool {
	rest, is := strings.CutPrefix(path, whole)
	return is && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// jobFile returns the description of a job file's keys. It is a function for the same reason as sections.
func jobFile() fileKind {
	return fileKind{"a job file", "", "`apiVersion: synapse/v1` and `kind: Job`", sections()}
}

// complete sets the defaults of values that a file may omit.
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
	asked := slices.ContainsFunc([]string{"each.milli_gpu", "each.milli_cpu", "each.memory_bytes"}, func(f string) bool {
		_, is := r.where[f]
		return is
	})
	if g.Total == nil && !asked {
		each(r.spec).MilliCpu = messages.DefaultMilliCPU // the same default as for flags
	}
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

// place holds the position of a value in the file.
type place struct {
	path         string // spec.gang.replicas
	line, column int
}

func placeOf(path string, n *yaml.Node) place { return place{path, n.Line, n.Column} }

// locate translates an error of package messages into the names of the file. A missing value has no position,
// so locate uses the nearest part that contains it.
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

var digits = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`[0-9]+`)
})

// InUnits rewrites the numbers of an error in the units of the file. Package messages counts milliseconds and
// bytes.
func InUnits(field, text string) string {
	unit := field[strings.LastIndexByte(field, '_')+1:]
	if strings.HasSuffix(field, "_unix_ms") {
		unit = "unix_ms"
	}
	format := map[string]func(int64) string{
		"ms": FormatDuration, "unix_ms": FormatMoment, "bytes": FormatBytes, "cpu": FormatMilli, "gpu": FormatMilli,
	}[unit]
	counted := unit == "gpu" || unit == "cpu" // other texts about these name their unit
	if format == nil || counted && !strings.Contains(text, ", outside ") {
		return text
	}
	var all strings.Builder
	done := 0
	for _, at := range digits().FindAllStringIndex(text, -1) {
		n, err := strconv.ParseInt(text[at[0]:at[1]], 10, 64)
		if err == nil && bare(text[:at[0]], text[at[1]:]) {
			all.WriteString(text[done:at[0]] + format(n))
			done = at[1]
		}
	}
	return all.String() + text[done:]
}

// bare reports whether a number has no unit, judged by the text before and after it. Names, dates and
// durations such as 48h0m0s also contain digits, and must stay unchanged.
func bare(before, behind string) bool {
	before = strings.TrimSuffix(before, "-")
	said := before == "" || slices.ContainsFunc(
		[]string{"is", "outside", "to", "of", "than", "least", "most", "machine's,"},
		func(word string) bool { return strings.HasSuffix(" "+before, " "+word+" ") })
	ends := behind == "" || slices.ContainsFunc([]string{",", ": ", ";", ")", " to "},
		func(next string) bool { return strings.HasPrefix(behind, next) })
	return said && ends
}

// pathOf returns the path in the file for a field of package messages.
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
