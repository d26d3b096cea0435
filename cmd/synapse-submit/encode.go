package main

import (
	"bytes"
	"encoding/hex"
)

// This file writes the JSON of requests. The JSON library of Go would be a tenth of the program.

// object writes the fields of a JSON object. Fields with a zero value are left out.
type object struct{ bytes.Buffer }

func (o *object) key(name string) {
	if o.Len() > 0 && !bytes.HasSuffix(o.Bytes(), []byte("{")) {
		o.WriteByte(',')
	}
	o.WriteString(`"` + name + `":`)
}

func (o *object) text(name, value string) {
	if value != "" {
		o.key(name)
		o.quote(value)
	}
}

func (o *object) flag(name string, value bool) {
	if value {
		o.key(name)
		o.WriteString("true")
	}
}

// whole writes the complete object.
func (o *object) whole(fields func(*object)) {
	o.WriteByte('{')
	fields(o)
	o.WriteByte('}')
}

// texts writes a list of strings.
func (o *object) texts(name string, values []string) {
	if len(values) == 0 {
		return
	}
	o.key(name)
	for i, value := range values {
		o.WriteByte("[,"[min(i, 1)])
		o.quote(value)
	}
	o.WriteByte(']')
}

// quote writes a string. The text is UTF-8.
func (o *object) quote(text string) {
	o.WriteByte('"')
	for _, c := range []byte(text) {
		switch {
		case c == '"' || c == '\\':
			o.Write([]byte{'\\', c})
		case c == '\n':
			o.WriteString(`\n`)
		case c < ' ':
			o.WriteString(`\u00` + hex.EncodeToString([]byte{c}))
		default:
			o.WriteByte(c)
		}
	}
	o.WriteByte('"')
}
