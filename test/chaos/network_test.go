package chaos

import (
	"testing"

	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/test/island"
)

// This file creates the nodes' networks: one for each, with one cable to the schedulers.

// firstIsland is far from the numbers of other tests, because addresses contain only some bytes of a process ID.
const firstIsland = island.Most / 2

// newNetworks creates this many networks, and removes them at the end. If that is impossible it returns the reason. The
// cluster is then on loopback, and nothing is cut.
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
