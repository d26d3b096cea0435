package slurm

import (
	"strconv"
	"strings"

	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/clients/go/scope"
	"github.com/yi-json/synapse/cmd/internal/sbatch"
	"github.com/yi-json/synapse/messages"
)

// This file parses the options for the start of a job: dependencies and the earliest time.

// ends maps Slurm's words to the required result of a dependency.
var ends = map[string]messages.AfterEnd{
	"afterok": messages.AfterEnd_AFTER_END_OK, "afterany": messages.AfterEnd_AFTER_END_ANY,
	"afternotok": messages.AfterEnd_AFTER_END_FAILED, "after": messages.AfterEnd_AFTER_END_STARTED,
	"aftercorr": messages.AfterEnd_AFTER_END_ELEMENT,
}

// dependency formats a dependency as Slurm does.
func dependency(a *messages.After) string {
	for word, end := range ends { //order: each end has one word
		if end == max(a.GetEnd(), messages.AfterEnd_AFTER_END_OK) {
			text := word + ":" + Number(a.GetJob())
			if a.GetDelayMs() > 0 {
				text += "+" + strconv.FormatInt((a.GetDelayMs()+59_999)/60_000, 10)
			}
			return text
		}
	}
	return ""
}

// setDependency accepts afterok:1:2,afterany:3,after:4+10. All conditions must hold.
func setDependency(b *Batch, value string) error {
	if strings.Contains(value, "?") {
		return refuse("separate dependencies with commas; all must be satisfied",
			"%s: alternatives with ? are not supported", value)
	}
	for _, part := range scope.Split(value, ",") {
		if part == "singleton" {
			b.Singleton = true
			continue
		}
		jobs := scope.Split(part, ":")
		end, known := ends[jobs[0]]
		if !known || len(jobs) < 2 {
			return refuse("use after, afterok, afterany, afternotok or aftercorr, with job IDs after colons", "%s", part)
		}
		for _, job := range jobs[1:] {
			job, minutes, delayed := strings.Cut(job, "+")
			if job == "" || delayed && end != messages.AfterEnd_AFTER_END_STARTED {
				return refuse("write a job ID only, such as afterok:123; only after:123+5 has minutes", "%s", part)
			}
			delay := int64(0)
			if delayed {
				n, err := sbatch.Number(minutes)
				if err != nil {
					return err
				}
				delay = n * 60_000
			}
			if _, err := scope.Parse(job); err != nil {
				return &Refusal{Text: err.Error(), Scope: true}
			}
			b.after = append(b.after, &messages.After{Job: job, End: end, DelayMs: delay})
		}
	}
	return nil
}

// corresponding refuses aftercorr for a job that is no array.
func (b *Batch) corresponding() error {
	for _, a := range b.after {
		if a.GetEnd() == messages.AfterEnd_AFTER_END_ELEMENT && b.array == nil {
			return &Refusal{Option: "--dependency", Text: "aftercorr requires an array", Hint: "add --array, or use afterok"}
		}
	}
	return nil
}

// setMoment accepts Slurm's and Synapse's notations of a time.
func setMoment(to func(*Batch) *int64) setter {
	return func(b *Batch, value string) (err error) {
		*to(b), err = parseMoment(value)
		return err
	}
}

// parseMoment parses a time as --begin and --deadline have it.
func parseMoment(value string) (unixMs int64, err error) {
	written := value
	if n, is := strings.CutPrefix(strings.ToLower(value), "now+"); is {
		digits := strings.TrimRight(n, "abcdefghijklmnopqrstuvwxyz")
		unit := map[string]string{"": "s", "s": "s", "m": "m", "h": "h",
			"d": "d"}[strings.TrimSuffix(firstOf(n[len(digits):]), " ")]
		if unit == "" && strings.HasPrefix(n[len(digits):], "w") {
			weeks, err := sbatch.Number(digits)
			if err != nil {
				return 0, err
			}
			digits, unit = strconv.FormatInt(7*weeks, 10), "d"
		}
		written = "now+" + digits + unit
	}
	switch strings.ToLower(value) {
	case "midnight":
		written = "00:00"
	case "noon":
		written = "12:00"
	case "teatime", "fika":
		return 0, refuse("write 15:00", "%s", value)
	}
	ms, err := jobfile.ParseMoment(written)
	if p, is := err.(*jobfile.Problem); is && p != nil {
		return 0, refuse(p.Hint, "%s", p.Text)
	}
	return ms, nil
}

func firstOf(text string) string { return text[:min(len(text), 1)] }
