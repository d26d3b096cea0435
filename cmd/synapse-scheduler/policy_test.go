package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/yi-json/synapse/cmd/internal/settings"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/policy/share"
)

// This file tests the section `policy`.

// readPolicy reads a settings file.
func readPolicy(t *testing.T, text string) (policy.Settings, error) {
	t.Helper()
	s := policy.DefaultSettings()
	err := readSection(t, text, policySection(&s))
	return s, err
}

// readSection reads a settings file with one section.
func readSection(t *testing.T, text string, section settings.Section) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f := pflag.NewFlagSet("scheduler", pflag.ContinueOnError)
	settings.Flag(f)
	f.String("listen", "", "")
	if err := f.Parse([]string{"--config", path}); err != nil {
		t.Fatal(err)
	}
	_, err := settings.Apply(f, "S_", func(string) (string, bool) { return "", false }, section)
	return err
}

func TestPolicySection(t *testing.T) {
	got, err := readPolicy(t,
		"listen: 127.0.0.1:1\npolicy:\n  order: fifo\n  defaultTimeLimit: 36h # of jobs without one\n")
	want := policy.DefaultSettings()
	if want.Order, want.DefaultLimit = share.FIFO, 36*time.Hour; err != nil || got != want {
		t.Errorf("%+v (%v)", got, err)
	}
	got, err = readPolicy(t,
		"policy: {antiStarvationShare: 7, shortJobShare: 0, plannedStarts: {singles: 3, gangs: 0}, topologyWait: 90s, "+
			"maxTopologyWait: 5m, maxReservation: 12h}")
	want = policy.DefaultSettings()
	want.PromisesOnes, want.PromisesGangs, want.GuardPercent, want.HeadroomPercent = 3, 0, 7, 0
	want.Locality, want.LocalityMost, want.KeepMost = 90*time.Second, 5*time.Minute, 12*time.Hour
	if err != nil || got != want {
		t.Errorf("%+v (%v)", got, err)
	}
	got, err = readPolicy(t, "listen: a:1\n")
	if err != nil || got != policy.DefaultSettings() || got.Order != share.Expected {
		t.Errorf("a file without the section: %+v (%v)", got, err)
	}
}

func TestPolicySectionRefuses(t *testing.T) {
	for _, c := range []struct {
		text string
		want string
	}{
		{"policy:\n  ordre: fifo\n", `s.yaml:2:3: policy.ordre: unknown setting; did you mean "order"?`},
		{"policy:\n  antiStarvationShare: 5\n  order: fifo\n",
			"s.yaml:2:3: policy.antiStarvationShare: requires `order: expected`, and the order is fifo; " +
				"omit one of them"},
		{"policy:\n  order: fifo\n  plannedStarts: {singles: 2}\n",
			"s.yaml:3:3: policy.plannedStarts: requires `order: expected`"},
		{"policy:\n  order: fiof\n", `s.yaml:2:10: policy.order: "fiof" is not a known order; did you mean "fifo"?`},
		{"policy:\n  order: shortest\n",
			`s.yaml:2:10: policy.order: "shortest" is not a known order; use expected, fifo`},
		{"policy:\n  order: fifo\n  order: fifo\n",
			`s.yaml:3:3: policy.order: duplicate key: first set in line 2`},
		{"policy: 5\n", `s.yaml:1:9: policy: must be a mapping of keys: order, plannedStarts, antiStarvationShare`},
		{"policy:\n", `s.yaml:1:8: policy: must be a mapping of keys`},
		{"policy: {order: }\n", `s.yaml:1:17: policy.order: is empty`},
		{"policy: {order: [fifo]}\n", `s.yaml:1:17: policy.order: must be a plain value`},
		{"policy: {order: &a fifo}\n", `s.yaml:1:17: policy.order: must be a plain value`},
		{"policy: {order: !x fifo}\n", `s.yaml:1:17: policy.order: must be a plain value`},
		{"policy: {[a]: fifo}\n", `s.yaml:1:10: policy: keys must be strings`},
		{"policy: {defaultTimeLimit: 24}\n",
			`s.yaml:1:28: policy.defaultTimeLimit: "24" is not a duration; write 90s, 30m or 24h`},
		{"policy: {defaultTimeLimit: -1h}\n", `policy.defaultTimeLimit: "-1h" must be 0, or from 1s to 87840h0m0s`},
		{"policy: {defaultTimeLimit: 1ms}\n", `must be 0, or from 1s to`},
		{"policy: {antiStarvationShare: 51}\n", `s.yaml:1:31: policy.antiStarvationShare: "51" must be a whole number from 0 to 50`},
		{"policy: {antiStarvationShare: 5%}\n", `"5%" must be a whole number from 0 to 50`},
		{"policy: {shortJobShare: 1e1}\n", `"1e1" must be a whole number from 0 to 90`},
		{"policy: {plannedStarts: 3}\n", `s.yaml:1:25: policy.plannedStarts: must be a mapping of keys: singles, gangs`},
		{"policy: {plannedStarts: {gang: 3}}\n",
			`s.yaml:1:26: policy.plannedStarts.gang: unknown setting; did you mean "gangs"?`},
		{"policy: {topologyWait: 25h}\n", `"25h" must be 0, or from 1s to 24h0m0s`},
	} {
		got, err := readPolicy(t, c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
		if !strings.Contains(c.text, "order: fifo\n") && got != policy.DefaultSettings() {
			t.Errorf("%q: something was taken: %+v", c.text, got)
		}
	}
	_, err := readPolicy(t, "policy: {a: 1, ordre: 2, defaultTimeLimit: x}\n")
	if err == nil || strings.Count(err.Error(), "s.yaml:1:") != 3 {
		t.Errorf("three mistakes are told as %v", err)
	}
}
