package main

import (
	"testing"
	"time"
)

// TestExpiry checks that the end of a token is in UTC and says so, also if the host has another time zone.
func TestExpiry(t *testing.T) {
	at := time.Date(2026, time.March, 1, 3, 30, 0, 0, time.FixedZone("", 5*3600+1800))
	if got := expiry(at); got != "2026-02-28 22:00Z" {
		t.Errorf("it expires %s", got)
	}
}
