package sim

import "fmt"

// This file owns S16, the one invariant that no run can see in itself.

// SameTrace is S16: the same seed gives the same trace. It runs the seed twice.
func SameTrace(o Options) error {
	first, err := Run(o)
	if err != nil {
		return err
	}
	second, err := Run(o)
	if err != nil {
		return err
	}
	if first.Trace != second.Trace || first.Steps != second.Steps {
		return fmt.Errorf("S16 same-trace: seed %d gave %s after %d steps, then %s after %d", o.Seed,
			first.Trace, first.Steps, second.Trace, second.Steps)
	}
	return nil
}
