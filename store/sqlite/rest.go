package sqlite

// This file owns when the memory of the writer's cache goes back: it holds what was written last, up to 64 MiB and as
// much again around it, also for hours in which nothing is written.

// Rest gives that memory back if nothing was written since the call before. It is to be called now and then; what is
// needed again comes from the file.
func (s *Store) Rest() error {
	written := s.written.Load()
	if s.looked.Swap(written) != written || s.rested.Swap(written) == written {
		return nil
	}
	return s.resting("rest", func(w *writer) error { return w.script("PRAGMA shrink_memory") })
}
