package sqlite

// This file owns which cluster the records are of.

// ClusterID answers the cluster's id: the one that is stored, or, where there is
// none yet, this one, which it stores.
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
