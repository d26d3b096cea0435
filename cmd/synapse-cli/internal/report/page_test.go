package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/yi-json/synapse/sim/record"
)

// hostile lists names with special characters of HTML.
var hostile = []string{`<script>alert(1)</script>`, `"><img src=x onerror=y>`, `'&amp;</title>`, `]]>`, `{{.Title}}`, "", "javascript:alert(1)"}

// large returns replays under all policies with three runs each, and with drawings of the largest possible size.
func large() Replays {
	r := Replays{Record: hostile[1], Cluster: record.NewCluster([]int{8, 8}, 8)}
	for _, policy := range record.Policies() {
		for seed := range uint64(3) {
			p := &record.Picture{Step: 3600, Submits: 300 * 3600}
			for i := range record.MaxSteps {
				x := float64((i*7 + int(seed)*3) % 100)
				p.Steps = append(p.Steps, record.Step{Used: x / 100, Waiting: x * 200, Gangs: float64(i % 5),
					Near: float64(i%5) / 3})
			}
			for i := range record.MaxPromises {
				at := float64(i * 60)
				p.Promises = append(p.Promises, record.Told{Told: at, At: at + 3600, Started: at + float64(i)*3.7})
			}
			spread := record.Spread{Jobs: 100, Avg: 700, P50: 1, P90: 3000, P99: 90_000, Max: 900_000.5}
			for i := range 400 {
				if spread.Name = fmt.Sprintf("queue %d", i); i < len(hostile) {
					spread.Name, spread.Jobs = hostile[i], 1000-i
				}
				p.Queues = append(p.Queues, spread)
			}
			spread.Name, spread.Jobs = "9+", 1
			p.Sizes = []record.Spread{{Name: "1", Jobs: 99_999}, spread}
			gangs, rack := 5000.0, 0.5
			r.Results = append(r.Results, &record.Result{Policy: policy, Seed: seed, Waits: record.Waits{Jobs: 100_000},
				TooBig:       2,
				WaitMultiAvg: &gangs, Rack: &rack, WallS: float64(seed), PassMeanUs: 5, Picture: p})
		}
	}
	return r
}

// TestPageIsWhole checks that the largest page is small, loads nothing, and names every policy. Hostile names must
// not change the elements of the page.
func TestPageIsWhole(t *testing.T) {
	text, err := HTML(large())
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 5<<20 {
		t.Errorf("it has %d bytes", len(text))
	}
	if found := regexp.MustCompile(`(?i)https?:|<script|<img|<link|<iframe|url\(|@import|ZgotmplZ|NaN|Inf`).FindString(string(text)); found != "" {
		t.Errorf("it has %q", found)
	}
	got := elements(t, text)
	if got["svg"] != 6 || got["h2"] != 7 ||
		got["script"]+got["img"]+got["@src"]+got["@href"]+got["@style"]+got["@onerror"] != 0 {
		t.Errorf("its elements are %v", got)
	}
	for _, policy := range record.Policies() {
		if n := strings.Count(string(text), ">"+policy+"<"); n < 6 {
			t.Errorf("%s is named %d times", policy, n)
		}
	}
	if again, err := HTML(large()); err != nil || !bytes.Equal(text, again) {
		t.Errorf("%v: another page of the same replays", err)
	}
	slower := large()
	for _, r := range slower.Results {
		r.WallS, r.PassMeanUs = 99, 99
	}
	if again, err := HTML(slower); err != nil || !bytes.Equal(text, again) {
		t.Errorf("%v: another page on a slower machine", err)
	}
}

// elements counts the elements and the @attributes of a well-formed page.
func elements(t *testing.T, text []byte) map[string]int {
	t.Helper()
	all := map[string]int{}
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			all[e.Name.Local]++
			for _, a := range e.Attr {
				all["@"+a.Name.Local]++
			}
		}
	}
}

// TestPageOfNothing checks that a sentence replaces a drawing without data.
func TestPageOfNothing(t *testing.T) {
	r := Replays{Record: "none.csv", Cluster: record.NewCluster([]int{1}, 8),
		Results: []*record.Result{{Policy: "synapse", Picture: &record.Picture{}}}}
	text, err := HTML(r)
	if err != nil {
		t.Fatal(err)
	}
	elements(t, text)
	r.Results[0].Picture.Queues = []record.Spread{{Name: "research", Jobs: 5}}
	one, err := HTML(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{
		"0 jobs on 1 node with 8 GPUs in 1 rack.", "No job ended",
		"No policy of this replay estimates start times", "No gang was larger than a node",
	} {
		if !bytes.Contains(text, []byte(says)) {
			t.Errorf("it does not say %q", says)
		}
	}
	if !bytes.Contains(one, []byte("All ended jobs belong to one queue (research)")) {
		t.Error("one queue is not named")
	}
}

// TestWords checks the labels of times and axes.
func TestWords(t *testing.T) {
	for seconds, want := range map[float64]string{0: "0 s", 59: "59 s", 150: "2.5 min", 3600: "60 min", 7200: "2.0 h",
		90_000: "25 h", 500_000: "5.8 d", 5e6: "58 d"} {
		if got := long(seconds); got != want {
			t.Errorf("%v seconds are %q, and not %q", seconds, got, want)
		}
	}
	for most, want := range map[float64]string{1: "0 0.2 0.4 0.6 0.8 1", 7.5: "0 2 4 6", 12_345: "0 5000 10000"} {
		var words []string
		for _, tick := range evenTicks(most) {
			words = append(words, tick.word)
		}
		if got := strings.Join(words, " "); got != want {
			t.Errorf("an axis to %v has %v", most, got)
		}
	}
	if got := way([]point{{x: 1, y: 2}, {gap: true}, {x: 3, y: 4.04}, {x: 5, y: 6}}); got != "M1 2h0M3 4h0L5 6" {
		t.Errorf("the way is %s", got)
	}
}
