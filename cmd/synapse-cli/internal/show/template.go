package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/fieldpath"
	"github.com/yi-json/synapse/messages"
)

// This file prints fields of objects that the user selects by paths, as kubectl does.

const (
	jsonPath      = "jsonpath="
	customColumns = "custom-columns="
	// TemplateFormats describes the formats that select fields.
	TemplateFormats = jsonPath + "TEMPLATE, " + customColumns + "HEAD:PATH,..."
	// missing stands for a field that an object does not have.
	missing = "<none>"
)

func (s *Style) isJSONPath() bool { return strings.HasPrefix(s.Format, jsonPath) }

// isTemplate reports whether the format selects fields.
func (s *Style) isTemplate() bool {
	return s.isJSONPath() || strings.HasPrefix(s.Format, customColumns)
}

// checkTemplate refuses a template or a list of columns that cannot be parsed.
func (s *Style) checkTemplate() error {
	var err error
	if template, is := strings.CutPrefix(s.Format, jsonPath); is {
		_, err = fieldpath.ParseTemplate(template)
	} else {
		_, err = parseColumns(strings.TrimPrefix(s.Format, customColumns))
	}
	if err != nil {
		return fmt.Errorf("-o %s: %w", s.Format, err)
	}
	return nil
}

// templated prints the text of a template for a JSON document.
func templated(w io.Writer, template string, document []byte) error {
	t, err := fieldpath.ParseTemplate(template)
	if err != nil {
		return err
	}
	value, err := generic(document)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, t.Text(value))
	return err
}

// generic decodes a JSON document. Numbers keep their text.
func generic(document []byte) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	err = decoder.Decode(&value)
	return value, err
}

// genericOf returns an object as the JSON value that -o json shows.
func genericOf(object any) (any, error) {
	var b bytes.Buffer
	if err := document(&b, "json", object); err != nil {
		return nil, err
	}
	return generic(b.Bytes())
}

// customColumn is a column that a user has defined.
type customColumn struct {
	head string
	path fieldpath.Path
}

// parseColumns parses columns such as NAME:.metadata.name,PHASE:.status.phase.
func parseColumns(text string) (all []customColumn, err error) {
	for _, one := range strings.Split(text, ",") {
		head, path, ok := strings.Cut(one, ":")
		if !ok || head == "" || path == "" {
			return nil, fmt.Errorf("column %q is not HEAD:PATH, such as NAME:.metadata.name", one)
		}
		c := customColumn{head: head}
		if c.path, err = fieldpath.ParsePath(strings.Trim(path, "{}")); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// customTable prints one row per object with the columns that the user has defined.
func customTable(w io.Writer, s Style, objects []any) error {
	custom, err := parseColumns(strings.TrimPrefix(s.Format, customColumns))
	if err != nil {
		return err
	}
	var columns []column[any]
	for _, c := range custom {
		columns = append(columns, column[any]{head: c.head, cell: func(value any) string {
			found := c.path.Values(value)
			if text := fieldpath.TextOf(found, ","); text != "" {
				return messages.OneLine(text)
			}
			return missing
		}})
	}
	rows := make([]any, len(objects))
	for i, o := range objects {
		if rows[i], err = genericOf(o); err != nil {
			return err
		}
	}
	s.Format = "wide" // no column is cut
	return table(w, s, columns, rows)
}

// CheckPath refuses a path that cannot be parsed.
func CheckPath(path string) error {
	_, err := fieldpath.ParsePath(strings.Trim(path, "{}"))
	return err
}

// sortBy sorts objects by a field, as -o json shows them.
func sortBy[T any](list []T, path string, object func(T) any) error {
	p, err := fieldpath.ParsePath(strings.Trim(path, "{}"))
	if err != nil {
		return err
	}
	type keyed struct {
		one T
		key []any
	}
	all := make([]keyed, len(list))
	for i, one := range list {
		value, err := genericOf(object(one))
		if err != nil {
			return err
		}
		all[i] = keyed{one, p.Values(value)}
	}
	slices.SortStableFunc(all, func(a, b keyed) int { return fieldpath.Compare(a.key, b.key) })
	for i := range all {
		list[i] = all[i].one
	}
	return nil
}

// SortJobsBy sorts jobs by a field of their objects.
func SortJobsBy(list []*messages.JobStatus, path string, nowMs int64) error {
	return sortBy(list, path, func(j *messages.JobStatus) any { return jobObject(j, nowMs) })
}

// SortNodesBy sorts nodes by a field of their objects.
func SortNodesBy(list []*messages.NodeStatus, path string) error {
	return sortBy(list, path, func(n *messages.NodeStatus) any { return nodeObject(n) })
}

// JobField returns the text of a field of a job, as -o jsonpath shows it.
func JobField(j *messages.JobStatus, path string) (string, error) {
	p, err := fieldpath.ParsePath(strings.Trim(path, "{}"))
	if err != nil {
		return "", err
	}
	value, err := genericOf(jobObject(j, 0))
	if err != nil {
		return "", err
	}
	return fieldpath.TextOf(p.Values(value), " "), nil
}
