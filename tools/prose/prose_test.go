package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// refusedSentences are former sentences of the documentation, the help or the web UI that a reader had to read twice.
var refusedSentences = map[surface][]string{
	docs: {
		"Who is not let in, or does not know who answers, ends at once with code 5.",
		"What it does not know, what is outside of its range, and what is there twice is told with line, column and what " +
			"may have been meant.",
		"Of a job that is over, the end is waited for until its machine answers, for 60 s.",
		"Never shown is what the agent hides.",
		"Where the kernel has no Landlock, what a task may do is what its user may.",
		"With several, another does within seconds.",
		"Without it nobody is told.",
		"What is kept is lent to jobs that have left by the time for which it is kept.",
		"Was it told before by when it starts at the latest, that stands.",
		"…and whoever waits is told exactly why, and what would let it start.",
		"Short work goes first, and room is kept for a gang that waits: lent to what is gone by then… with a latest start " +
			"that holds.",
		"For whom it is. TLS between all parts, roles for people, a container of its own for each task…",
		"At hand. A shell in a job of its own…",
		"A job is what you submit, and its whole life, with one id from the submit to the end and after it.",
		"Behind a colon stands which end is meant, for one job or for all that stand before it",
		"what it never has more of, with all below it",
		"A firm promise is the turn of whoever has waited longest: for five seconds at the least…",
		"Connections of which nothing comes, neither a call that is let in nor a machine's link… are not told",
		"The process driver refuses what it cannot do, by the job's field",
		"Where several machines are one kernel… UCX takes them for one whose memory it could share… may stand still",
		"So a test waits for what must come until a bound that means nothing",
		"Drain, cordon and note are said by people.",
	},
	help: {
		"by which a task is asked to end", "say all there is to say about a job, a machine or a queue",
		"have the cluster go by the queues of a file", "be Slurm's commands", "gather what others need to help",
	},
	web: {"Of how long a time", "None is like that.", "It has just come"},
	errs: {
		"-f is a job that nobody has submitted: leave JOB and -l out, or -f", "it does not run: it is queued",
		`no set of machines here could ever hold it: there is no level "shelf" here`,
		"--sort %s is not known", "%s cannot be honoured here", "what to get is not said",
	},
}

// TestRefusedSentences checks that every sentence that the style guide rewrites matches a pattern.
func TestRefusedSentences(t *testing.T) {
	for of, texts := range refusedSentences {
		for _, text := range texts {
			counts := 0
			for _, s := range sentences("x.md", 1, of, text) {
				for _, r := range rules {
					counts += r.count(s)
				}
			}
			if counts == 0 {
				t.Errorf("%s: nothing is found in %q", of, text)
			}
		}
	}
}

// TestPlainErrors checks that the style guide's errors match no pattern.
func TestPlainErrors(t *testing.T) {
	for _, text := range []string{
		"-f cannot be combined with JOB or -l", "job is queued, not running", `unknown topology level "shelf"`,
	} {
		for _, s := range sentences("cmd/x.go", 1, errs, text) {
			for _, l := range limits {
				if l.count(s) > 0 {
					t.Errorf("%s is found in %q", l.name, text)
				}
			}
		}
	}
}

// TestErrorsAreCountedApart checks that an error counts under the ceilings of errors, and only in the folders that
// users meet.
func TestErrorsAreCountedApart(t *testing.T) {
	all := []sentence{{"cmd/a.go", 1, errs, "nobody was told"}, {"docs/a.md", 1, docs, "it is known here"}}
	counts := countAll(all)
	if counts["error/nobody"] != 1 || counts["nobody"] != 0 || counts["error/pronoun"] != 0 || counts["pronoun"] != 0 {
		t.Errorf("%v", counts)
	}
	if !all[0].counted() || (sentence{"runtime/a.go", 1, errs, "nobody"}).counted() {
		t.Error("errors of cmd count, and errors of runtime do not")
	}
}

// TestPlainSentences checks that the style guide's sentences match no pattern.
func TestPlainSentences(t *testing.T) {
	for _, text := range []string{
		"If authentication fails in either direction, the command exits with code 5.",
		"For a finished job, the command waits up to 60 s for the node to return the rest of the output.",
		"Without Landlock, a task can do anything its user can.",
		"Operators run drain, cordon and note.", "If unset, no traces are exported.",
		"A latest start time that was already published still holds.",
		"Every waiting job shows why it is waiting and what change would let it start.",
		"The longest-waiting job gets a start guarantee after 5 s.", "What is a gang?", "Where are the logs?",
	} {
		for _, s := range sentences("x.md", 1, docs, text) {
			for _, r := range rules {
				if r.count(s) > 0 {
					t.Errorf("%s is found in %q", r.name, text)
				}
			}
		}
	}
}

// TestReadMarkdown checks that code, quotations and addresses are skipped, and that each table cell is read separately.
func TestReadMarkdown(t *testing.T) {
	page := "# Told\n\nOne sentence\ngoes here. Another says “told” and `told` and [a link](told.md).\n\n" +
		"```text\ntold\n```\n\n| a cell | `a|b` told |\n|---|---|\n- an item\n- another\n<!-- told -->\n"
	var got []string
	for _, s := range readMarkdown("docs/x.md", page) {
		got = append(got, s.text)
	}
	want := "Told/One sentence goes here./Another says QUOTE and CODE and a link./a cell/CODE told/an item/another"
	if strings.Join(got, "/") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "/"), want)
	}
}

// TestReadGo checks that help, errors and doc comments are found, and that joined strings are one text.
func TestReadGo(t *testing.T) {
	found, err := readGo("cmd/x/x.go", []byte("package x\n\n// F does it.\nfunc F() {\n"+
		"\tc := cobra.Command{Short: \"show \" +\n\"jobs\", Long: \"Two:\\n  a  one\\n     row\\n  b  two\"}\n"+
		"\tf.StringVar(&a, \"b\", \"\", \"the file of it\")\n"+
		"\treturn fmt.Errorf(\"no file %q\", x)\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range found {
		got = append(got, string(s.surface)+" "+s.text)
	}
	want := "comment F does it./help show jobs/help Two:/help a one row/help b two/help the file of it/error no file %q"
	if strings.Join(got, "/") != want {
		t.Errorf("got %s, want %s", strings.Join(got, "/"), want)
	}
}

// TestReadWeb checks that labels of two words are read, and names of classes are not.
func TestReadWeb(t *testing.T) {
	found := readWeb("server/web/page/x.js", "// a comment here\nsay('Lost its way', 'class-name', `${n} of them`)\n")
	if len(found) != 2 || found[0].text != "Lost its way" || found[1].text != "X of them" {
		t.Errorf("got %v", found)
	}
}

// TestCeilings checks that a count above the ceiling is found, and so is a ceiling that could be lower.
func TestCeilings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ceilings.txt")
	err := writeCeilings(path, map[string]ceiling{"told": {30, 10}}, map[string]int{"told": 40, "beside": 3})
	if err != nil {
		t.Fatal(err)
	}
	ceilings, err := readCeilings(path)
	if err != nil || ceilings["told"] != (ceiling{30, 10}) || ceilings["beside"] != (ceiling{3, 0}) {
		t.Fatalf("%v: %v", err, ceilings)
	}
	counts := map[string]int{}
	for _, r := range rules {
		counts[r.name] = ceilings[r.name].most
	}
	if findings, notes := compare(ceilings, counts); findings != nil || notes != nil {
		t.Errorf("at the ceilings: %v, %v", findings, notes)
	}
	for name, n := range map[string]int{"told": 31, "beside": 2} {
		changed := map[string]int{}
		for k, v := range counts {
			changed[k] = v
		}
		changed[name] = n
		findings, notes := compare(ceilings, changed)
		if all := append(findings, notes...); len(all) != 1 || !strings.HasPrefix(all[0], name+": ") ||
			len(findings) == 1 != (n > counts[name]) {
			t.Errorf("%s at %d: %v, %v", name, n, findings, notes)
		}
	}
	if err := os.WriteFile(path, []byte("told many 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readCeilings(path); err == nil {
		t.Error("an invalid ceiling is accepted")
	}
}

// TestSubjects checks that a subject is an area, a colon and an imperative in one short line. Old commits are not
// checked.
func TestSubjects(t *testing.T) {
	dir := t.TempDir()
	commit := func(subject string) {
		t.Helper()
		_, err := git(dir, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", subject)
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := git(dir, "init", "-q"); err != nil {
		t.Fatal(err)
	}
	commit("Hardly less")
	if err := os.MkdirAll(filepath.Join(dir, "tools/prose"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tools/prose/ceilings.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := git(dir, "add", "."); err != nil {
		t.Fatal(err)
	}
	commit("tools: check prose")
	commit("docs/quality: correct the cost comparison")
	if findings := checkSubjects(dir); findings != nil {
		t.Errorf("good subjects: %v", findings)
	}
	commit("Hardly less again")
	commit("docs: " + strings.Repeat("x", maxSubject))
	if findings := checkSubjects(dir); len(findings) != 2 {
		t.Errorf("two bad subjects: %v", findings)
	}
	if findings := checkSubjects(t.TempDir()); findings != nil {
		t.Errorf("no history: %v", findings)
	}
}

// TestDraw checks that a seed draws the same sentences again, and that labels are left out.
func TestDraw(t *testing.T) {
	all := []sentence{{"a.md", 1, docs, "Too short"}}
	for i := range 50 {
		all = append(all, sentence{"a.md", i, docs, "a sentence of five words"},
			sentence{"b.go", i, help, "a text of five words"})
	}
	first, again := draw(all, 10, 7), draw(all, 10, 7)
	if len(first) != 4 || len(again) != 4 {
		t.Fatalf("%d and %d sentences", len(first), len(again))
	}
	for i := range first {
		if first[i] != again[i] || len(strings.Fields(first[i].text)) < leastWords {
			t.Errorf("%v, then %v", first[i], again[i])
		}
	}
}
