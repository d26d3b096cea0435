package sqlite

// This file owns the ID of the cluster that the records belong to.

// ClusterID returns the stored ID of the cluster. If there is none, it stores the given one.
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
