package identity

import (
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// This file owns the bounds of a node: its machine ID, and the claims that an admin allowed. They are in the node's
// certificate, so every scheduler of the cluster knows them, and a renewal keeps them.

// Bound names the subject of a claim.
type Bound string

// These are the bounds. Lists are written as in the flags of synapse-node.
const (
	BoundMachine Bound = "machine"  // the machine ID, generated once and stored on the node's disk
	BoundGPUs    Bound = "gpus"     // maximum number
	BoundGPUType Bound = "gpu-type" // of all of them
	BoundLabels  Bound = "labels"   // allowed labels, as key=value,…
	BoundPlace   Bound = "topology" // its location, as level=domain,…
)

// These constants limit the length of a bound and the number of GPUs.
const (
	maxBound     = 1 << 10
	maxBoundGPUs = 1024
)

// Bounds holds the restrictions of a certificate. A missing entry means no restriction.
type Bounds map[Bound]string

// Check refuses bounds that no certificate may have.
func (b Bounds) Check() error {
	for _, key := range slices.Sorted(maps.Keys(b)) {
		value := b[key]
		switch key {
		case BoundGPUs:
			if n, err := strconv.Atoi(value); err != nil || n < 0 || n > maxBoundGPUs {
				return fmt.Errorf("--gpus %.40q: must be 0 to %d", value, maxBoundGPUs)
			}
		case BoundMachine, BoundGPUType, BoundLabels, BoundPlace:
		default:
			return fmt.Errorf("unknown bound %.40q", string(key))
		}
		printable := func(r rune) bool { return !unicode.IsPrint(r) }
		if len(value) > maxBound || strings.ContainsFunc(value, printable) {
			return fmt.Errorf("--%s: must be at most %d printable bytes", key, maxBound)
		}
	}
	return nil
}

// units returns the bounds as a certificate's subject contains them: as organizational units, which every tool shows.
func (b Bounds) units() (all []string) {
	for _, key := range slices.Sorted(maps.Keys(b)) {
		all = append(all, string(key)+"="+b[key])
	}
	return all
}

// boundsOf reads the bounds of a verified certificate. It refuses a bound in another format, which would otherwise be
// ignored.
func boundsOf(c *x509.Certificate) (Bounds, error) {
	b := Bounds{}
	for _, unit := range c.Subject.OrganizationalUnit {
		key, value, ok := strings.Cut(unit, "=")
		if _, twice := b[Bound(key)]; !ok || twice {
			return nil, fmt.Errorf("certificate has an unknown bound %.80q", unit)
		}
		b[Bound(key)] = value
	}
	return b, b.Check()
}
