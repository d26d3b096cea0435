package messages

import (
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/yi-json/synapse/topology"
)

// This file tests the reasons why jobs wait: the table of codes, and the width of the text.

// reasonsPage is the reference page of the codes, which is generated from the table.
const reasonsPage = "../docs/reference/reasons.md"

// TestReasonsPage checks that the page matches the table. `go test ./messages -run TestReasonsPage -rewrite` writes the
// page.
func TestReasonsPage(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# Waiting reasons

` + "`synapse-cli get jobs`" + ` shows a reason for each job that waits: a code, a colon and a short text, in at most 60 columns.
For example: ` + "`Resources: needs 32 GPUs, 0 of 32 free, 1 node drained`" + `.
The code is also the field ` + "`reasonCode`" + ` of ` + "`-o json`" + `, the field ` + "`reason_code`" + ` of the API, and the label ` +
		"`reason`" + ` of the metric ` + "`synapse_jobs_waiting`" + `.
The last column of the table has the code that ` + "`squeue`" + ` shows.
If other jobs are ahead, ` + "`squeue`" + ` shows ` + "`Priority`" + ` instead of ` + "`Resources`" + ` or ` + "`Topology`" + `.
Run ` + "`synapse-cli explain JOB`" + ` for all facts about one job.

| Code | Meaning | What to do | Slurm |
|---|---|---|---|
`)
	for code, r := range WaitReasons {
		if WaitCode(code) == WaitNone {
			continue
		}
		text := WaitTexts[code]
		b.WriteString("| `" + r.Word + "` | " + text.Meaning + " | " + text.Fix + " | `" + r.Slurm + "` |\n")
	}
	if *rewrite {
		if err := os.WriteFile(reasonsPage, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if page, err := os.ReadFile(reasonsPage); err != nil || string(page) != b.String() {
		t.Errorf("%s is not what the table says (%v): run this test with -rewrite", reasonsPage, err)
	}
}

// TestEveryCodeIsComplete checks that each code has a unique word, a meaning, a fix and a word of Slurm.
func TestEveryCodeIsComplete(t *testing.T) {
	for c, r := range WaitReasons {
		code := WaitCode(c)
		if code.String() != r.Word || WaitCodeOf(r.Word) != code {
			t.Errorf("%q is the word of code %d and of code %d", r.Word, c, WaitCodeOf(r.Word))
		}
		if code != WaitNone && (r.Word == "" || WaitTexts[code].Meaning == "" || WaitTexts[code].Fix == "" || r.Slurm == "") {
			t.Errorf("the row of %q is not complete: %+v", r.Word, r)
		}
	}
	if WaitCodeOf("of-a-later-version") != WaitNone || WaitCodes.String() != "" {
		t.Error("an unknown code has a row")
	}
}

// TestReasonWidth checks that no reason is wider than 60 columns for any names and texts, and that the code is never
// cut.
func TestReasonWidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 90, -1)
		words := func(label string) string { return text.Draw(t, label) }
		code := WaitCode(rapid.IntRange(1, int(WaitCodes)-1).Draw(t, "code"))
		for _, r := range []Reason{
			code.Because(words("text"), words("more"), words("most")),
			code.Around(words("text"), topology.Cut(OneLine(words("end")), 30)),
			code.Because(ShortName("j4cm3g", words("name"), words("owner"))).With(words("fact")),
			HeldBy(words("by"), words("why")).With(words("counts")),
			HeldInArray(words("array")),
			FailedStart(&JobStatus{
				Phase: PhaseQueued, Record: &JobRecord{State: JobState_JOB_STATE_QUEUED},
				Attempt: &AttemptRecord{End: &End{Cause: Cause_CAUSE_PREPARE_FAILED, Detail: words("detail"), Node: words("node")}},
			}, " (retry at 12:00:09Z)"),
		} {
			if n := utf8.RuneCountInString(r.Text); n > ReasonColumns || !strings.HasPrefix(r.Text, r.Code.String()) {
				t.Fatalf("%d columns: %q", n, r.Text)
			}
		}
	})
}

// TestRefusalWidth checks the width of every reason for a refusal, and that no number is cut.
func TestRefusalWidth(t *testing.T) {
	long := strings.Repeat("long-", 13)[:63]
	total := topology.Resources{MilliCPU: 128_000, MemoryBytes: 1 << 40, MilliGPU: 8000}
	f := topology.NewTree([]string{long, "rack"})
	for _, node := range []string{long + "a", long + "b"} {
		m := topology.Machine{ID: topology.NodeID(node), Place: []string{long, long}, Total: total, GPUType: long}
		f.Join(m, m.Idle())
	}
	each := topology.Resources{MilliCPU: 1000, MilliGPU: 8000}
	for want, g := range map[string]topology.Gang{
		"Infeasible: needs 800000 GPUs, cluster has 16":  {Replicas: 100_000, Each: each},
		"Infeasible: needs 24 GPUs in 1 rack, largest …": {Replicas: 3, Each: each, Required: "rack"},
		"Infeasible: needs 24 GPUs in 1 long-":           {Replicas: 3, Each: each, Required: long},
		"Infeasible: needs 16 GPUs in 1 node, largest …": {Replicas: 2, Each: each, Required: "node"},
		"Infeasible: unknown topology level \"":          {Replicas: 3, Each: each, Required: long + "x"},
		"Infeasible: no node has GPUs of type long-":     {Replicas: 3, Each: each, GPUType: long + "x"},
		"Infeasible: no node is named long-":             {Replicas: 3, Each: each, Only: []topology.NodeID{"long-gone"}},
	} {
		ok, r := topology.Feasible(f, g)
		if ok {
			t.Errorf("%q: it is feasible", want)
			continue
		}
		why := NeverReason(r)
		if !strings.HasPrefix(why.Text, want) || utf8.RuneCountInString(why.Text) > ReasonColumns {
			t.Errorf("%q, want %q at most %d columns wide", why.Text, want, ReasonColumns)
		}
	}
}

// TestShortID checks the length of short IDs: six characters, more to be unique, and all characters of an element's ID.
func TestShortID(t *testing.T) {
	for _, c := range []struct {
		id, want string
		others   []string
	}{
		{"j4cm3gabcdefg", "j4cm3g", nil}, {"j4cm3gabcdefg", "j4cm3gab", []string{"j4cm3gaxcdefg", "j4zzzzabcdefg"}},
		{"j4cm3gabcdefg", "j4cm3g", []string{"j4cm3gabcdefg"}}, {"j4cm3gabcdefg_17", "j4cm3gabcdefg_17", nil},
		{"j4", "j4", nil}, {"j4cm3gab", "j4cm3gab", []string{"j4cm3gabc"}},
	} {
		if got := ShortID(c.id, c.others...); got != c.want {
			t.Errorf("%s is named %s, want %s", c.id, got, c.want)
		}
	}
}
