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

// This file owns what a machine's certificate says of the machine beside its name: which one it is, and what an admin
// allowed it to claim. It is in the certificate, so every scheduler of a cluster knows it, and a renewal keeps it.

// Bound names the subject of a claim.
type Bound string

// The bounds. Lists are written as at the flags of synapse-node.
const (
	BoundMachine Bound = "machine"  // the machine's id, made once and kept on its disk
	BoundGPUs    Bound = "gpus"     // how many, at most
	BoundGPUType Bound = "gpu-type" // of all of them
	BoundLabels  Bound = "labels"   // those that it may have, as key=value,…
	BoundPlace   Bound = "topology" // where it stands, as level=place,…
)

// maxBound bounds the text of one, and maxBoundGPUs what a number may be.
const (
	maxBound     = 1 << 10
	maxBoundGPUs = 1024
)

// Bounds holds the restrictions of a certificate. A missing entry means no restriction.
type Bounds map[Bound]string

// Check refuses what no certificate has.
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
			return fmt.Errorf("nothing of a machine is called %.40q", string(key))
		}
		printable := func(r rune) bool { return !unicode.IsPrint(r) }
		if len(value) > maxBound || strings.ContainsFunc(value, printable) {
			return fmt.Errorf("--%s: must be at most %d printable bytes", key, maxBound)
		}
	}
	return nil
}

// units are the bounds as a certificate's subject has them: as organizational units, which every tool shows.
func (b Bounds) units() (all []string) {
	for _, key := range slices.Sorted(maps.Keys(b)) {
		all = append(all, string(key)+"="+b[key])
	}
	return all
}

// boundsOf reads the bounds of a certificate that is verified. One that is written in another way than ours bounds
// nothing, so it is refused.
func boundsOf(c *x509.Certificate) (Bounds, error) {
	b := Bounds{}
	for _, unit := range c.Subject.OrganizationalUnit {
		key, value, ok := strings.Cut(unit, "=")
		if _, twice := b[Bound(key)]; !ok || twice {
			return nil, fmt.Errorf("its certificate says %.80q, which bounds nothing", unit)
		}
		b[Bound(key)] = value
	}
	return b, b.Check()
}
