//go:build world

package world

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// This file tests how the web UI follows the changes of its cluster.

// TestPageLive kills a node. The page must show it as dead, the gang's first attempt as ended, and the next attempt on
// other nodes. A moved start guarantee must move on the page. The page must show the same numbers as the command line
// while the cluster changes.
func TestPageLive(t *testing.T) {
	t.Parallel()
	s := newSurf(t)
	pair := s.submit("--name", "pair", "-n", "2", "--gpus-per-task", "8",
		"--time-limit", "20m", "--image", "host", "--", "sleep",
		"600")
	s.visit("#/job/" + pair)
	s.shows("Ranks")
	s.await(`document.querySelector("main dd")?.innerText === "running"`)
	s.promiseMoves(pair)

	victim := js[string](s, `document.querySelector('[aria-label="Ranks"] tbody tr').cells[1].innerText`)
	s.kill(victim)
	s.await(fmt.Sprintf(`(() => { const runs = document.querySelectorAll('[aria-label="Attempts"] tbody tr');
		return runs.length === 2 && document.querySelector("main dd").innerText === "running" &&
			![...document.querySelectorAll('[aria-label="Ranks"] tbody tr')].some((r) => r.cells[1].innerText === %q); })()`, victim))
	s.visit("#/node/" + victim)
	s.shows("dead")
	s.visit("#/map")
	s.await(`document.querySelector("canvas")?.getAttribute("aria-label").includes("of 32 GPUs")`)
	s.keep("a machine is dead")
	s.sameWhileItChanges()
	s.silent()
}

// promiseMoves lets a gang wait for all nodes, and moves its latest start with the limit of the job before it.
func (s *surf) promiseMoves(before string) {
	s.t.Helper()
	big := s.submit("--name", "big", "-n", "4", "--gpus-per-task", "8",
		"--time-limit", "10m", "--image", "host", "--", "true")
	s.visit("#/job/" + big)
	const starts = `[...document.querySelectorAll("main dt")].find((e) => e.innerText === "Starts")?.nextSibling.innerText`
	// After midnight UTC it has the form "Sat 01:04".
	const latest = `/guaranteed by ((?:[A-Z][a-z]+ )?[0-9]+:[0-9]+)/.exec(` + starts + `)?.[1]`
	s.await(latest)
	first := js[string](s, latest)
	s.run("update", before, "--time-limit", "3h")
	s.await(fmt.Sprintf(`%s && %s !== %q`, latest, latest, first))
	s.t.Logf("the latest start moved from %s to %s", first, js[string](s, latest))
	s.run("cancel", big)
	s.visit("#/job/" + before)
	s.shows("Ranks")
}

// kill kills a node as a power loss would. The agent dies first, so it reports nothing about its tasks.
func (s *surf) kill(machine string) {
	s.t.Helper()
	folder := filepath.Join(filepath.Dir(s.config), machine)
	if kills("--data-dir "+folder)+kills(folder+"/") == 0 {
		s.t.Fatalf("no process of %s is found below %s", machine, folder)
	}
}

// kills kills the processes whose command contains a mark, and returns their number.
func kills(mark string) (killed int) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range all {
		text, _ := os.ReadFile(filepath.Join(process, "cmdline"))
		pid, _ := strconv.Atoi(filepath.Base(process))
		if strings.Contains(strings.ReplaceAll(string(text), "\x00", " "), mark) && pid != os.Getpid() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			killed++
		}
	}
	return killed
}

// moments is the number of comparisons between the page and the command line.
const moments = 100

// sameWhileItChanges compares the list of jobs with the command line's, for each job that both show in the same
// revision, while jobs come and end all the time.
func (s *surf) sameWhileItChanges() {
	s.t.Helper()
	s.visit("#/jobs")
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Millisecond):
			}
			s.submit("--name", fmt.Sprintf("comes-%d", i), "-n", strconv.Itoa(1+i%2), "--gpus-per-task", "1",
				"--cpu", "1", "--mem",
				"64Mi", "--image", "host", "--", "sleep", "0."+strconv.Itoa(i%10))
		}
	}()
	compared, revisions := 0, map[string]bool{}
	enough := func() bool { return compared >= 5*moments && len(revisions) >= 20 }
	// On a fast host few jobs have arrived after so many comparisons.
	for n, limit := 0, time.Now().Add(2*time.Minute); n < moments || !enough() && time.Now().Before(limit); n++ {
		shown := js[map[string][]string](s, `Object.fromEntries([...document.querySelectorAll("tbody tr")].map((r) =>
			[r.cells[0].innerText.trim(), [r.dataset.revision, ...[...r.cells].slice(1, 6).map((c) => c.innerText.trim())]]))`)
		for _, job := range s.jobs() {
			row, want := shown[job.Metadata.ID], job.row()
			if row == nil || row[0] != want[0] {
				continue // one of them is newer
			}
			if !job.Status.Over {
				want[2] = row[2] // for a live job the phase shows more than the record
			}
			compared++
			revisions[job.Metadata.ID+want[0]] = true
			if got := strings.Join(row, " | "); got != strings.Join(want, " | ") {
				s.t.Fatalf("the page shows\n%s, but the command line\n%s", got, strings.Join(want, " | "))
			}
		}
	}
	close(stop)
	<-ended
	if !enough() {
		s.t.Errorf("only %d jobs were compared, of %d revisions", compared, len(revisions))
	}
	s.t.Logf("%d jobs were compared, in %d revisions", compared, len(revisions))
}

// listed is a job in the command line's output.
type listed struct {
	Metadata struct {
		ID, Name, Owner string
		Revision        uint64
	}
	Spec struct {
		Gang      struct{ Replicas int }
		Resources struct{ GPU string }
	}
	Status struct {
		Phase string
		Over  bool
	}
}

// row returns the job in the form of the page's table: revision, name, phase, tasks, GPUs, owner.
func (j *listed) row() []string {
	each, _ := strconv.Atoi(j.Spec.Resources.GPU) // none: 0
	return []string{strconv.FormatUint(j.Metadata.Revision, 10), j.Metadata.Name, j.Status.Phase,
		strconv.Itoa(j.Spec.Gang.Replicas), strconv.Itoa(j.Spec.Gang.Replicas * each), j.Metadata.Owner}
}

func (s *surf) jobs() []*listed {
	s.t.Helper()
	var list struct{ Items []*listed }
	text := s.run("get", "jobs", "-o", "json")
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		s.t.Fatalf("%v: %s", err, text)
	}
	return list.Items
}
