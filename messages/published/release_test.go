package published

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// This file tests that the upgrades in simulation do not start from a version that is newer than the last release.

func TestBaselineIsOfARelease(t *testing.T) {
	text, err := os.ReadFile("release.txt")
	if err != nil {
		t.Fatal(err)
	}
	commit := regexp.MustCompile(`(?m)^[0-9a-f]{40}$`).FindString(string(text))
	if commit == "" {
		t.Fatal("release.txt names no commit, in 40 digits")
	}
	released, err := exec.Command("git", "show", commit+":messages/baseline.txt").Output()
	if err != nil {
		t.Skipf("this clone lacks the commit of the last release, %s: %v", commit, err)
	}
	knows := Parse(string(released)).known
	for name := range Last().known { //order: each name is checked separately
		if !knows[name] {
			t.Errorf("the last release does not know %s", name)
		}
	}
	if !strings.Contains(string(released), " = ") {
		t.Error("the last release has no baseline")
	}
}
