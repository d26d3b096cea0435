package supervisor

import (
	"os"
	"syscall"
	"testing"

	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/test/able/pace"
)

// TestMain runs this test binary as the supervisor under test, or as the maker of its container, if its arguments say
// so.
func TestMain(m *testing.M) {
	if code, mine := carapace.Reexec(os.Args); mine {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == SubCommand {
		syscall.Exit(Main(os.Args[2:])) // With the race detector, os.Exit waits for a second, for each task of each test.
	}
	if len(os.Args) == 3 && os.Args[1] == cutArgument {
		if os.Truncate(os.Args[2], 1) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	soon = pace.Of(soon) // a child of this binary measures nothing
	os.Exit(m.Run())
}
