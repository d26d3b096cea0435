package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/cmd/internal/settings"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/spelling"
	"github.com/yi-json/synapse/runtime/procgroup"
	"github.com/yi-json/synapse/server/notifications"
)

// This file reads the section `notify` of the settings file: notifications by a program or a webhook.

const (
	maxRules        = 32
	maxNotifyTime   = 5 * time.Minute
	usualNotifyTime = 10 * time.Second
)

// endPhases lists the final phases of a job.
var endPhases = []string{
	messages.PhaseSucceeded, messages.PhaseFailed, messages.PhaseCancelled, messages.PhaseTimedOut,
}

// ruleSettings is one entry of the section.
type ruleSettings struct {
	name                         string
	on, outcomes, queues, owners []string
	command                      []string
	webhook, tokenFile           string
	timeout                      time.Duration
}

// notifySection returns the section. Reading the section appends its entries to *to.
func notifySection(to *[]*ruleSettings) settings.Section {
	find := func(name string) *ruleSettings {
		if i := slices.IndexFunc(*to, func(r *ruleSettings) bool { return r.name == name }); i >= 0 {
			return (*to)[i]
		}
		return nil
	}
	return settings.Section{
		Name: "notify",
		Entries: func() (names []string) {
			for _, r := range *to {
				names = append(names, r.name)
			}
			return names
		},
		Entry: func(name string) ([]settings.Key, error) {
			if r := find(name); r != nil {
				return r.keys(), nil
			}
			if err := settings.CheckEntry(name); err != nil {
				return nil, fmt.Errorf("is not a rule name: %w", err)
			}
			if len(*to) == maxRules {
				return nil, fmt.Errorf("exceeds the limit of %d rules", maxRules)
			}
			r := &ruleSettings{name: name, timeout: usualNotifyTime}
			*to = append(*to, r)
			return r.keys(), nil
		},
		Check: func(name string) error { return find(name).valid() },
	}
}

func (r *ruleSettings) keys() []settings.Key {
	list := func(name string, to *[]string, among []string) settings.Key {
		shown := func() string { return settings.ListText(*to) }
		return settings.Key{Name: name, Get: shown, List: func(texts []string) error {
			for _, text := range texts {
				if among != nil && !slices.Contains(among, text) {
					return fmt.Errorf("unknown value %q; %s", text, spelling.Meant(text, among))
				}
			}
			*to = texts
			return nil
		}}
	}
	return []settings.Key{
		list("on", &r.on, notifications.Kinds), list("outcomes", &r.outcomes, endPhases),
		list("queues", &r.queues, nil), list("owners", &r.owners, nil), list("command", &r.command, nil),
		{Name: "webhook", Get: func() string { return redacted(r.webhook) }, Set: func(text string) error {
			r.webhook = text
			return checkHookURL(text)
		}},
		{Name: "tokenFile", Get: func() string { return r.tokenFile }, Set: func(text string) error {
			if r.tokenFile = text; !filepath.IsAbs(text) {
				return errors.New("must be an absolute path")
			}
			return nil
		}},
		{Name: "timeout", Get: func() string { return r.timeout.String() }, Set: func(text string) (err error) {
			if r.timeout, err = time.ParseDuration(text); err != nil || r.timeout < time.Second || r.timeout > maxNotifyTime {
				return fmt.Errorf("must be a duration from 1s to %s, such as 20s", maxNotifyTime)
			}
			return nil
		}},
	}
}

// redacted returns a URL without its query, which may contain a secret.
func redacted(text string) string {
	where, query, _ := strings.Cut(text, "?")
	if query != "" {
		where += "?…"
	}
	return where
}

// checkHookURL refuses a URL over which others could read a notification. It accepts https, and http on loopback.
func checkHookURL(text string) error {
	at, err := url.Parse(text)
	if err != nil || at.Host == "" || at.User != nil || at.Fragment != "" {
		return errors.New("must be a URL such as https://hooks.example.org/page, without a password: put a token into " +
			"tokenFile")
	}
	return checkUnread(at)
}

// checkUnread refuses a URL over which others could read the data.
func checkUnread(at *url.URL) error {
	ip, err := netip.ParseAddr(at.Hostname())
	if at.Scheme != "https" && (at.Scheme != "http" || err != nil || !ip.IsLoopback()) {
		return errors.New("must begin with https:// (http:// only for a loopback address)")
	}
	return nil
}

// valid refuses a rule without events or without a receiver. It also refuses a program that other users could
// change, so that the scheduler does not run their code.
func (r *ruleSettings) valid() error {
	ofJobs := slices.Contains(r.on, notifications.JobOver) || slices.Contains(r.on, notifications.PromiseBroken)
	switch {
	case len(r.on) == 0:
		return fmt.Errorf("on: is missing: use one of %s", strings.Join(notifications.Kinds, ", "))
	case (r.webhook == "") == (len(r.command) == 0):
		return errors.New("needs one of command and webhook")
	case r.tokenFile != "" && r.webhook == "":
		return errors.New("tokenFile: requires webhook")
	case len(r.outcomes) > 0 && !slices.Contains(r.on, notifications.JobOver):
		return fmt.Errorf("outcomes: requires on: %s", notifications.JobOver)
	case len(r.queues)+len(r.owners) > 0 && !ofJobs:
		return errors.New("queues and owners: require an event of jobs")
	case r.webhook == "":
		return procgroup.Program{Command: r.command}.Check()
	}
	return nil
}

// tell returns the function that sends the rule's notifications.
func (r *ruleSettings) tell() func(context.Context, *notifications.Notification) error {
	if r.webhook != "" {
		return notifications.Webhook{URL: r.webhook, TokenFile: r.tokenFile, Timeout: r.timeout}.Tell
	}
	return func(ctx context.Context, n *notifications.Notification) error {
		text, err := json.Marshal(n)
		if err != nil {
			return err
		}
		_, err = procgroup.Program{Command: r.command, Timeout: r.timeout, Input: text, Env: append(programEnv(),
			"SYNAPSE_EVENT="+n.Event, "SYNAPSE_TEXT="+n.Text, "SYNAPSE_NOTIFICATION_ID="+n.ID)}.Run(ctx)
		return err
	}
}

// programEnv returns the environment of a notification program, without the scheduler's passwords.
func programEnv() (env []string) {
	for _, name := range []string{"PATH", "HOME", "LANG", "TZ"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// notifies starts to send notifications for the time in which this process leads.
func (s *scheduler) notifies(ctx context.Context) {
	if len(s.options.notify) == 0 {
		return
	}
	o := notifications.Options{
		Cluster: s.cluster, API: s.itself(), WallMs: s.host.Clock().WallMs, Log: s.log.Info,
	}
	if s.options.store != storeMemory {
		o.Dir = s.dataDir
	}
	for _, r := range s.options.notify {
		if warning := identity.Exposed(r.tokenFile); warning != "" {
			s.log.Warn("notify: %s: tokenFile: %s", r.name, warning)
		}
		o.Rules = append(o.Rules, notifications.Rule{
			Name: r.name, On: r.on, Outcomes: r.outcomes, Queues: r.queues, Owners: r.owners, Tell: r.tell(),
		})
	}
	go notifications.New(o).Run(ctx)
}
