package main

import (
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// This file tests the completion of jobs, elements, nodes, labels and queues.

// TestCompleteByName checks that jobs are completed by name and by ID, with their phase and owner.
func TestCompleteByName(t *testing.T) {
	f := startFake(t)
	put := func(id, name, phase, owner string, state messages.JobState) *messages.JobStatus {
		j := job(id, phase, state)
		j.Record.Spec.Name, j.Record.Owner = name, &messages.Principal{Name: owner}
		f.put(j)
		return j
	}
	const queued, active = messages.JobState_JOB_STATE_QUEUED, messages.JobState_JOB_STATE_ACTIVE
	put("jaa1", "train", "running", "ann", active)
	put("jbb1", "jazz", "queued", "bob", queued)
	put("jcc1", "twin", "queued", "bob", queued)
	put("jdd1", "twin", "succeeded", "ann", messages.JobState_JOB_STATE_SUCCEEDED)
	array := put("jee1", "sweep", "queued", "eve", queued)
	array.Record.Spec.Array = &messages.ArraySpec{Indices: []*messages.IndexRange{{First: 8, Last: 11}}}
	put("jee1_9", "", "running", "eve", active)
	const end = ":4\n"
	for line, want := range map[string]string{
		"describe job tr": "train\trunning, ann, jaa1\n" + end,
		"cancel ja":       "jazz\tqueued, bob, jbb1\njaa1\trunning, ann, train\n" + end,
		"logs job/tr":     "job/train\trunning, ann, jaa1\n" + end,
		"cancel jc":       "jcc1\tqueued, bob, twin\n" + end,
		"cancel jd":       end, // it has ended
		"get job jd":      "jdd1\tsucceeded, ann, twin\n" + end,
		"cancel train tr": end, // it is already named
		"cancel sweep_1":  "sweep_10\tqueued, eve\nsweep_11\tqueued, eve\n" + end,
		"cancel sweep_9":  "sweep_9\trunning, eve\n" + end,
		"logs jee1_1":     "jee1_10\tqueued, eve\njee1_11\tqueued, eve\n" + end,
	} {
		r := cli(f.address, append([]string{"__complete"}, strings.Fields(line)...)...)
		if r.code != 0 || r.out != want {
			t.Errorf("%s:\n%s\nwant:\n%s", line, r.out, want)
		}
	}
	r := cli(f.address, "__complete", "cancel", "")
	for _, word := range []string{"train\t", "jazz\t", "sweep\t", "twin\t"} {
		if !strings.Contains(r.out, word) || strings.Contains(r.out, "jaa1\t") {
			t.Errorf("without a prefix:\n%s", r.out)
		}
	}
	cli(f.address, "__complete", "get", "jobs", "--owner", "").wants(t, 0, "ann\t2 jobs\nbob\t2 jobs\neve\t2 jobs\n", "")
}

// TestCompleteLabels checks that labels, nodes and queues are completed with data of the cluster.
func TestCompleteLabels(t *testing.T) {
	f := startFake(t)
	f.put(job("jaa1", "running", messages.JobState_JOB_STATE_ACTIVE))
	f.put(job("jbb1", "queued", messages.JobState_JOB_STATE_QUEUED))
	busy := machine("n1")
	busy.Ledger = &messages.LedgerReport{Total: &messages.Resources{MilliGpu: 8000},
		Free: &messages.Resources{MilliGpu: 2500}}
	f.nodes = []*messages.NodeStatus{busy, machine("n2")}
	f.queues = &messages.GetQueuesReply{Usage: []*messages.QueueUsage{{Queue: "nlp", Running: 3, Waiting: 1}}}
	for line, want := range map[string]string{
		"cancel -l te":            "team=nlp\t2 jobs\n",
		"get jobs -l team=nlp,te": "team=nlp,team=nlp\t2 jobs\n",
		"drain -l ":               "pool=a\t2 nodes\nrack=r1\t2 nodes\n",
		"get nodes -l ra":         "rack=r1\t2 nodes\n",
		"submit --node-selector ": "pool=a\t2 nodes\n",
		"submit --queue ":         "nlp\t3 running, 1 waiting\n",
		"describe queue n":        "nlp\t3 running, 1 waiting\n",
		"cordon n":                "n1\tup, 2.5 of 8 GPUs free\nn2\tup\n",
		"cordon n1 n":             "n2\tup\n:4\n",
		"wait --for con":          "condition=complete\n",
	} {
		words := append([]string{"__complete"}, strings.Fields(line)...)
		if strings.HasSuffix(line, " ") {
			words = append(words, "")
		}
		cli(f.address, words...).wants(t, 0, want, "")
	}
}
