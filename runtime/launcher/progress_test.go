package launcher_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/test/able/pace"
)

// TestProgress checks that the progress that a task writes to the file and to its output reaches the actor, and that
// garbage is counted.
func TestProgress(t *testing.T) {
	r := newRig(t, room(t), nil)
	spec := script(`echo '{"step":3,"total":10,"loss":2.1}' >> "$SYNAPSE_PROGRESS"
		` + untilGo + `rm go; echo 'step 7/10'
		` + untilGo + `echo nonsense >> "$SYNAPSE_PROGRESS"; sleep 60`)
	spec.Progress = &messages.ProgressSpec{Pattern: `step (\d+)/(\d+)`}
	r.run(0, spec)
	first := reported(r, 3, 0)
	if first.Step != 3 || first.Total != 10 || first.ChangedNs == 0 || len(first.Metrics) != 1 ||
		first.Metrics[0].Value != "2.1" {
		t.Fatalf("the file gave %v", first)
	}
	letGo(t, r.dir, 0)
	if m := reported(r, 7, 0); m.Step != 7 || m.MilliRate <= 0 {
		t.Fatalf("the output gave %v", m)
	}
	letGo(t, r.dir, 0)
	if m := reported(r, 7, 1); m.Garbage != 1 || m.Step != 7 {
		t.Fatalf("nonsense gave %v", m)
	}
	r.tell(&messages.StopTask{Id: id(0)})
	r.gone(0)
}

// reported takes the message of rank 0 about a step. It skips messages about what the task does or uses.
func reported(r *rig, step, garbage int64) *messages.TaskProgress {
	r.t.Helper()
	return reportedBy(r, 0, step, garbage)
}

func reportedBy(r *rig, rank int32, step, garbage int64) *messages.TaskProgress {
	r.t.Helper()
	return toldBy(r, rank, func(m *messages.TaskProgress) bool {
		return m.State == nil && m.Use == nil || m.Step == step && m.Garbage == garbage
	})
}

// toldBy waits for the report of a task that is meant. A task reports what it uses every ten seconds, so each single
// wait would end.
func toldBy(r *rig, rank int32, meant func(*messages.TaskProgress) bool) *messages.TaskProgress {
	r.t.Helper()
	for end := pace.Until(time.Minute); ; {
		m := take[*messages.TaskProgress](r, rank)
		if meant(m) {
			return m
		}
		if time.Now().After(end) {
			r.t.Fatalf("rank %d reports only %v", rank, m)
		}
	}
}

// posted sends a request with a percentage to the endpoint of a task, as the protocol requires.
func posted(t *testing.T, url, token string, percent int) int {
	t.Helper()
	body := fmt.Sprintf(`{"trainerStatus":{"progressPercentage":%d}}`, percent)
	request, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	reply, err := (&http.Client{Timeout: soon}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	return reply.StatusCode
}

// TestKubeflow checks that a task finds the endpoint and its token, which only its user may read, and that its request
// reaches the actor. The next agent listens at the same address and recognizes the token. The token of a task that has
// ended is refused.
func TestKubeflow(t *testing.T) {
	dir := room(t)
	offer := func(o *launcher.Options) { o.Kubeflow = true }
	r := newRig(t, dir, offer)
	r.run(0, script(`echo "$KUBEFLOW_TRAINER_SERVER_URL" > url; echo "$KUBEFLOW_TRAINER_SERVER_TOKEN"
		grep -q CERTIFICATE "$KUBEFLOW_TRAINER_SERVER_CA_CERT" && mv url found; sleep 600`))
	take[*messages.TaskStarted](r, 0)
	scratch := filepath.Join(dir, "scratch", id(0).Key().String())
	eventually(t, "the task has found the endpoint", func() bool {
		_, err := os.Stat(filepath.Join(scratch, "found"))
		return err == nil
	})
	url, _ := os.ReadFile(filepath.Join(scratch, "found"))
	path := filepath.Join(scratch, "synapse-progress-token")
	token, err := os.ReadFile(path)
	info, wrong := os.Stat(path)
	if err != nil || wrong != nil || info.Mode() != 0o400 || len(token) != 64 {
		t.Fatalf("the token: %v %v %v", err, wrong, info)
	}
	at := strings.TrimSpace(string(url))
	if code := posted(t, at, string(token), 45); code != http.StatusOK {
		t.Fatal(code)
	}
	if m := reported(r, 45, 0); m.Step != 45 || m.Total != 100 {
		t.Fatalf("it arrived as %v", m)
	}
	r.l.Close()
	r = newRig(t, dir, offer)
	r.tell(&messages.AdoptTask{Id: id(0)})
	take[*messages.TaskStarted](r, 0)
	eventually(t, "the next agent knows the token", func() bool {
		return posted(t, at, string(token), 46) == http.StatusOK
	})
	if m := reported(r, 46, 0); m.Step != 46 {
		t.Fatalf("it arrived as %v", m)
	}
	r.tell(&messages.StopTask{Id: id(0)})
	r.gone(0)
	if code := posted(t, at, string(token), 47); code != http.StatusForbidden {
		t.Errorf("the answer to a task that has ended is %d", code)
	}
	off := script("env | grep -c KUBEFLOW; sleep 600")
	off.Progress = &messages.ProgressSpec{KubeflowOff: true}
	r.run(1, off)
	r.await(1, "0\n")
	r.tell(&messages.StopTask{Id: id(1)})
	r.gone(1)
}

// TestKubeflowTokenUnwritten checks that a task starts without the endpoint if its token cannot be written.
func TestKubeflowTokenUnwritten(t *testing.T) {
	dir := room(t)
	r := newRig(t, dir, func(o *launcher.Options) { o.Kubeflow = true })
	spec := script("env | grep -c KUBEFLOW; sleep 600")
	r.tell(prepareOf(0, spec))
	take[*messages.TaskPrepared](r, 0)
	blocked := filepath.Join(dir, "tasks", id(0).Key().String(), "progress.hash", "blocked")
	if err := os.MkdirAll(blocked, 0o700); err != nil {
		t.Fatal(err)
	}
	r.tell(startOf(0, spec))
	take[*messages.TaskStarted](r, 0)
	r.await(0, "0\n")
	r.tell(&messages.StopTask{Id: id(0)})
	r.gone(0)
}
