package e2e

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file tests the transcript: right and wrong commands against a real cluster, with their complete output. A
// changed word appears as a diff. `go test ./test/e2e -run TestTranscript -update` writes it.

var update = flag.Bool("update", false, "write the transcript again")

// transcripts is the folder of the transcript and of the files that its lines name.
const transcripts = "testdata/transcript"

// leastLines is the minimum number of lines of a complete transcript.
const leastLines = 150

// linePatience bounds one line on a busy host.
const linePatience = 60 * time.Second

func TestTranscript(t *testing.T) {
	c := newCluster(t)
	for i := range 4 {
		c.node(fmt.Sprintf("n%d", i+1), fmt.Sprintf("r%d", i/2+1), "--gpu-type", "h100", "--labels",
			"pool="+[]string{"a", "b"}[i/2])
	}
	home := t.TempDir()
	for _, dir := range []string{filepath.Dir(home), home} { // jobs start where they are submitted
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(home, os.DirFS(transcripts)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(bin, "synapse-cli"), filepath.Join(home, "synctl")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(transcripts, "lines.txt")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	steps := stepsOf(string(text))
	if n := len(slices.DeleteFunc(slices.Clone(steps), func(s exchange) bool { return s.line == "" })); n < leastLines {
		t.Errorf("got %d lines, want at least %d", n, leastLines)
	}
	for i := range steps {
		if steps[i].line != "" {
			steps[i].answer(t, c, home)
		}
	}
	mask := c.mask(home)
	var got strings.Builder
	for _, s := range steps {
		s.write(&got, mask)
	}
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	now := stepsOf(got.String())
	for i, was := range stepsOf(string(text)) {
		if !slices.Equal(was.told, now[i].told) {
			t.Errorf("$ %s\nprints\n  %s\nbut should print\n  %s",
				was.line, strings.Join(now[i].told, "\n  "), strings.Join(was.told, "\n  "))
		}
	}
	for _, s := range now {
		if found := goWords.FindString(strings.Join(s.told, "\n")); found != "" {
			t.Errorf("$ %s\nnames %q, which is internal to the program", s.line, found)
		}
	}
}

// goWords matches internals that no user should see: types, files, functions and packages of a Go program.
var goWords = regexp.MustCompile(`\*?\b(messages|client|jobfile|strconv|proto|grpc|cobra|pflag)\.[A-Z]\w*|\.go:\d+|goroutine |rpc error|strconv\.|desc = |unmarshal|replicas_(min|max)|milli_(cpu|gpu)|_ms\b`)

// exchange holds one line and its output, or a comment.
type exchange struct {
	comment, line string
	told          []string
}

// stepsOf parses a transcript: `$ ` begins a line, `# ` a comment, `| ` output, `! ` errors and `= ` the exit code.
func stepsOf(text string) []exchange {
	var steps []exchange
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "$ "):
			steps = append(steps, exchange{line: line[2:]})
		case strings.HasPrefix(line, "# "):
			steps = append(steps, exchange{comment: line})
		case line != "" && len(steps) > 0:
			last := &steps[len(steps)-1]
			last.told = append(last.told, line)
		}
	}
	return steps
}

// answer runs the line in a shell, in the folder with the files.
func (s *exchange) answer(t *testing.T, c *cluster, home string) {
	cmd := c.command("/bin/sh", "-c", s.line)
	cmd.Dir = home
	cmd.Env = append(cmd.Env, "PATH="+bin+":"+home+":"+os.Getenv("PATH"), "HOME="+home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	watchdog := time.AfterFunc(linePatience, func() {
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
	})
	defer watchdog.Stop()
	a := ask(t, cmd)
	s.told = nil
	for _, part := range []struct{ mark, text string }{{"| ", a.out}, {"! ", a.err}} {
		for line := range strings.Lines(part.text) {
			s.told = append(s.told, strings.TrimRight(part.mark+line, " \n"))
		}
	}
	if a.code != 0 {
		s.told = append(s.told, fmt.Sprintf("= %d", a.code))
	}
}

func (s *exchange) write(to *strings.Builder, mask func(string) string) {
	if s.line == "" {
		fmt.Fprintf(to, "\n%s\n", s.comment)
		return
	}
	fmt.Fprintf(to, "\n$ %s\n", s.line)
	for _, line := range s.told {
		to.WriteString(mask(line) + "\n")
	}
}

// masks lists text that differs between runs, and its replacement.
var masks = []struct {
	of *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "CLOCK"},
	{regexp.MustCompile(`TIME, \d+[smh] ago`), "TIME, N ago"},
	{regexp.MustCompile(`(Last seen: +)\d+s`), "${1}N"},
	{regexp.MustCompile(`(Runtime: +)\d+s`), "${1}N"},
	{regexp.MustCompile(`declared-\d+`), "declared-N"}, // the last job's GPU may still be on its way back
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "HOST:PORT"},
	{regexp.MustCompile(`("?(?:lastSeenMsAgo|runtimeSeconds|heldSeconds|waitedSeconds|gpuSeconds|seq|revision|submittedUnixMs)"?: )[\d.]+`), "${1}N"},
	{regexp.MustCompile(`((?:^\| |^! )?(?:synapse-[a-z]+|carapace|synctl)) \S+ \(go[^)]*\)`), "${1} VERSION"},
	{regexp.MustCompile(`scheduler \S+ at HOST:PORT, cluster \S+, epoch \d+`), "scheduler VERSION at HOST:PORT, cluster ID, epoch N"},
	{regexp.MustCompile(`("?(?:clusterId|version|go|agentVersion|requestId)"?: )\S+`), "${1}X"},
	{regexp.MustCompile(`<job-\d{6}>`), "<job>"},
	{regexp.MustCompile(`  +`), "  "},
	{regexp.MustCompile(`  \d+[smh]\b`), "  AGE"},
	// A very short job may have no run time.
	{regexp.MustCompile(`(  (?:-|research)  )(?:-|AGE)  AGE`), "${1}RAN  AGE"},
}

// mask hides text that differs between runs. A job's ID is replaced by its name.
func (c *cluster) mask(home string) func(string) string {
	jobs := []string{home, "HOME", c.version(), "VERSION"}
	seen := map[string]int{}
	reply, err := c.client.ListJobs(c.ctx(), &messages.ListJobs{Limit: messages.MaxPageEntries})
	if err != nil {
		c.t.Fatal(err)
	}
	list := reply.GetJobs()
	slices.SortFunc(list, func(a, b *messages.JobStatus) int {
		return cmp.Compare(a.GetRecord().GetArrival(), b.GetRecord().GetArrival())
	})
	for _, j := range list {
		name := j.GetRecord().GetSpec().GetName()
		if seen[name]++; seen[name] > 1 {
			name = fmt.Sprintf("%s#%d", name, seen[name])
		}
		id := j.GetRecord().GetId()
		jobs = append(jobs, id, "<"+name+">")
		if short := messages.ShortID(id); short != id {
			jobs = append(jobs, "("+short+")", "(<"+name+">)", `"`+short+`"`, `"<`+name+`>"`)
		}
	}
	ids := strings.NewReplacer(jobs...)
	return func(line string) string {
		line = ids.Replace(line)
		for _, m := range masks {
			line = m.of.ReplaceAllString(line, m.by)
		}
		return line
	}
}

// version returns the version of the programs, which depends on their build.
func (c *cluster) version() string {
	text, err := c.command(filepath.Join(bin, "synapse-cli"), "--version").Output()
	_, version, ok := strings.Cut(strings.TrimSpace(string(text)), " ")
	if err != nil || !ok {
		c.t.Fatalf("synapse-cli --version: %q: %v", text, err)
	}
	return version
}
