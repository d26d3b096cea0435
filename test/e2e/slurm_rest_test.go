package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	osuser "os/user"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests Slurm's REST API as a portal uses it: with plain HTTP, and with the headers of Slurm's clients.

// restAnswer holds what the tests read from an answer.
type restAnswer struct {
	status int
	text   string
	JobID  int64 `json:"job_id"`
	Jobs   []struct {
		JobID   int64    `json:"job_id"`
		Name    string   `json:"name"`
		State   []string `json:"job_state"`
		Nodes   string   `json:"nodes"`
		User    string   `json:"user_name"`
		Comment any      `json:"comment"`
		Hold    bool     `json:"hold"`
		Limit   struct {
			Number int64 `json:"number"`
		} `json:"time_limit"`
	} `json:"jobs"`
	Nodes []struct {
		Name       string   `json:"name"`
		State      []string `json:"state"`
		Partitions []string `json:"partitions"`
	} `json:"nodes"`
	Partitions []struct {
		Name string `json:"name"`
	} `json:"partitions"`
	Pings []struct {
		Pinged string `json:"pinged"`
	} `json:"pings"`
	Statistics struct {
		Pending int `json:"jobs_pending"`
		Running int `json:"jobs_running"`
	} `json:"statistics"`
	Meta struct {
		Slurm struct {
			Release string `json:"release"`
			Cluster string `json:"cluster"`
		} `json:"slurm"`
	} `json:"meta"`
	Errors []struct {
		Description string `json:"description"`
		Number      int    `json:"error_number"`
		Error       string `json:"error"`
		Source      string `json:"source"`
	} `json:"errors"`
	Warnings []struct {
		Description string `json:"description"`
		Source      string `json:"source"`
	} `json:"warnings"`
}

// rest sends a request, with headers "Name: value".
func rest(t *testing.T, by *http.Client, method, url, body string, headers ...string) *restAnswer {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		q.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		q.Header.Set(name, value)
	}
	answer, err := by.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	a := &restAnswer{status: answer.StatusCode, text: string(text)}
	if err == nil {
		err = json.Unmarshal(text, a)
	}
	if err != nil || answer.Header.Get("Content-Type") != "application/json" || a.Meta.Slurm.Release != "24.11.0" ||
		!strings.Contains(a.text, `"errors":`) || !strings.Contains(a.text, `"warnings":`) {
		t.Fatalf("%s %s: %d, %v: %s", method, url, answer.StatusCode, err, text)
	}
	return a
}

// TestSlurmREST submits, lists, changes and cancels jobs, and reads the cluster, as a portal does without a login.
func TestSlurmREST(t *testing.T) {
	c := clusterOf(t, "process")
	c.node("n1", "r1")
	by := &http.Client{Timeout: pace.Of(time.Minute)}
	at := "http://" + c.address + "/slurm/v0.0.42/"
	get := func(path string) *restAnswer { t.Helper(); return rest(t, by, "GET", at+path, "") }
	folder := t.TempDir()
	for _, dir := range []string{filepath.Dir(folder), folder} { // jobs of root have their own users
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	script := "#!/bin/sh\n#SBATCH --job-name=comment\necho $FROM $SLURM_JOB_NAME $1 > done\n" +
		"while [ ! -e go ]; do sleep 0.02; done\n"
	body := fmt.Sprintf(`{"script":%q,"job":{"name":"portal","tasks":1,"current_working_directory":%q,"comment":"by hand",
		"environment":["FROM=rest","PATH=/usr/bin:/bin"],"argv":["x","one"],"time_limit":{"set":true,"number":5},
		"memory_per_node":{"set":true,"number":64},"mail_type":["END"],"colour":"red"}}`, script, folder)
	made := rest(t, by, "POST", at+"job/submit", body)
	if made.status != 200 || made.JobID == 0 || len(made.Errors) != 0 || len(made.Warnings) != 2 ||
		!strings.Contains(made.text, "colour") || !strings.Contains(made.text, "mail_type has no effect") {
		t.Fatalf("submitted: %d %s", made.status, made.text)
	}
	one := fmt.Sprintf("job/%d", made.JobID)
	state := func(want string) *restAnswer {
		t.Helper()
		for until := pace.Until(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			a := get(one)
			if a.status == 200 && len(a.Jobs) == 1 && a.Jobs[0].State[0] == want {
				return a
			}
			if time.Now().After(until) {
				t.Fatalf("the job is never %s: %s", want, a.text)
			}
		}
	}
	if a := state("RUNNING"); a.Jobs[0].Name != "portal" || a.Jobs[0].Nodes != "n1" || a.Jobs[0].Limit.Number != 5 ||
		a.Jobs[0].Comment != "by hand" {
		t.Errorf("the job is %s", a.text)
	}
	for until := pace.Until(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if text, err := os.ReadFile(folder + "/done"); string(text) == "rest portal one\n" {
			break
		} else if time.Now().After(until) {
			t.Fatalf("the script wrote %q (%v)", text, err)
		}
	}
	if a := get("jobs/"); a.status != 200 || len(a.Jobs) != 1 || a.Jobs[0].JobID != made.JobID || a.Jobs[0].Nodes != "n1" {
		t.Errorf("jobs: %s", a.text)
	}
	if a := rest(t, by, "POST", at+one, `{"time_limit":{"set":true,"number":7}}`); a.status != 200 {
		t.Errorf("changed: %d %s", a.status, a.text)
	}
	if a := get(one); a.Jobs[0].Limit.Number != 7 {
		t.Errorf("after the change: %s", a.text)
	}
	c.restCluster(by, at)
	if a := rest(t, by, "DELETE", at+one, ""); a.status != 200 || len(a.Errors) != 0 {
		t.Errorf("cancelled: %d %s", a.status, a.text)
	}
	state("CANCELLED")
	if a := rest(t, by, "DELETE", at+one, ""); a.status != 200 || len(a.Warnings) != 1 {
		t.Errorf("cancelled again: %d %s", a.status, a.text)
	}
	if past := rest(t, by, "GET", "http://"+c.address+"/slurmdb/v0.0.42/"+one, ""); past.status != 200 ||
		len(past.Jobs) != 1 || !strings.Contains(past.text, `"current":["CANCELLED"]`) {
		t.Errorf("in the history: %d %s", past.status, past.text)
	}
	c.restMistakes(by, at)
	c.restAsDescribed(by)
}

// restAsDescribed sends the requests of docs/reference/slurm-rest.md.
func (c *cluster) restAsDescribed(by *http.Client) {
	c.t.Helper()
	page, err := os.ReadFile("../../docs/reference/slurm-rest.md")
	if err != nil {
		c.t.Fatal(err)
	}
	asked := regexp.MustCompile(`(?m)^curl -s (?:--json '(.*)' )?http://127.0.0.1:9000(/slurm\S+)$`)
	all := asked.FindAllStringSubmatch(string(page), -1)
	for _, m := range all {
		method := "GET"
		if m[1] != "" {
			method = "POST"
		}
		if a := rest(c.t, by, method, "http://"+c.address+m[2], m[1]); a.status != 200 || len(a.Errors)+len(a.Warnings) != 0 {
			c.t.Errorf("%s: %d %s", m[0], a.status, a.text)
		}
	}
	if len(all) != 2 {
		c.t.Errorf("%d requests are documented", len(all))
	}
}

// restCluster reads the nodes, the partitions and the scheduler, in all versions.
func (c *cluster) restCluster(by *http.Client, at string) {
	c.t.Helper()
	get := func(path string) *restAnswer { c.t.Helper(); return rest(c.t, by, "GET", at+path, "") }
	if a := get("nodes"); a.status != 200 || len(a.Nodes) != 1 || a.Nodes[0].Name != "n1" ||
		fmt.Sprint(a.Nodes[0].Partitions) != "[all]" {
		c.t.Errorf("nodes: %s", a.text)
	}
	if a := get("node/n1"); a.status != 200 || len(a.Nodes) != 1 || len(a.Nodes[0].State) == 0 {
		c.t.Errorf("one node: %s", a.text)
	}
	for _, path := range []string{"partitions/", "partition/all"} {
		if a := get(path); a.status != 200 || len(a.Partitions) != 1 || a.Partitions[0].Name != "all" {
			c.t.Errorf("%s: %s", path, a.text)
		}
	}
	if a := get("diag"); a.status != 200 || a.Statistics.Running != 1 || a.Statistics.Pending != 0 {
		c.t.Errorf("diag: %s", a.text)
	}
	for _, version := range []string{"v0.0.42", "v0.0.41", "v0.0.40"} {
		a := rest(c.t, by, "GET", strings.Replace(at, "v0.0.42", version, 1)+"ping", "")
		if a.status != 200 || len(a.Pings) != 1 || a.Pings[0].Pinged != "UP" ||
			!strings.Contains(a.text, `"data_parser":"data_parser/`+version+`"`) || a.Meta.Slurm.Cluster != "synapse" {
			c.t.Errorf("ping of %s: %s", version, a.text)
		}
		a = rest(c.t, by, "GET", strings.Replace(at, "v0.0.42", version, 1)+"jobs", "")
		if old := strings.Contains(a.text, "minimum_switches"); a.status != 200 || old != (version != "v0.0.42") {
			c.t.Errorf("jobs of %s: %s", version, a.text)
		}
	}
	drain := func(body string, want int) {
		c.t.Helper()
		if a := rest(c.t, by, "POST", at+"node/n1", body); a.status != want {
			c.t.Errorf("%s: %d %s", body, a.status, a.text)
		}
	}
	drain(`{"state":["DRAIN"]}`, 400)
	drain(`{"state":["DRAIN"],"reason":"fan"}`, 200)
	if a := get("node/n1"); len(a.Nodes) != 1 || !strings.Contains(a.text, `"DRAIN"`) || !strings.Contains(a.text, "fan") {
		c.t.Errorf("after a drain: %s", a.text)
	}
	drain(`{"state":["RESUME"]}`, 200)
}

// restMistakes sends requests with mistakes.
func (c *cluster) restMistakes(by *http.Client, at string) {
	c.t.Helper()
	job := func(fields string) string { return `{"script":"#!/bin/sh\ntrue\n","job":{` + fields + `}}` }
	for _, m := range []struct {
		method, path, body string
		status, number     int
		words              string
	}{
		{"GET", "job/99", "", 404, 2017, "Unable to query JobId=99"},
		{"GET", "job/nobody", "", 404, 2017, "JobId=nobody"},
		{"DELETE", "job/99", "", 404, 2017, "JobId=99"},
		{"POST", "job/99", `{"priority":3}`, 404, 2017, "JobId=99"},
		{"POST", "job/99", `{"partition":"other"}`, 400, 2036, "partition is not supported"},
		{"GET", "node/n9", "", 404, 2018, "Failure to query node n9"},
		{"GET", "partition/none", "", 404, 2000, "none"},
		{"GET", "shares", "", 404, 9006, "there is no /slurm/v0.0.42/shares"},
		{"GET", "../v0.0.39/jobs", "", 404, 9006, "v0.0.42, v0.0.41, v0.0.40"},
		{"PUT", "jobs", "", 405, 9007, "PUT is not supported"},
		{"POST", "job/submit", `{"job":`, 400, 9001, "is not valid JSON"},
		{"POST", "job/submit", `[]`, 400, 9001, "is no JSON object"},
		{"POST", "job/submit", `{"job":{"name":"a"}}`, 400, 9000, `Populated "script" field is required`},
		{"POST", "job/submit", job(`"time_limit":{"set":true,"number":"soon"}`), 400, 9001, "time_limit: is not a number"},
		{"POST", "job/submit", job(`"tasks":"many"`), 400, 9001, "tasks: is not a whole number"},
		{"POST", "job/submit", job(`"licenses":"matlab:1"`), 400, 2036, "licenses is not supported"},
		{"POST", "job/submit", job(`"nodes":"2-4"`), 400, 9001, "nodes: 2-4: ranges are not supported"},
		{"POST", "job/submit", job(`"dependency":"afterok:99"`), 400, 9001, "dependency: Invalid job id specified: 99"},
		{"POST", "job/submit", job(`"environment":["novalue"]`), 400, 9001, `"novalue" is not NAME=value`},
		{"POST", "job/submit", `{"script":"true","job":{}}`, 400, 9001, "must begin with #!"},
	} {
		a := rest(c.t, by, m.method, at+m.path, m.body)
		if a.status != m.status || len(a.Errors) != 1 || a.Errors[0].Number != m.number || a.Errors[0].Error == "" ||
			!strings.Contains(a.Errors[0].Description, m.words) || a.Errors[0].Source == "" {
			c.t.Errorf("%s %s %s: %d %s", m.method, m.path, m.body, a.status, a.text)
		}
	}
	if a := rest(c.t, by, "GET", at+"jobs", "", "Origin: http://other"); a.status != 403 {
		c.t.Errorf("from a page of a browser: %d %s", a.status, a.text)
	}
	if a := rest(c.t, by, "POST", at+"job/submit", job(""), "Content-Type: application/x-yaml"); a.status != 415 {
		c.t.Errorf("YAML: %d %s", a.status, a.text)
	}
	if a := rest(c.t, by, "GET", at+"jobs", ""); len(a.Jobs) != 1 {
		c.t.Errorf("a refused job exists: %s", a.text)
	}
}

// TestSlurmRESTToken checks that the headers of Slurm's clients give the rights of the token, and only to its user.
func TestSlurmRESTToken(t *testing.T) {
	s := newSecured(t)
	s.node("n1", "r1", "--tls", s.folder("node", "n1"))
	token := func(role, name string) string {
		return "X-SLURM-USER-TOKEN: " + strings.TrimSpace(s.as(filepath.Join(s.keys, "admin"), "token", "create", "--role",
			role, "--user", name).wants(t, 0, "", "").out)
	}
	account := "nobody" // an account of every host
	if who, err := osuser.Current(); err == nil && who.Uid != "0" {
		account = who.Username // the agent can start no jobs of others
	}
	ann, vera := token("submitter", account), token("viewer", "vera")
	reach := &http.Transport{DialTLSContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, s.address)
		if err != nil {
			return nil, err
		}
		return tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"synapse-http/1"}}), nil
	}}
	t.Cleanup(reach.CloseIdleConnections)
	by := &http.Client{Timeout: pace.Of(time.Minute), Transport: reach}
	at := "https://" + s.address + "/slurm/v0.0.42/"
	hers, named := "X-SLURM-USER-NAME: "+account, `{"job":{"script":"#!/bin/sh\ntrue\n","name":"hers","hold":true}}`
	made := rest(t, by, "POST", at+"job/submit", named, ann, hers)
	if made.status != 200 || made.JobID == 0 || len(made.Warnings) != 1 {
		t.Fatalf("submitted: %d %s", made.status, made.text)
	}
	one := fmt.Sprintf("%sjob/%d", at, made.JobID)
	if a := rest(t, by, "GET", one, "", ann); a.status != 200 || len(a.Jobs) != 1 || a.Jobs[0].User != account ||
		!a.Jobs[0].Hold {
		t.Errorf("the job: %d %s", a.status, a.text)
	}
	bearer := "Authorization: Bearer " + strings.TrimPrefix(ann, "X-SLURM-USER-TOKEN: ")
	for _, m := range []struct {
		what, method, url, body string
		status, number          int
		headers                 []string
	}{
		{"no token", "GET", at + "jobs", "", 401, 9008, nil},
		{"no known token", "GET", at + "jobs", "", 401, 9008, []string{"X-SLURM-USER-TOKEN: synapselogin1.x.y.z"}},
		{"another user", "GET", at + "jobs", "", 401, 9008, []string{ann, "X-SLURM-USER-NAME: vera"}},
		{"two tokens", "GET", at + "jobs", "", 401, 9008, []string{ann, bearer}},
		{"our header", "GET", at + "jobs", "", 200, 0, []string{bearer}},
		{"a viewer's submit", "POST", at + "job/submit", named, 403, 2002, []string{vera}},
		{"a viewer's cancel", "DELETE", one, "", 403, 2002, []string{vera}},
		{"a viewer's list", "GET", at + "jobs", "", 200, 0, []string{vera, "X-SLURM-USER-NAME: vera"}},
		{"a submitter's drain", "POST", at + "node/n1", `{"state":["DRAIN"],"reason":"x"}`, 403, 2002, []string{ann}},
		{"the owner's release", "POST", one, `{"hold":false}`, 200, 0, []string{ann}},
		{"the owner's cancel", "DELETE", one + "?signal=SIGTERM", "", 200, 0, []string{ann}},
	} {
		a := rest(t, by, m.method, m.url, m.body, m.headers...)
		if a.status != m.status || (len(a.Errors) == 1) != (m.number != 0) ||
			m.number != 0 && a.Errors[0].Number != m.number {
			t.Errorf("%s: %d %s", m.what, a.status, a.text)
		}
	}
	s.as(filepath.Join(s.keys, "admin"), "audit", filepath.Join(s.dir, "scheduler", "audit")).
		wants(t, 0, "SubmitScript", "")
}
