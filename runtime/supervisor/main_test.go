package supervisor

import (
	"os"
	"testing"
)

// TestMain lets this test's binary be the supervisor that it tests.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == SubCommand {
		os.Exit(Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}
