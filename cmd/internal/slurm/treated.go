package slurm

import (
	"errors"
	"slices"
	"strings"
)

// This file reports what Slurm's commands do with each of their options.

// The results of an option.
const (
	Honored = "honored"
	Warned  = "accepted with a warning"
	Refused = "refused"
)

// Treated is an option of a command, with its result and a reason.
type Treated struct{ Long, Short, Result, Why string }

// Treatments returns the options of sbatch, salloc or srun, sorted; of another command it returns none.
func Treatments(command string) (all []Treated) {
	for _, p := range []*program{forSbatch, forSalloc, forSrun} {
		if p.name != command {
			continue
		}
		for _, o := range p.options() {
			result, why := treated(p, o)
			all = append(all, Treated{o.long, o.short, result, why})
		}
	}
	SortTreated(all)
	return all
}

// SortTreated sorts options by name.
func SortTreated(all []Treated) {
	slices.SortFunc(all, func(x, y Treated) int { return strings.Compare(x.Long, y.Long) })
}

// treated returns what a program does with an option. The value is no valid one, so that an option that checks its
// value has no effect.
func treated(p *program, o option) (result, why string) {
	b := newBatch(p)
	err := o.set(b, "probe")
	if r := (*Refusal)(nil); errors.As(err, &r) && r.Text == notSupported {
		return Refused, r.Hint
	}
	if len(b.warnings) > 0 {
		return Warned, ""
	}
	return Honored, ""
}

// Name returns the option as users write it.
func (t Treated) Name() string {
	name := "--" + t.Long
	if t.Short != "" {
		name += ", -" + t.Short
	}
	return name
}
