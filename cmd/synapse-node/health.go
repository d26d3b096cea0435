package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/yi-json/synapse/cmd/internal/doctor"
	"github.com/yi-json/synapse/cmd/internal/settings"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/spelling"
	"github.com/yi-json/synapse/runtime/gpu"
	"github.com/yi-json/synapse/runtime/health"
	"github.com/yi-json/synapse/runtime/hook"
	"github.com/yi-json/synapse/runtime/procgroup"
)

// This file reads the section `health` of the node's settings file: the checks and their settings.

// builtIn lists the checks that need no program, with their keys other than timeout and when.
var builtIn = map[string][]string{
	"gpus": nil, "disk": {"path", "min"}, "memory": {"min"}, "mount": {"path"}, "clock": {"max"}, "ports": {"cards"},
}

// occasionWords lists the words of `when` in the order of their bits.
var occasionWords = []string{"join", "prepare", "failure"}

const (
	maxChecks    = 32
	maxCheckTime = 10 * time.Minute
)

// checkSettings is one entry of the section.
type checkSettings struct {
	name, check string
	command     []string
	timeout     time.Duration
	when        health.Occasion
	path        string
	least       int64
	most        time.Duration
	cards       []string
	set         []string // the given keys
}

// healthSection returns the section. Reading the section appends its entries to *to.
func healthSection(to *[]*checkSettings) settings.Section {
	return settings.Section{
		Name: "health",
		Entries: func() (names []string) {
			for _, c := range *to {
				names = append(names, c.name)
			}
			return names
		},
		Entry: func(name string) ([]settings.Key, error) {
			if i := slices.IndexFunc(*to, func(c *checkSettings) bool { return c.name == name }); i >= 0 {
				return (*to)[i].keys(), nil
			}
			if err := settings.CheckEntry(name); err != nil {
				return nil, fmt.Errorf("is not a check name: %w", err)
			}
			if len(*to) == maxChecks {
				return nil, fmt.Errorf("exceeds the limit of %d checks per node", maxChecks)
			}
			c := &checkSettings{name: name, timeout: 30 * time.Second, when: health.Join | health.Failure,
				most: 5 * time.Second}
			*to = append(*to, c)
			return c.keys(), nil
		},
		Check: func(name string) error {
			i := slices.IndexFunc(*to, func(c *checkSettings) bool { return c.name == name })
			return (*to)[i].valid()
		},
	}
}

// keys returns the keys of one check.
func (c *checkSettings) keys() []settings.Key {
	given := func(name string) { c.set = append(c.set, name) }
	text := func(name string, to *string, good func(string) error) settings.Key {
		return settings.Key{Name: name, Get: func() string { return *to }, Set: func(text string) error {
			given(name)
			*to = text
			return good(text)
		}}
	}
	list := func(name string, to *[]string) settings.Key {
		shown := func() string { return settings.ListText(*to) }
		return settings.Key{Name: name, Get: shown, List: func(texts []string) error {
			given(name)
			*to = texts
			return nil
		}}
	}
	span := func(name string, to *time.Duration) settings.Key {
		return settings.Key{Name: name, Get: func() string { return to.String() }, Set: func(text string) (err error) {
			given(name)
			if *to, err = time.ParseDuration(text); err != nil || *to < time.Millisecond || *to > maxCheckTime {
				return fmt.Errorf("must be a duration up to %s, such as 20s", maxCheckTime)
			}
			return nil
		}}
	}
	return []settings.Key{
		text("check", &c.check, func(text string) error {
			if _, ok := builtIn[text]; !ok {
				return errors.New("is not a known check; " + spelling.Meant(text, builtInNames()))
			}
			return nil
		}),
		list("command", &c.command), span("timeout", &c.timeout),
		{Name: "when", Get: func() string { return settings.ListText(wordsOf(c.when)) }, List: c.setWhen},
		text("path", &c.path, func(text string) error {
			if !filepath.IsAbs(text) {
				return errors.New("must be an absolute path")
			}
			return nil
		}),
		{Name: "min", Get: func() string { return fmt.Sprint(c.least) }, Set: func(text string) (err error) {
			given("min")
			c.least, err = parseBytes(text)
			return err
		}},
		span("max", &c.most), list("cards", &c.cards),
	}
}

// setWhen parses the occasions of a check.
func (c *checkSettings) setWhen(words []string) error {
	c.when = 0
	for _, word := range words {
		i := slices.Index(occasionWords, word)
		if i < 0 {
			return fmt.Errorf("unknown occasion %q; %s", word, spelling.Meant(word, occasionWords))
		}
		c.when |= 1 << i
	}
	return nil
}

func builtInNames() (all []string) {
	for name := range builtIn { //order: sorted below
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

func wordsOf(when health.Occasion) (words []string) {
	for i, word := range occasionWords {
		if when&(1<<i) != 0 {
			words = append(words, word)
		}
	}
	return words
}

// valid refuses a check without a target, or with two. It also refuses a program that other users could change, so
// that the agent does not run their code.
func (c *checkSettings) valid() error {
	if (c.check == "") == (len(c.command) == 0) {
		return fmt.Errorf("needs one of command and check (%s)", strings.Join(builtInNames(), ", "))
	}
	if c.check == "" {
		for _, key := range c.set {
			if slices.Contains([]string{"path", "min", "max", "cards"}, key) {
				return fmt.Errorf("%s is allowed for built-in checks only; pass arguments in the command", key)
			}
		}
		return procgroup.Program{Command: c.command}.Check()
	}
	goesBy := builtIn[c.check]
	for _, key := range c.set {
		if key != "check" && key != "timeout" && !slices.Contains(goesBy, key) {
			return fmt.Errorf("check: %s does not support %s", c.check, key)
		}
	}
	for _, key := range []string{"path", "min"} {
		if slices.Contains(goesBy, key) && !slices.Contains(c.set, key) {
			return fmt.Errorf("check: %s requires %s", c.check, key)
		}
	}
	return nil
}

// newHealth creates the runner of the configured checks.
func (o *options) newHealth(gpus *devices, around *hook.Around, tell func(*messages.MachineHealth),
) (*health.Runner, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	of := health.Options{Tell: tell}
	for _, c := range o.health {
		of.Checks = append(of.Checks, health.Check{Name: c.name, When: c.when, Look: o.lookOf(c, self, gpus)})
	}
	if around != nil {
		of.Checks = append(of.Checks, health.Check{Name: "hooks", When: health.Join | health.Aside, Look: around.Look})
	}
	return health.New(of), nil
}

// checkHooks refuses programs that other users could change.
func (o *options) checkHooks() error {
	for flag, path := range map[string]string{"--prolog": o.prolog, "--epilog": o.epilog} {
		if path == "" {
			continue
		}
		if err := (procgroup.Program{Command: []string{path}}).Check(); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
	}
	if o.prolog+o.epilog != "" && (o.hookTimeout < time.Second || o.hookTimeout > maxHookTime) {
		return fmt.Errorf("--hook-timeout %s: must be from 1s to %s", o.hookTimeout, maxHookTime)
	}
	return nil
}

// maxHookTime limits prolog and epilog, because the node waits for them.
const maxHookTime = time.Hour

// newAround returns the runner of prolog and epilog, or nil if none is configured or still due.
func (o *options) newAround(dir string, failed func()) (*hook.Around, error) {
	if _, err := os.Stat(dir); o.prolog == "" && o.epilog == "" && err != nil {
		return nil, nil
	}
	of := hook.AroundOptions{Dir: dir, Failed: failed}
	if o.prolog != "" {
		of.Prolog = procgroup.Program{Command: []string{o.prolog}, Timeout: o.hookTimeout}
	}
	if o.epilog != "" {
		of.Epilog = procgroup.Program{Command: []string{o.epilog}, Timeout: o.hookTimeout}
	}
	return hook.OpenAround(of)
}

// lookOf returns the function of a check.
func (o *options) lookOf(c *checkSettings, self string, gpus *devices) func(context.Context) (<-chan struct{}, error) {
	within := func(look func(context.Context) (<-chan struct{}, error)) func(context.Context) (<-chan struct{}, error) {
		return func(ctx context.Context) (<-chan struct{}, error) {
			ctx, cancel := context.WithTimeout(ctx, c.timeout)
			defer cancel()
			return look(ctx)
		}
	}
	switch c.check {
	case "gpus":
		return within(gpus.examine(c.timeout))
	case "disk":
		return health.Disk(self, c.path, c.least, c.timeout)
	case "memory":
		return health.Memory("/", c.least)
	case "mount":
		return health.Mounted(self, c.path, c.timeout)
	case "clock":
		return within(health.Clock(c.most, func(ctx context.Context) (time.Duration, error) {
			return o.clockOff(ctx)
		}))
	case "ports":
		return health.Ports("/", c.cards)
	}
	return procgroup.Program{Command: c.command, Timeout: c.timeout}.Run
}

// examine checks that NVIDIA's devices match the announced ones. It uses a separate finder, because the watch may
// call the same program concurrently.
func (d *devices) examine(limit time.Duration) func(context.Context) (<-chan struct{}, error) {
	var ids []string
	for _, f := range d.found.Devices {
		if !f.Gpu.Declared {
			ids = append(ids, f.Gpu.Id)
		}
	}
	finder := gpu.New(gpu.Options{Timeout: limit})
	return func(ctx context.Context) (<-chan struct{}, error) { return nil, finder.Examine(ctx, ids) }
}

// clockOff asks the schedulers in turn for the time, until one answers.
func (o *options) clockOff(ctx context.Context) (off time.Duration, err error) {
	config, _ := newExaminer(o).certificate()
	for _, at := range o.join {
		if off, err = doctor.Offset(ctx, at, config, time.Now); err == nil {
			return off, nil
		}
	}
	return 0, fmt.Errorf("no scheduler says what time it is: %w", err)
}
