// Package doctor contains the common code of the checks of a node and of a client: the findings, their output, and
// the checks of a scheduler from outside. It changes nothing.
package doctor

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// This file defines findings, and the checks of a scheduler.

// The verdicts.
const (
	Well    = "ok"
	Doubt   = "warn" // works, but may cause surprises
	Trouble = "FAIL"
)

// Finding is the result of one check. Way is the suggested fix. Each finding that is not OK has one.
type Finding struct {
	Check   string `json:"check"`
	Verdict string `json:"verdict"`
	Words   string `json:"text"`
	Way     string `json:"fix,omitempty"`
}

// OK returns a finding without a problem.
func OK(check, format string, args ...any) Finding {
	return Finding{Check: check, Verdict: Well, Words: fmt.Sprintf(format, args...)}
}

// Warn returns a finding about something that works but may cause surprises.
func Warn(check, way, format string, args ...any) Finding {
	return Finding{Check: check, Verdict: Doubt, Words: fmt.Sprintf(format, args...), Way: way}
}

// Fail returns a finding about something that does not work.
func Fail(check, way, format string, args ...any) Finding {
	return Finding{Check: check, Verdict: Trouble, Words: fmt.Sprintf(format, args...), Way: way}
}

// Report prints findings as text or JSON, and returns an error if one of them is a failure.
func Report(to io.Writer, asJSON bool, all []Finding) error {
	failed := 0
	for _, f := range all {
		if f.Verdict == Trouble {
			failed++
		}
	}
	if asJSON {
		text, err := json.MarshalIndent(map[string]any{
			"apiVersion": "synapse/v1", "kind": "Examination", "findings": all, "failed": failed,
		}, "", "  ")
		if err != nil {
			return err
		}
		fmt.Fprintf(to, "%s\n", text)
	} else {
		for _, f := range all {
			fmt.Fprintf(to, "%-4s  %-14s  %s\n", f.Verdict, f.Check, f.Words)
			if f.Way != "" {
				fmt.Fprintf(to, "%22s  %s\n", "", f.Way)
			}
		}
	}
	switch failed {
	case 0:
		return nil
	case 1:
		return errors.New("one check failed")
	}
	return fmt.Errorf("%d checks failed", failed)
}

// within limits each request to a scheduler.
const within = 5 * time.Second

// The limits for a clock difference. A certificate is valid from 10 minutes before its creation, so a larger
// difference makes new certificates invalid.
const (
	noticed = 5 * time.Second
	harmful = 2 * time.Minute
)

// Scheduler checks a scheduler from here: whether it is reachable, its protocol, whether it leads, and its clock.
// config is for TLS; nil: plaintext is expected.
func Scheduler(ctx context.Context, address string, config *tls.Config, now func() time.Time) []Finding {
	check := "scheduler"
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return []Finding{Fail(check, "check that the scheduler is running, that its --listen address is reachable "+
			"from here, and that no packet filter blocks it", "%s is not reachable: %v", address, err)}
	}
	raw.Close()
	scheme, ask := asker(ctx, address, config)
	got, err := ask("/healthz")
	switch {
	case errors.Is(err, http.ErrSchemeMismatch):
		return []Finding{Fail(check, "omit --tls, or start the scheduler with --tls",
			"%s uses plaintext, and TLS is expected", address)}
	case err != nil && config == nil:
		return []Finding{Fail(check, "add --tls if the scheduler uses TLS; otherwise check which program listens there",
			"%s does not answer plain HTTP: %v", address, err)}
	case err != nil:
		return []Finding{Fail(check, "check that it is the scheduler of this cluster, and that both clocks are correct",
			"%s rejects the connection, or cannot prove its identity: %v", address, err)}
	case got.StatusCode != http.StatusOK:
		return []Finding{Fail(check, "check whether another program or an older version listens there",
			"%s answers /healthz with %s", address, got.Status)}
	}
	all := []Finding{OK(check, "%s is reachable (%s)", address, scheme)}
	all = append(all, skew(got.Header.Get("Date"), now()))
	if got, err := ask("/readyz"); err == nil && got.StatusCode != http.StatusOK {
		all = append(all, Warn(check, "ignore this for a standby scheduler; otherwise read its log",
			"%s does not accept jobs now", address))
	}
	return all
}

// asker returns the URL scheme and the client for the pages of a scheduler, for plain HTTP or TLS.
func asker(ctx context.Context, address string, config *tls.Config) (scheme string,
	ask func(path string) (*http.Response, error)) {
	scheme = "http"
	transport := &http.Transport{DisableKeepAlives: true}
	if config != nil {
		scheme = "https"
		transport.TLSClientConfig = config.Clone()
		transport.TLSClientConfig.NextProtos = []string{"http/1.1"}
	}
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	return scheme, func(path string) (*http.Response, error) {
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+path, nil)
		if err != nil {
			return nil, err
		}
		got, err := client.Do(q)
		if err == nil {
			got.Body.Close()
		}
		return got, err
	}
}

// Offset returns the difference between this host's clock and a scheduler's, in whole seconds.
func Offset(ctx context.Context, address string, config *tls.Config, now func() time.Time) (time.Duration, error) {
	_, ask := asker(ctx, address, config)
	got, err := ask("/healthz")
	if err != nil {
		return 0, err
	}
	return offset(got.Header.Get("Date"), now())
}

// offset returns the difference between a time and a date in whole seconds.
func offset(date string, now time.Time) (time.Duration, error) {
	theirs, err := http.ParseTime(date)
	if err != nil {
		return 0, err
	}
	off := now.Sub(theirs)
	if off > 0 {
		off = max(off-time.Second, 0)
	}
	return off, nil
}

// skew compares this host's clock with the Date header of a scheduler, which has whole seconds.
func skew(date string, now time.Time) Finding {
	off, err := offset(date, now)
	if err != nil {
		return Warn("clock", "compare the clocks manually", "scheduler sends no time")
	}
	switch size := off.Abs(); {
	case size >= harmful:
		return Fail("clock", "set the clock, and run chrony or systemd-timesyncd",
			"clock differs by %s from the scheduler's: certificates may be rejected as expired or not yet valid", off)
	case size >= noticed:
		return Warn("clock", "run chrony or systemd-timesyncd",
			"clock differs by %s from the scheduler's: times in logs do not match", off)
	}
	return OK("clock", "clock agrees with the scheduler's")
}
