// One rule needs a complete program: all packages that it is linked from, directly or indirectly. The rules on imports
// see one file at a time. They would not notice a library that brings back an unwanted dependency.
package test

import (
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// absent is a directory tree of packages that a program must not contain.
type absent struct {
	program string // its folder below cmd; empty: every program
	prefix  string
	why     string
	but     []string // permitted packages in that tree
}

var absents = []absent{
	{"", protoActor + "/remote", "it ends a process over one bad frame; cluster/link/envelope speaks its wire", nil},
	{"", "github.com/gogo/protobuf", "Proto.Actor's remoting brought it, a second protobuf beside ours", nil},
	{"", protoActor + "/cluster", "leadership is cluster/lease's", nil},
	{"synapse-node", module + "/policy", "a machine decides nothing about queues", nil},
	{"synapse-node", module + "/store", "a machine's books are files of its own", nil},
	{"synapse-node", module + "/actors/leader", "a machine never leads", nil},
	{"synapse-scheduler", module + "/actors/worker", "a scheduler's process runs no tasks", nil},
	{"synapse-scheduler", module + "/runtime", "a scheduler's process runs no tasks",
		// A scheduler runs its administrator's programs, and checks their files.
		[]string{module + "/runtime/procgroup", module + "/runtime/file"}},
	{"synapse-node", module + "/server/authn", "a machine lets nobody in", nil},
	{"synapse-cli", protoActor, "a command of people has no actors", nil},
	{"synapse-cli", module + "/actors", "a command of people has no actors", nil},
	{"synapse-cli", module + "/store", "what is on disk, a scheduler says", nil},
	{"synapse-cli", module + "/cluster", "it joins nothing, and dials schedulers alone",
		[]string{module + "/cluster/identity", module + "/cluster/credential"}},
	{"synapse-cli", module + "/policy", "it decides nothing, and reads queues alone", []string{module + "/policy/share"}},
	{"synapse-cli", module + "/server", "it has the client's half alone",
		// The CLI also reads the audit log, creates the keys of secrets on a scheduler's host, and serves the
		// web UI to a local browser.
		[]string{module + "/server/api", module + "/server/unixsocket", module + "/server/oidc/described",
			module + "/server/audit", module + "/server/secretseal", module + "/server/web"}},
	{"synapse-cli", module + "/runtime", "`up` starts a node's program, which knows what nodes run",
		[]string{module + "/runtime/transfer"}}, // `cp` is the other end of copies into a task
	{"synapse-cli", module + "/sim", "`simulate` starts synapse-sim", []string{module + "/sim/record"}},
	{"synapse-cli", "github.com/google/nftables", "networks of tasks are made by a node's program", nil},
	{"synapse-cli", "github.com/vishvananda", "networks of tasks are made by a node's program", nil},
	{"synapse-cli", "github.com/russross/blackfriday", "package cmd/internal/manual writes man pages", nil},
	{"synapse-submit", "google.golang.org", "its start is its purpose: it has no gRPC and no generated messages", nil},
	{"synapse-submit", "github.com/spf13", "its start is its purpose: synapse-cli has the commands", nil},
	{"synapse-submit", "go.yaml.in", "its start is its purpose: synapse-cli reads YAML", nil},
	{"synapse-submit", module + "/messages", "its start is its purpose: it has no gRPC and no generated messages",
		[]string{module + "/messages/plain"}},
	{"synapse-submit", "encoding/json", "its start is its purpose: it writes one kind of request", nil},
	{"synapse-submit", "net/http", "its start is its purpose: it makes one request", nil},
	{"carapace", "google.golang.org", "what supervises a task stays small", nil},
	{"carapace", protoActor, "what supervises a task stays small", nil},
}

// findings returns the forbidden packages that a program is linked from.
func (a absent) findings(program string, linked []string) []string {
	if a.program != "" && a.program != path.Base(program) {
		return nil
	}
	var findings []string
	for _, p := range linked {
		if (p == a.prefix || strings.HasPrefix(p, a.prefix+"/")) && !slices.Contains(a.but, p) {
			findings = append(findings, program+" is linked from "+p+": "+a.why)
		}
	}
	return findings
}

// TestProgramsRule checks the rule for every program, and shows that it can fail.
func TestProgramsRule(t *testing.T) {
	command := exec.Command("go", "list", "-f", `{{if eq .Name "main"}}{{.ImportPath}} {{join .Deps " "}}{{end}}`, "./cmd/...")
	command.Dir = root
	output, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	programs := map[string]bool{}
	for line := range strings.Lines(string(output)) {
		linked := strings.Fields(line)
		programs[path.Base(linked[0])] = true
		for _, a := range absents {
			for _, finding := range a.findings(linked[0], linked[1:]) {
				t.Error(finding)
			}
		}
	}
	if len(programs) < 5 {
		t.Errorf("only %d programs were found", len(programs))
	}
	for _, a := range absents {
		program := a.program
		if program == "" {
			program = "synapse-node"
		}
		if !programs[program] {
			t.Errorf("program %s does not exist", program)
		}
		for linked, want := range map[string]int{a.prefix: 1, a.prefix + "/deep": 1, a.prefix + "s": 0} {
			if got := len(a.findings("x/cmd/"+program, []string{linked})); got != want {
				t.Errorf("%s linked from %s: %d findings, want %d", program, linked, got, want)
			}
		}
	}
}
