package slurmrest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// This file reads the values of fields. Like Slurm, it accepts a number as text, a plain number instead of a structure
// with set and infinite, and a text with commas instead of a list.

// infinite is the text of a count without a limit.
const infinite = "UNLIMITED"

// value is the value of a field.
type value struct {
	text string   // of a list: joined with commas
	list []string // of kind words
	set  bool     // it is not null, empty, false, 0 or a count that is not set
}

// structure is Slurm's form of a number that may be unset.
type structure struct {
	Set      *bool       `json:"set"`
	Infinite bool        `json:"infinite"`
	Number   json.Number `json:"number"`
}

// read returns a value, or what its form should be.
func read(k valueKind, raw json.RawMessage) (value, string) {
	raw = bytes.TrimSpace(raw)
	if string(raw) == "null" {
		return value{}, ""
	}
	switch k {
	case words:
		return readWords(raw)
	case integer:
		n, ok := number(raw)
		return value{text: n, set: n != "0"}, wrong(ok, "a whole number")
	case count:
		return readCount(raw)
	case boolean:
		return readBoolean(raw)
	case other:
		empty := string(raw) == "{}" || string(raw) == "[]" || string(raw) == `""`
		return value{text: string(raw), set: !empty}, ""
	}
	if n, ok := number(raw); ok {
		return value{text: n, set: true}, ""
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return value{text: s, set: s != ""}, wrong(err == nil, "a text")
}

func wrong(ok bool, form string) string {
	if ok {
		return ""
	}
	return form
}

// number returns a whole number, which may be in quotes.
func number(raw json.RawMessage) (string, bool) {
	n, err := strconv.ParseInt(strings.Trim(string(raw), `"`), 10, 64)
	return strconv.FormatInt(n, 10), err == nil
}

func readWords(raw json.RawMessage) (value, string) {
	var list []string
	if raw[0] == '"' {
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return value{}, "a list of texts"
		}
		if s != "" {
			list = strings.Split(s, ",")
		}
		return value{text: s, list: list, set: s != ""}, ""
	}
	if json.Unmarshal(raw, &list) != nil {
		return value{}, "a list of texts"
	}
	return value{text: strings.Join(list, ","), list: list, set: len(list) > 0}, ""
}

func readCount(raw json.RawMessage) (value, string) {
	if n, ok := number(raw); ok {
		return value{text: n, set: true}, ""
	}
	const form = `a number, or {"set": true, "infinite": false, "number": 1}`
	if s := strings.Trim(string(raw), `"`); strings.EqualFold(s, infinite) || strings.EqualFold(s, "INFINITE") {
		return value{text: infinite, set: true}, ""
	}
	var s structure
	in := json.NewDecoder(bytes.NewReader(raw))
	in.DisallowUnknownFields()
	if raw[0] != '{' || in.Decode(&s) != nil {
		return value{}, form
	}
	switch {
	case s.Infinite:
		return value{text: infinite, set: true}, ""
	case s.Set != nil && !*s.Set || s.Number == "":
		return value{}, ""
	}
	n, ok := number(json.RawMessage(s.Number))
	return value{text: n, set: true}, wrong(ok, form)
}

func readBoolean(raw json.RawMessage) (value, string) {
	switch s := strings.ToLower(strings.Trim(string(raw), `"`)); s {
	case "true", "yes", "1":
		return value{text: "true", set: true}, ""
	case "false", "no", "0", "":
		return value{text: "false"}, ""
	}
	return value{}, "true or false"
}

// named returns the type of a JSON value in the words of Slurm's warnings.
func named(raw json.RawMessage) string {
	switch c := bytes.TrimSpace(raw)[0]; {
	case c == '"':
		return "string"
	case c == '{':
		return "dictionary"
	case c == '[':
		return "list"
	case c == 't' || c == 'f':
		return "boolean"
	case c == 'n':
		return "null"
	}
	return "integer"
}

// object reads a JSON object, and refuses a repeated name: which of the values counts would depend on the reader.
func object(raw json.RawMessage) (map[string]json.RawMessage, error) {
	in := json.NewDecoder(bytes.NewReader(raw))
	if token, err := in.Token(); err != nil || token != json.Delim('{') {
		return nil, fmt.Errorf("is no JSON object")
	}
	all := map[string]json.RawMessage{}
	for in.More() {
		token, err := in.Token()
		name, is := token.(string)
		var of json.RawMessage
		if err == nil && is {
			err = in.Decode(&of)
		}
		switch {
		case err != nil || !is:
			return nil, fmt.Errorf("is not valid JSON: %v", err)
		case all[name] != nil:
			return nil, fmt.Errorf("contains the field %q twice", name)
		}
		all[name] = of
	}
	if _, err := in.Token(); err != nil {
		return nil, fmt.Errorf("is not valid JSON: %v", err)
	}
	if _, err := in.Token(); err != io.EOF {
		return nil, fmt.Errorf("has text after the JSON object")
	}
	return all, nil
}
