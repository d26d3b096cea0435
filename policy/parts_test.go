package policy

import "testing"

// TestEachPartMatters checks that a history changes if any part of the planner is turned off.
func TestEachPartMatters(t *testing.T) {
	play := func(settings Settings) (said []string) {
		s := newStage(t, settings, 6, 2)
		// Many run longer than first estimated.
		for i, runs := range []int64{200_000, 100, 3000, 50, 90_000, 700} {
			for at := range int64(12) {
				a := act{at: at*700 + int64(i), runs: runs, gang: gang(1, int64(4+i%5)), owner: string(rune('a' + i))}
				if (at+int64(i))%4 == 0 {
					a.gang = wholes(int32(2 + i%3))
				}
				if i%2 > 0 {
					a.limit = 2 * runs
				}
				s.enter(a)
				for range int(at) / 5 * i { // some are submitted with similar ones
					s.enter(a)
				}
			}
		}
		s.play(20_000_000)
		return s.said
	}
	whole := play(DefaultSettings())
	for _, part := range Parts() {
		settings, known := DefaultSettings().Without(part)
		if !known {
			t.Fatalf("there is no %s", part)
		}
		without := play(settings)
		same := len(whole) == len(without)
		for i := range whole {
			same = same && whole[i] == without[i]
		}
		if same {
			t.Errorf("without %s all goes as with it", part)
		}
	}
	if _, known := DefaultSettings().Without("luck"); known {
		t.Error("there is a part that nobody wrote")
	}
}
