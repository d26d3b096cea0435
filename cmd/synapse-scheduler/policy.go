package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/yi-json/synapse/cmd/internal/settings"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/spelling"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/policy/share"
)

// This file reads the section `policy` of the settings file: the keys, their ranges, and their combinations.

// orders maps the words for the order, and always lists the keys that every order uses. A key that the configured
// order does not use is refused, because it would have no effect.
var (
	orders = []string{"expected", "fifo"}
	always = []string{"order", "defaultTimeLimit"}
)

func policySection(to *policy.Settings) settings.Section {
	return settings.Section{Name: "policy", Keys: policyKeys(to), Check: func(name string) error {
		if to.Order == share.Expected || slices.Contains(always, name) {
			return nil
		}
		return errors.New("requires `order: expected`, and the order is fifo; omit one of them")
	}}
}

// policyKeys returns all keys of the policy.
func policyKeys(to *policy.Settings) []settings.Key {
	const day = 24 * time.Hour
	return []settings.Key{
		{Name: "order", Set: orderOf(&to.Order), Get: func() string {
			if to.Order == share.Expected {
				return "expected"
			}
			return "fifo"
		}},
		{Name: "plannedStarts", Keys: []settings.Key{
			numberIn("singles", &to.PromisesOnes, 0, 100), numberIn("gangs", &to.PromisesGangs, 0, 100),
		}},
		numberIn("antiStarvationShare", &to.GuardPercent, 0, 50),
		numberIn("shortJobShare", &to.HeadroomPercent, 0, 90),
		spanIn("topologyWait", &to.Locality, time.Second, day),
		spanIn("maxTopologyWait", &to.LocalityMost, time.Second, day),
		spanIn("maxReservation", &to.KeepMost, time.Minute, 366*day),
		spanIn("defaultTimeLimit", &to.DefaultLimit, time.Second, messages.MaxDurationMs*time.Millisecond),
	}
}

// orderOf parses an order.
func orderOf(to *share.Order) func(string) error {
	return func(text string) error {
		if !slices.Contains(orders, text) {
			return errors.New("is not a known order; " + spelling.Meant(text, orders))
		}
		if *to = share.Expected; text == "fifo" {
			*to = share.FIFO
		}
		return nil
	}
}

// spanIn parses 0, which means none, or a duration within a range.
func spanIn(name string, to *time.Duration, least, most time.Duration) settings.Key {
	return settings.Key{Name: name, Get: func() string { return to.String() }, Set: func(text string) error {
		d, err := time.ParseDuration(text)
		switch {
		case err != nil:
			return errors.New("is not a duration; write 90s, 30m or 24h")
		case d != 0 && (d < least || d > most):
			return fmt.Errorf("must be 0, or from %s to %s", least, most)
		}
		*to = d
		return nil
	}}
}

// numberIn parses an integer within a range.
func numberIn[N int | int64](name string, to *N, least, most N) settings.Key {
	return settings.Key{Name: name, Get: func() string { return fmt.Sprint(*to) }, Set: func(text string) error {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || N(n) < least || N(n) > most || strconv.FormatInt(n, 10) != text {
			return fmt.Errorf("must be a whole number from %d to %d", least, most)
		}
		*to = N(n)
		return nil
	}}
}
