// Package doctor is what examinations have in common, of a machine and of a client: what a finding is, how findings are
// shown, and what can be seen of a scheduler from outside. It changes nothing, and decides nothing for a program.
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

// This file owns findings, and what can be seen of a scheduler.

// The verdicts.
const (
	Well    = "ok"
	Doubt   = "warn" // it works, and may surprise
	Trouble = "FAIL"
)

// Finding is what one check found. Way is the way out; each finding that is not well has one.
type Finding struct {
	Check   string `json:"check"`
	Verdict string `json:"verdict"`
	Words   string `json:"text"`
	Way     string `json:"fix,omitempty"`
}

// OK is a finding that all is well.
func OK(check, format string, args ...any) Finding {
	return Finding{Check: check, Verdict: Well, Words: fmt.Sprintf(format, args...)}
}

// Warn is one of what works, and may surprise.
func Warn(check, way, format string, args ...any) Finding {
	return Finding{Check: check, Verdict: Doubt, Words: fmt.Sprintf(format, args...), Way: way}
}

// Fail is one of what does not work.
func Fail(check, way, format string, args ...any) Finding {
	return Finding{Check: check, Verdict: Trouble, Words: fmt.Sprintf(format, args...), Way: way}
}

// Report shows findings, as lines or as JSON, and fails where one of them is trouble.
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

// within bounds each look at a scheduler.
const within = 5 * time.Second

// Of a clock that differs: a certificate begins 10 minutes back, so more than that keeps people and machines out.
const (
	noticed = 5 * time.Second
	harmful = 2 * time.Minute
)

// Scheduler is what can be seen of one from here: whether it is reached, what it speaks, whether it leads, and what its
// clock says. Config is for TLS; nil: plaintext is expected.
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

// asker is how a scheduler's pages are asked for, by plain HTTP or by TLS.
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

// Offset is how far this machine's clock is from a scheduler's, to the second.
func Offset(ctx context.Context, address string, config *tls.Config, now func() time.Time) (time.Duration, error) {
	_, ask := asker(ctx, address, config)
	got, err := ask("/healthz")
	if err != nil {
		return 0, err
	}
	return offset(got.Header.Get("Date"), now())
}

// offset is how far a time is from a date, which has whole seconds.
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

// skew holds this machine's clock against what a scheduler says. Its date has whole seconds.
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
