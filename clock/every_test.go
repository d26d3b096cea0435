package clock

import (
	"testing"
	"time"
)

// TestEvery checks that Every calls the function again and again, and returns after done is closed.
func TestEvery(t *testing.T) {
	done, returned, calls := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		Every(time.Millisecond, done, func() { calls <- struct{}{} })
		close(returned)
	}()
	<-calls
	<-calls
	close(done)
	for {
		select {
		case <-calls: // a call that had begun
		case <-returned:
			return
		}
	}
}
