package show

import (
	"encoding/json"
	"io"

	"github.com/yi-json/synapse/messages"
)

// This file prints changes, one line each.

type eventObj struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Seq        uint64 `json:"seq"`
	At         string `json:"at"`
	Job        string `json:"job,omitempty"`
	Machine    string `json:"node,omitempty"`
	Group      uint64 `json:"group,omitempty"` // all waiting jobs of this group
	Phase      string `json:"phase"`
	Gone       bool   `json:"gone,omitempty"`
	Text       string `json:"text"`

	Progress *progress `json:"progress,omitempty"` // of the job, if it has changed
}

// Event prints one change. In JSON, each object is on one line.
func Event(w io.Writer, s Style, e *messages.Event) error {
	if s.Format == "json" || s.Format == "yaml" {
		return eventObject(w, s.Format, e)
	}
	phase := phaseOf(e)
	s.NowMs = e.GetAtUnixMs() // the text was written then
	at := s.local(stamp(s.NowMs))
	text := s.local(oneLine(e.GetText()))
	if s.Width > 0 {
		text = cut(text, s.Width-len(at)-len(gap))
	}
	if s.Colour {
		text = painted(text, phaseColour(phase))
	}
	_, err := io.WriteString(w, at+gap+text+"\n")
	return err
}

func eventObject(w io.Writer, format string, e *messages.Event) error {
	o := eventObj{
		APIVersion: "synapse/v1", Kind: "Event", Seq: e.GetSeq(), At: stamp(e.GetAtUnixMs()),
		Job:     e.GetJob().GetRecord().GetId(),
		Machine: e.GetNode().GetRecord().GetId(), Group: max(e.GetGroup(), e.GetJob().GetGroup()), Phase: phaseOf(e),
		Gone: e.GetHidden(), Text: e.GetText(), Progress: progressObject(e.GetJob().GetProgress()),
	}
	if o.Text == "" && o.Progress != nil {
		o.Text = "job " + o.Job + ": " + messages.ProgressWords(e.GetJob().GetProgress())
	}
	if format == "yaml" {
		if _, err := io.WriteString(w, "---\n"); err != nil {
			return err
		}
		return document(w, format, o)
	}
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

func phaseOf(e *messages.Event) string {
	if e.GetGroup() != 0 {
		return "queued"
	}
	return e.GetJob().GetPhase() + e.GetNode().GetPhase()
}
