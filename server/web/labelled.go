package web

import (
	"net/http"
	"strings"

	"github.com/yi-json/synapse/messages"
)

// This file filters jobs by labels. The server compares the labels, because labels are never sent to a browser.

// maxLabelled limits the jobs in one answer.
const maxLabelled = 20_000

// labelled returns the IDs of the jobs that have all of these labels.
func (p *Page) labelled(r *http.Request) (any, error) {
	var labels []*messages.Label
	for one := range strings.SplitSeq(r.URL.Query().Get("label"), ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(one), "=")
		if !ok || key == "" {
			return nil, &mistake{text: "label: write KEY=VALUE, such as team=vision"}
		}
		labels = append(labels, &messages.Label{Key: key, Value: value})
	}
	if len(labels) > messages.MaxLabels {
		return nil, &mistake{text: "label: too many labels"}
	}
	ids, after := []string{}, ""
	for {
		reply, err := asked(r).ListJobs(r.Context(), &messages.ListJobs{Labels: labels, Elements: true, Limit: waitingPage,
			After: after})
		if err != nil {
			return nil, err
		}
		for _, j := range reply.GetJobs() {
			ids = append(ids, j.GetRecord().GetId())
		}
		if after = reply.GetNext(); after == "" || len(ids) >= maxLabelled {
			return ids, nil
		}
	}
}
