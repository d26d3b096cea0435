package sqlite

import "fmt"

// This file owns which cluster the records are of.

// ClusterID answers the cluster's id: the one that is stored, or, where there is
// none yet, this one, which it stores.
func (s *Store) ClusterID(fresh string) (id string, err error) {
	if err := s.enter(); err != nil {
		return "", err
	}
	defer s.calls.RUnlock()
	s.writing.Lock()
	defer s.writing.Unlock()
	err = s.write.transact(func() error {
		stmt, err := s.write.statement("INSERT INTO cluster VALUES (1, ?) ON CONFLICT DO NOTHING")
		if err != nil {
			return err
		}
		if _, err := stmt.Exec(fresh); err != nil {
			return err
		}
		return s.write.one("SELECT id FROM cluster", nil, &id)
	})
	if err != nil {
		return "", fmt.Errorf("store: cluster id: %w", judged(err))
	}
	return id, nil
}
