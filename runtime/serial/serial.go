// Package serial runs functions one after the other, beside everything else.
package serial

import "sync"

// Line is a queue of functions that wait for their turn. Post never waits.
type Line struct {
	// Go runs a function in the background, and reports whether it does.
	Go func(func()) bool

	mu   sync.Mutex
	todo []func()
	busy bool
	over bool
}

// Post puts a function at the end of the line. On a line that has ended nothing is done.
func (l *Line) Post(do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.todo = append(l.todo, do)
	if !l.busy {
		l.busy = l.Go(l.work)
	}
}

// End drops all that waits, runs one last function instead, and accepts nothing more. If the line does not run, start
// makes it run once more, even if Go would now refuse.
func (l *Line) End(last func(), start func(func())) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over, l.todo = true, []func(){last}
	if !l.busy {
		l.busy = true
		start(l.work)
	}
}

func (l *Line) work() {
	for {
		l.mu.Lock()
		if len(l.todo) == 0 {
			l.busy = false
			l.mu.Unlock()
			return
		}
		do := l.todo[0]
		l.todo = l.todo[1:]
		l.mu.Unlock()
		do()
	}
}
