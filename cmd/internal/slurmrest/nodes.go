package slurmrest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/yi-json/synapse/cmd/internal/slurm"
	"github.com/yi-json/synapse/cmd/internal/slurm/query"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file serves nodes, partitions and the state of the scheduler.

// machines returns the node with a name, or all nodes.
func (q *exchange) machines(name string) ([]*slurm.Machine, error) {
	var names []string
	if name != "" {
		names = []string{name}
	}
	all, missing, err := query.Machines(q.ctx, q.c, names)
	if missing != "" {
		return nil, &problem{status: http.StatusNotFound, number: invalidNode, source: "_dump_nodes",
			description: "Failure to query node " + missing}
	}
	return all, err
}

// nodes returns one node, or all nodes.
func (q *exchange) nodes(name string) error {
	done, err := q.list()
	if err != nil {
		return err
	}
	defer done()
	all, err := q.machines(name)
	if err != nil {
		return err
	}
	every := all
	if name != "" {
		if every, err = q.machines(""); err != nil {
			return err
		}
	}
	partitions, err := query.Partitions(q.ctx, q.c, every, "", query.WholePartition)
	if err != nil {
		return err
	}
	return stream(q, "nodes", all, shaped(q.version, ofNode, func(m *slurm.Machine) map[string]any {
		return m.Object(query.PartitionsOf(m, partitions))
	}), q.updated())
}

// partitions returns one partition, or all partitions.
func (q *exchange) partitions(name string) error {
	done, err := q.list()
	if err != nil {
		return err
	}
	defer done()
	nodes, err := q.machines("")
	if err != nil {
		return err
	}
	all, err := query.Partitions(q.ctx, q.c, nodes, "", query.WholePartition)
	if err != nil {
		return err
	}
	if name != "" {
		if all = slices.DeleteFunc(all, func(p *slurm.Partition) bool { return p.Name != name }); len(all) == 0 {
			return &problem{status: http.StatusNotFound, number: invalidPartition, source: "_dump_part",
				description: "Unable to find partition " + name}
		}
	}
	return stream(q, "partitions", all, shaped(q.version, ofPartition, (*slurm.Partition).Object), q.updated())
}

// reservations answers that there are none.
func (q *exchange) reservations(string) error {
	keys := q.updated()
	keys["reservations"] = []any{}
	return q.answer(keys)
}

// ping returns whether a scheduler leads. A standby scheduler answers the request itself.
func (q *exchange) ping(string) error {
	began := q.o.Now()
	_, err := q.c.GetQueues(q.ctx, &messages.GetQueues{})
	if p := (*problem)(nil); err != nil {
		if p = problemOf(err); p.number != noController {
			return err
		}
	}
	return q.answer(map[string]any{"pings": []any{slurm.Ping(q.o.Host, err == nil, q.o.Now().Sub(began).Microseconds())}})
}

// diag returns the numbers of jobs. The other statistics are 0, because they describe parts of slurmctld.
func (q *exchange) diag(string) error {
	done, err := q.list()
	if err != nil {
		return err
	}
	defer done()
	jobs, err := q.c.Jobs(q.ctx, &messages.ListJobs{Elements: true})
	if err != nil {
		return err
	}
	counts := map[string]int{}
	for _, j := range jobs {
		if j.GetRecord().GetSpec().GetArray() == nil {
			counts[slurm.Of(j, q.o.Now().UnixMilli()).State]++
		} else {
			counts["PENDING"] += int(j.GetCounts().GetWaiting())
		}
	}
	return q.answer(map[string]any{"statistics": slurm.Statistics(counts, q.o.Now().Unix())})
}

// nodeVerbs maps Slurm's states that an operator sets to changes of a node. Slurm's drain lets running jobs continue,
// which is a cordon here.
var nodeVerbs = map[string]messages.NodeVerb{
	"DRAIN": messages.NodeVerb_NODE_VERB_CORDON, "RESUME": messages.NodeVerb_NODE_VERB_UNCORDON,
	"UNDRAIN": messages.NodeVerb_NODE_VERB_UNCORDON,
}

// changeNode closes or opens a node: {"state": ["DRAIN"], "reason": TEXT}.
func (q *exchange) changeNode(name string) error {
	change, err := parsed(q, api.Synapse_ChangeNode_FullMethodName, nodeChangeOf)
	if err != nil {
		return err
	}
	if _, err := q.machines(name); err != nil {
		return err
	}
	change.Node = name
	if _, err := q.c.ChangeNode(q.ctx, change); err != nil {
		return err
	}
	return q.answer(nil)
}

// nodeChangeOf reads the change of a node.
func nodeChangeOf(body []byte) (*messages.ChangeNode, error) {
	all, err := object(body)
	if err != nil {
		return nil, &problem{number: failParsing, source: "#/", description: "the request " + err.Error()}
	}
	wrong := func(field, text string) error {
		return &problem{number: failParsing, source: "#/" + field + "/", description: field + " " + text}
	}
	var state, reason value
	for name, raw := range all { //order: each field is independent
		form := ""
		switch name {
		case "state":
			state, form = read(words, raw)
		case "reason":
			reason, form = read(text, raw)
		default:
			var v any
			if json.Unmarshal(raw, &v) == nil && v != nil {
				return nil, wrong(messages.OneLine(name), "cannot be changed: only state and reason can")
			}
		}
		if form != "" {
			return nil, wrong(name, "is not "+form)
		}
	}
	verb, known := nodeVerbs[strings.ToUpper(state.text)]
	switch {
	case !known:
		return nil, wrong("state", "must be DRAIN, RESUME or UNDRAIN")
	case verb == messages.NodeVerb_NODE_VERB_CORDON && reason.text == "":
		return nil, wrong("reason", "is missing: DRAIN needs a reason")
	case reason.text == "":
		reason.text = "REST"
	}
	return &messages.ChangeNode{Verb: verb, Reason: reason.text}, nil
}
