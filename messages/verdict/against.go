package verdict

import "github.com/yi-json/synapse/messages"

// This file decides which verdicts count against nodes.

// AgainstNode reports whether the verdict on an attempt counts against a node. Operators remove nodes, and a task that
// cannot be prepared or launched may be the job's fault, so these ends do not count.
func AgainstNode(a *messages.AttemptRecord) bool {
	v := a.GetVerdict()
	if v.GetNode() == "" || v.Charged {
		return false
	}
	switch a.GetEnd().GetCause() {
	case messages.Cause_CAUSE_MEMBER_FAILED, messages.Cause_CAUSE_MACHINE_LOST, messages.Cause_CAUSE_REBOOTED,
		messages.Cause_CAUSE_GPU_FAULT, messages.Cause_CAUSE_UNWELL:
	default:
		return false
	}
	switch v.Class {
	case messages.FailureClass_FAILURE_CLASS_NODE, messages.FailureClass_FAILURE_CLASS_GPU,
		messages.FailureClass_FAILURE_CLASS_NETWORK, messages.FailureClass_FAILURE_CLASS_STORAGE:
		return true
	}
	return false
}
