//go:build linux

package fork

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/yi-json/synapse/test/able/pace"
)

// ofCarapace are tests of runtime/conformance: its suite with carapace as a library, and what concerns a first process
// besides.
const ofCarapace = "^(TestCarapace|TestNotRoot|TestOwnRoot(Hardening|Files|Gains)|TestOwnBinaryIsNotExecuted|" +
	"TestSignal.*|TestSlackOfTheCommand|TestKilled.*|TestInitHoldsNothing|TestStarter.*|TestUmask|TestGivenUpStart|" +
	"TestClosedStreams|TestFork.*|TestRefusedSteps|TestHardening|TestRights|TestLimitsHold|TestPidReuse|" +
	"TestCallerElsewhere)$"

// TestReexec: the ordinary way to begin does all that a fork does. CI tests both, because a new version of Go goes that
// way from its first day on.
func TestReexec(t *testing.T) {
	if Way == "reexec" {
		t.Skip("the ordinary way is what all tests have gone")
	}
	pace.Crowd(t)
	again := exec.Command("go", "test", "-tags", "reexec", "-vet", "off", "-v", "-run", ofCarapace, "../../conformance")
	text, err := again.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	_, suite, _ := strings.Cut(string(text), "=== RUN   TestCarapace\n")
	if why, _, skipped := strings.Cut(suite, "--- SKIP: TestCarapace "); skipped {
		t.Skip(strings.TrimSpace(why))
	}
}
