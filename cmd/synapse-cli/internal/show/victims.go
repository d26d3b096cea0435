package show

import (
	"fmt"
	"strings"

	"github.com/yi-json/synapse/messages"
)

// This file prints jobs that are stopped for other jobs.

// describedVictims limits the number of printed jobs.
const describedVictims = 8

// victims lists the jobs that are stopped for a job, with the rule and the cost.
func victims(all []*messages.Victim) string {
	if len(all) == 0 {
		return ""
	}
	var parts []string
	lost := int64(0)
	for i, v := range all {
		if lost += v.GetLostMilliGpuSeconds(); i < describedVictims {
			parts = append(parts, fmt.Sprintf("%s (%s)", v.GetJob(), ruleWords(v.GetRule())))
		}
	}
	if more := len(all) - describedVictims; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%s; at most %s GPU-hours of work are lost", strings.Join(parts, ", "), messages.GPUHours(lost))
}

func ruleWords(r messages.PreemptionRule) string {
	switch r {
	case messages.PreemptionRule_PREEMPTION_RULE_RECLAIM:
		return "above its queue's quota"
	case messages.PreemptionRule_PREEMPTION_RULE_SHORTEST:
		return "much longer"
	}
	return "of lower priority"
}

// victim holds one such job for programs. Rule is priority, reclaim or shortest.
type victim struct {
	Job                 string `json:"job"`
	Rule                string `json:"rule"`
	LostMilliGPUSeconds int64  `json:"lostMilliGpuSeconds"`
}

func victimObjects(all []*messages.Victim) (objects []victim) {
	for _, v := range all {
		objects = append(objects, victim{v.GetJob(), messages.Word(v.GetRule().String(), "PREEMPTION_RULE_"),
			v.GetLostMilliGpuSeconds()})
	}
	return objects
}
