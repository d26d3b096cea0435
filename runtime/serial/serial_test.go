package serial

import (
	"slices"
	"sync"
	"testing"
)

func TestOneAfterTheOther(t *testing.T) {
	var running sync.WaitGroup
	l := Line{Go: func(do func()) bool { running.Go(do); return true }}
	var got, want []int
	inside := 0
	for i := range 100 {
		want = append(want, i)
		l.Post(func() {
			if inside++; inside != 1 {
				t.Error("two run at once")
			}
			got = append(got, i)
			inside--
		})
	}
	running.Wait()
	if !slices.Equal(got, want) {
		t.Errorf("they ran as %v", got)
	}
}

// TestEnd checks that waiting functions are dropped when a line ends, and that its last function runs, whether the line
// is busy or can no longer run.
func TestEnd(t *testing.T) {
	var running sync.WaitGroup
	start := func(do func()) { running.Go(do) }
	said := make(chan string, 10)
	begun, end := make(chan bool), make(chan bool)
	l := Line{Go: func(do func()) bool { start(do); return true }}
	l.Post(func() { close(begun); <-end; said <- "first" })
	<-begun
	l.Post(func() { said <- "waiting" })
	l.End(func() { said <- "last" }, start)
	l.Post(func() { said <- "late" })
	close(end)
	running.Wait()

	refused := Line{Go: func(func()) bool { return false }}
	refused.Post(func() { said <- "refused" })
	refused.End(func() { said <- "its last" }, start)
	running.Wait()
	close(said)
	var got []string
	for s := range said {
		got = append(got, s)
	}
	if want := []string{"first", "last", "its last"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
