package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file owns that the progress of real processes reaches those who ask, from the file, the output and a request.

// trainer sends one request as the callback of the Hugging Face Trainer does, and writes when it was answered.
const trainer = `python3 -c '
import json, os, time, urllib.request
body = {"trainerStatus": {"progressPercentage": 45, "estimatedRemainingSeconds": 0, "metrics": [
  {"name": "current_step", "value": "2250"}, {"name": "total_steps", "value": "5000"}, {"name": "loss", "value": "0.15"}],
  "lastUpdatedTime": "2026-06-12T03:00:00.123456+00:00"}}
token = open(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read()
request = urllib.request.Request(os.environ["KUBEFLOW_TRAINER_SERVER_URL"], json.dumps(body).encode(),
  {"Authorization": "Bearer " + token, "Content-Type": "application/json"}, method="POST")
print("echoed", json.load(urllib.request.urlopen(request)) == body, int(time.time() * 1000), flush=True)
time.sleep(600)'`

// TestProgress: the percentage is shown within 2 s of a request, and soon after a line of the file or of the output. A
// leader that takes over shows it again.
func TestProgress(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1", "--cpus", "4")
	posts := c.order(trainer)
	seen := c.progressed(posts, 45)
	c.cli("get", "jobs").wants(t, 0, "45%", "")
	c.cli("describe", "job", posts).wants(t, 0, "2250 of 5000", "")
	var text string
	answered := func() bool {
		text = c.logs(posts)
		return strings.HasPrefix(text, "echoed True ") && strings.HasSuffix(text, "\n")
	}
	if !pace.Wait(pace.Of(20*time.Second), answered) { // the task prints it after the percentage is known
		t.Fatalf("it was answered %q", text)
	}
	var posted int64
	for _, digit := range strings.TrimSpace(strings.TrimPrefix(text, "echoed True ")) {
		posted = posted*10 + int64(digit-'0')
	}
	if took := seen.Sub(time.UnixMilli(posted)); took > 2*time.Second {
		t.Errorf("the percentage was shown %v after the request", took)
	}
	writes := c.order(`echo '{"step":30,"total":100,"loss":2.1}' >> "$SYNAPSE_PROGRESS"; sleep 600`)
	c.progressed(writes, 30)
	c.cli("describe", "job", writes).wants(t, 0, "loss 2.1", "")
	c.scheduler.kill()
	c.lead(c.address)
	c.progressed(posts, 45)
	c.progressed(writes, 30)
	c.cli("cancel", posts, writes).wants(t, 0, "", "")
}

// progressed waits until a job has reached a percentage, and returns when that was seen.
func (c *cluster) progressed(id string, percent int32) time.Time {
	c.t.Helper()
	c.until(id, "as far as that", func(s *messages.JobStatus) bool { return s.GetProgress().GetPercent() == percent })
	return time.Now()
}
