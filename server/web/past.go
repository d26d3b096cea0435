package web

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/yi-json/synapse/server/api"
)

// This file answers a page's requests for the timeline. The answer is passed on as it arrives: lines of a recording
// or sums, and then the time up to which they are complete. The page reads it as one JSON document.

// past answers for a time range. With a step, it returns sums.
func (p *Page) past(w http.ResponseWriter, r *http.Request) {
	var n [3]int64
	for i, key := range []string{"at", "until", "step"} {
		text := r.URL.Query().Get(key)
		if text == "" && key == "step" {
			continue
		}
		var err error
		if n[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			p.refuse(w, &mistake{text: key + " is not a number"})
			return
		}
	}
	if !p.take() {
		http.Error(w, "too many pages are open: close one", http.StatusTooManyRequests)
		return
	}
	defer p.give()
	from, err := asked(r).ReadPast(r.Context(), &api.ReadPast{AtUnixMs: n[0], UntilUnixMs: n[1], StepMs: n[2]})
	var part *api.PastPart
	if err == nil {
		part, err = from.Recv()
	}
	if err != nil {
		p.refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	a := &pastAnswer{to: w, patience: p.patience}
	a.write(fmt.Sprintf(`{"since":%d,"record":[`, part.GetSinceUnixMs()))
	last := int64(0)
	for a.err == nil {
		a.lines(part.GetLines())
		last = max(last, part.GetUntilUnixMs())
		if part, err = from.Recv(); err != nil {
			break
		}
	}
	if errors.Is(err, io.EOF) { // an interrupted answer is not valid JSON, so the page detects it
		a.write(fmt.Sprintf(`],"until":%d}`, last))
	}
}

// pastAnswer writes an answer to a browser that may read slowly.
type pastAnswer struct {
	to       http.ResponseWriter
	patience time.Duration
	begun    bool
	err      error
}

func (a *pastAnswer) write(text string) {
	if a.err == nil {
		_ = http.NewResponseController(a.to).SetWriteDeadline(time.Now().Add(a.patience)) // or the writer has no deadlines
		_, a.err = io.WriteString(a.to, text)
	}
}

// lines writes lines as elements of a list.
func (a *pastAnswer) lines(text []byte) {
	for at := 0; at < len(text); {
		end := at
		for end < len(text) && text[end] != '\n' {
			end++
		}
		if a.begun {
			a.write(",")
		}
		a.write(string(text[at:end]))
		a.begun, at = true, end+1
	}
}
