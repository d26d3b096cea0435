package sqlite

// This file owns the release of the writer's cache. The cache holds the last writes, up to 64 MiB plus the same amount
// of overhead, even after hours without a write.

// Rest releases the cache if nothing was written since the last call. The caller should call it regularly. Released
// pages are read from the file again when needed.
func (s *Store) Rest() error {
	written := s.written.Load()
	if s.looked.Swap(written) != written || s.rested.Swap(written) == written {
		return nil
	}
	return s.resting("rest", func(w *writer) error { return w.script("PRAGMA shrink_memory") })
}
