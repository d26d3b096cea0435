package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// This file tests the client API over HTTP, as a program without our libraries uses it.

// posted sends a request, and passes each line of the answer to take until it returns true.
func (c *cluster) posted(call, body string, take func(line string) (enough bool)) int {
	c.t.Helper()
	q, err := http.NewRequestWithContext(c.t.Context(), "POST", "http://"+c.address+"/v1/"+call, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	answer, err := (&http.Client{Timeout: 2 * time.Minute}).Do(q)
	if err != nil {
		c.t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if line := lines.Text(); line != "" && take(line) {
			return answer.StatusCode
		}
	}
	if err := lines.Err(); err != nil {
		c.t.Errorf("%s broke off: %v", call, err)
	}
	return answer.StatusCode
}

// TestHTTP submits a job, watches it until its end, reads its output, and runs an exec session in it, with only HTTP
// and JSON.
func TestHTTP(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1")
	var job string
	submit := func(line string) bool {
		var reply struct{ Job string }
		if json.Unmarshal([]byte(line), &reply) == nil {
			job = reply.Job
		}
		return false
	}
	spec := `{"request_id":"r1","spec":{"name":"plain","image":"host","gang":{"replicas_min":1,"replicas_max":1},` +
		`"each":{"milli_cpu":"100"},"command":["sh","-c","echo out; while [ ! -e $(dirname $SYNAPSE_HOSTFILE)/go ]; do sleep 0.02; done"]}}`
	if code := c.posted("Submit", spec, submit); code != 200 || job == "" {
		t.Fatalf("submitted: %d, job %q", code, job)
	}
	until := func(phase string) {
		t.Helper()
		last := ""
		c.posted("Watch", fmt.Sprintf(`{"jobs":true,"ids":[%q],"present":true}`, job), func(line string) bool {
			last = line
			return strings.Contains(strings.ReplaceAll(line, " ", ""), `"phase":"`+phase+`"`)
		})
		if !strings.Contains(last, phase) {
			t.Fatalf("the job is never %s: %s", phase, last)
		}
	}
	until("running")
	said := ""
	inside := func(script string) int {
		return c.posted("Exec", fmt.Sprintf(`{"job":%q,"command":["sh","-c",%q]}`, job, script),
			func(line string) bool { said += strings.ReplaceAll(line, " ", ""); return false })
	}
	code := inside("exit 3")
	if code != 200 || !strings.Contains(said, `"end":{"code":3}`) {
		t.Errorf("exec in the job: %d %s", code, said)
	}
	inside("touch $(dirname $SYNAPSE_HOSTFILE)/go") // it may end with the task, which ends because of it
	until("succeeded")
	said = ""
	c.posted("ReadLogs", fmt.Sprintf(`{"job":%q,"follow":true}`, job), func(line string) bool { said += line; return false })
	if !strings.Contains(said, "b3V0Cg==") { // base64 of "out"
		t.Errorf("it wrote %s", said)
	}
	c.asksAsDescribed(job)
	code = c.posted("Cancel", `{"job":"nobody"}`, func(line string) bool { said = line; return false })
	if code != 404 || !strings.Contains(said, `"field":"job"`) || !strings.Contains(said, `"CODE_NOT_FOUND"`) {
		t.Errorf("for a job that does not exist: %d %s", code, said)
	}
}

// asksAsDescribed sends the requests in docs/jobs/http.md about a job.
func (c *cluster) asksAsDescribed(job string) {
	c.t.Helper()
	page, err := os.ReadFile("../../docs/jobs/http.md")
	if err != nil {
		c.t.Fatal(err)
	}
	asked := regexp.MustCompile(`(?m)^curl -sN? --json '(.*)' http://127.0.0.1:9000/v1/(\w+)`)
	all := asked.FindAllStringSubmatch(string(page), -1)
	for _, m := range all {
		body := strings.ReplaceAll(m[1], "jw3iedtsbndqe", job)
		if code := c.posted(m[2], body, func(line string) bool {
			return strings.Contains(line, job)
		}); code != http.StatusOK {
			c.t.Errorf("%s %s: %d", m[2], body, code)
		}
	}
	answer, err := http.Get("http://" + c.address + "/v1/openapi.json")
	if err != nil {
		c.t.Fatal(err)
	}
	defer answer.Body.Close()
	var d struct{ Paths map[string]any }
	if err := json.NewDecoder(answer.Body).Decode(&d); err != nil || len(d.Paths) < 30 || len(all) != 2 {
		c.t.Errorf("%d calls are documented, %d are shown: %v", len(d.Paths), len(all), err)
	}
}
