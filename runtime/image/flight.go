//go:build linux

package image

import (
	"context"
	"sync"
)

// This file does work once that several callers need at the same time. The work continues only while a caller waits.
// The last caller that gives up waits until the work has ended.

// flights holds work in progress by its key.
type flights[T any] struct {
	base context.Context // ends all work

	mu    sync.Mutex
	under map[string]*flight[T]
}

type flight[T any] struct {
	waiting int
	cancel  context.CancelFunc
	done    chan struct{}
	result  T
	err     error
}

// do returns the result of the work, which this call or an earlier caller started.
func (f *flights[T]) do(ctx context.Context, key string, work func(context.Context) (T, error)) (T, error) {
	f.mu.Lock()
	one := f.under[key]
	if one == nil {
		one = f.start(key, work)
	}
	one.waiting++
	f.mu.Unlock()
	select {
	case <-one.done:
		return one.result, one.err
	case <-ctx.Done():
	}
	f.mu.Lock()
	one.waiting--
	last := one.waiting == 0
	if last {
		f.forget(key, one) // the next caller starts again
	}
	f.mu.Unlock()
	if last {
		one.cancel()
		<-one.done
	}
	var none T
	return none, ctx.Err()
}

func (f *flights[T]) start(key string, work func(context.Context) (T, error)) *flight[T] {
	if f.under == nil {
		f.under = map[string]*flight[T]{}
	}
	ctx, cancel := context.WithCancel(f.base)
	one := &flight[T]{cancel: cancel, done: make(chan struct{})}
	f.under[key] = one
	go func() {
		defer cancel()
		one.result, one.err = work(ctx)
		f.mu.Lock()
		f.forget(key, one)
		f.mu.Unlock()
		close(one.done)
	}()
	return one
}

func (f *flights[T]) forget(key string, one *flight[T]) {
	if f.under[key] == one {
		delete(f.under, key)
	}
}
