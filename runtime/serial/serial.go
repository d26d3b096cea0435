// Package serial runs functions one after the other in the background.
package serial

import "sync"

// Line is a queue of functions. Post never waits.
type Line struct {
	// Go runs a function in the background. It returns false if it does not.
	Go func(func()) bool

	mu   sync.Mutex
	todo []func()
	busy bool
	over bool
}

// Post appends a function to the line. It does nothing if the line has ended.
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

// End drops all waiting functions, runs one last function, and accepts no more. If the line is idle, it uses start to
// run once more, even if Go would refuse now.
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
