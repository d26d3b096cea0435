package intake

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/yi-json/synapse/messages"
)

// This file owns which queues a job may come into: where queues are described, those and no others. A queue that is not
// described any more is closed, and takes nothing new.

// maxNamed is how many queues are named to who meant one of them.
const maxNamed = 20

// noQueue is the answer to a job of a queue that is not described; nil: it is, or nobody has described any.
func (c *Check) noQueue(spec *messages.JobSpec) *messages.SubmitReply {
	tree := c.Tree
	if tree == nil {
		return nil
	}
	name := cmp.Or(spec.GetQueue(), tree.Default)
	if tree.Find(name) >= 0 {
		return nil
	}
	text := fmt.Sprintf("%q is not a queue here", name)
	if name == "" {
		text = "no queue is named, and none is the default"
	}
	names := tree.Names()
	hint := "there are " + strings.Join(names[:min(len(names), maxNamed)], ", ")
	if len(names) > maxNamed {
		hint += " and more"
	}
	return Reply("", messages.Code_CODE_INVALID, "spec.queue", text, hint)
}
