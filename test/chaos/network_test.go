package chaos

import (
	"testing"

	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/test/island"
)

// This file owns the machines' networks: one for each, with one cable to the schedulers.

// firstIsland is far from those of other tests: their processes' ids may share the bytes that addresses have of them.
const firstIsland = island.Most / 2

// newNetworks makes this many, and removes them at the end. If that is impossible it says why: then the cluster is on
// loopback, and nothing is cut.
func newNetworks(t *testing.T, many int) (all []*island.Island, why error) {
	t.Helper()
	for _, needed := range []*able.Ability{able.Networks, able.Program("ip"), able.Program("nsenter")} {
		if why := needed.Lacks(); why != nil {
			return nil, why
		}
	}
	for i := range many {
		n, err := island.New(firstIsland + i)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(n.Close)
		all = append(all, n)
	}
	return all, nil
}
