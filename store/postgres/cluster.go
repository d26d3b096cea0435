package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// This file owns what schedulers ask before one of them leads: which cluster the
// records are of, and whether a database that does not answer may answer later.

// ClusterID answers the cluster's id: the one that is stored, or, where there is
// none yet, this one, which it stores. Of several that come at once one wins.
func (s *Store) ClusterID(fresh string) (id string, err error) {
	ctx, leave, err := s.enter()
	if err != nil {
		return "", err
	}
	defer leave()
	err = pgx.BeginFunc(ctx, s.writes, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO synapse.cluster (id) VALUES ($1) ON CONFLICT DO NOTHING", fresh); err != nil {
			return err
		}
		return tx.QueryRow(ctx, "SELECT id FROM synapse.cluster").Scan(&id)
	})
	if err != nil {
		return "", fmt.Errorf("store: cluster id: %w", judged(err))
	}
	return id, nil
}

// Unreachable tells an error of Open that time may mend, the server being away
// or only starting, from one that a person has to.
func Unreachable(err error) bool {
	if said := new(pgconn.PgError); errors.As(err, &said) {
		const shutdown, crowded = "57P", "53300"
		return strings.HasPrefix(said.Code, shutdown) || said.Code == crowded
	}
	var network *net.OpError
	var name *net.DNSError
	return errors.As(err, &network) || errors.As(err, &name) || errors.Is(err, context.DeadlineExceeded)
}
