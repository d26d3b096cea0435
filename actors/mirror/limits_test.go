package mirror

import (
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/policy/share"
)

// TestLimitIsNamed checks a job that waits for its queue's limit. Every view names the limit and the fix, not missing
// capacity. When the limit no longer blocks the job, the job gets an event.
func TestLimitIsNamed(t *testing.T) {
	a := newAudience()
	queued(a, "j", "k")
	over := share.Over{Queue: "nlp", What: share.AmountGPU, Has: 8000, Most: 12_000, Asks: 8000}
	shown := promiseTo(false, 0, 0)
	shown.Lines[0].Over, shown.Lines[0].Share = over.Words(), "nlp uses 8 of its quota of 16"
	shown.Lines[0].Limit = over.Short()
	a.says("", shown)
	const limit = "nlp uses 8 of at most 12 gpu, and this job requests 8: it starts when enough jobs of this queue end"
	job := ask(a.Mirror, &messages.GetJob{Job: "j"}).(*messages.GetJobReply).Job
	if job.Reason != "QueueLimit: nlp uses 8 of 12 GPUs" || job.Group != 0 ||
		!strings.HasPrefix(job.GetProspect().GetWhy(), limit) {
		t.Errorf("reason is %q, group %d, and no time because %q", job.Reason, job.Group,
			job.GetProspect().GetWhy())
	}
	said := ask(a.Mirror, &messages.ExplainJob{Job: "k"}).(*messages.ExplainJobReply).Text
	if !strings.Contains(said, limit) || !strings.Contains(said, "nlp uses 8 of its quota of 16") {
		t.Errorf("explanation is %q", said)
	}
	counted := 0
	for _, n := range a.onCountAll().Waiting[messages.WaitQueueLimit] {
		counted += n
	}
	if counted != 2 {
		t.Errorf("%d of two are counted", counted)
	}
	before := a.watch.seq
	over.Has = 9000
	shown.Lines = []policy.InLine{shown.Lines[0]}
	shown.Lines[0].Over = over.Words()
	if a.says("", shown); a.watch.seq != before {
		t.Error("usage of other jobs causes an event")
	}
	shown.Lines = []policy.InLine{{Burst: 7, Why: policy.Withholdings}}
	a.says("", shown)
	job = ask(a.Mirror, &messages.GetJob{Job: "j"}).(*messages.GetJobReply).Job
	if job.Reason != "Resources: needs 8 GPUs" || job.Group == 0 || a.watch.seq != before+2 {
		t.Errorf("without the limit the reason is %q, and there are %d events", job.Reason, a.watch.seq-before)
	}
}
