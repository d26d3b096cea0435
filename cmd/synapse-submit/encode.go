package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/cmd/internal/sbatch"
	"github.com/yi-json/synapse/messages/plain"
)

// This file writes the JSON of a submit, and reads the ID of the job from the answer. The JSON library of Go would be a
// tenth of the program.

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

func (o *object) number(name string, value int64) {
	if value != 0 {
		o.key(name)
		o.WriteString(strconv.FormatInt(value, 10))
	}
}

func (o *object) flag(name string, value bool) {
	if value {
		o.key(name)
		o.WriteString("true")
	}
}

// in writes a field that is an object.
func (o *object) in(name string, fields func(*object)) {
	o.key(name)
	o.WriteByte('{')
	fields(o)
	o.WriteByte('}')
}

// pairs writes a list of objects with two fields.
func (o *object) pairs(name, first, second string, values [][2]string) {
	if len(values) == 0 {
		return
	}
	o.key(name)
	for i, v := range values {
		o.WriteByte("[,"[min(i, 1)])
		o.WriteByte('{')
		o.text(first, v[0])
		o.text(second, v[1])
		o.WriteByte('}')
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
		case c < ' ':
			o.WriteString(`\u00` + hex.EncodeToString([]byte{c}))
		default:
			o.WriteByte(c)
		}
	}
	o.WriteByte('"')
}

// encoded returns the request that submits a job.
func encoded(j *sbatch.Job, id string, hold bool) []byte {
	var o object
	o.WriteByte('{')
	o.text("request_id", id)
	o.flag("hold", hold)
	o.in("spec", func(o *object) {
		o.text("queue", j.Queue)
		o.text("name", j.Name)
		o.text("title", j.Title)
		o.text("user", j.User)
		o.text("gpu_type", j.GPUType)
		o.text("submit_dir", j.SubmitDir)
		o.number("priority", int64(j.Priority))
		o.flag("priority_zero", j.PriorityZero)
		o.number("time_limit_ms", j.TimeLimitMs)
		o.text("image", plain.HostImage)
		o.text("launcher", "LAUNCH_SLURM")
		o.in("gang", func(o *object) {
			o.number("replicas_min", j.Shape.Gang)
			o.number("replicas_max", j.Shape.Gang)
			o.flag("apart", j.Shape.Apart)
		})
		o.in("each", func(o *object) {
			o.number("milli_cpu", j.Each.MilliCPU)
			o.number("milli_gpu", j.Each.MilliGPU)
			o.number("memory_bytes", j.Each.MemoryBytes)
		})
		o.pairs("labels", "key", "value", j.Labels)
		o.pairs("env", "name", "value", j.Env)
		if j.Never {
			o.in("restart", func(o *object) { o.flag("never", true) })
		}
		o.in("script", func(o *object) { o.script(j) })
	})
	o.WriteByte('}')
	return o.Bytes()
}

func (o *object) script(j *sbatch.Job) {
	sum := sha256.Sum256(j.Script)
	o.text("name", "sbatch")
	o.text("digest", hex.EncodeToString(sum[:]))
	o.number("size_bytes", int64(len(j.Script)))
	o.text("text", base64.StdEncoding.EncodeToString(j.Script))
	if len(j.Args) == 0 {
		return
	}
	o.key("args")
	for i, arg := range j.Args {
		o.WriteByte("[,"[min(i, 1)])
		o.quote(arg)
	}
	o.WriteByte(']')
}

// jobOf returns the ID in the answer to an accepted submit: {"outcome":{"code":"CODE_OK",…},"job":"ID"}. It reports
// false for every other text.
func jobOf(answer []byte) (id string, ok bool) {
	text := strings.Join(strings.Fields(string(answer)), "")
	at := strings.LastIndex(text, `},"job":"`)
	if at < 0 || !strings.HasPrefix(text, `{"outcome":{"code":"CODE_OK"`) {
		return "", false
	}
	id, ends := strings.CutSuffix(text[at+len(`},"job":"`):], `"}`)
	return id, ends && id != "" && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}
