package sqlite

// This file owns the id of the cluster that the records belong to.

// ClusterID returns the stored id of the cluster; where there is none yet, it stores this one.
func (s *Store) ClusterID(fresh string) (id string, err error) {
	err = s.alone("cluster id", func(w *writer) error {
		return w.transact(func() error {
			if _, err := w.exec("INSERT INTO cluster VALUES (1, ?) ON CONFLICT DO NOTHING", fresh); err != nil {
				return err
			}
			return w.one("SELECT id FROM cluster", nil, &id)
		})
	})
	if err != nil {
		return "", err
	}
	return id, nil
}
