package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/yi-json/synapse/store"
)

// This file owns leadership: which scheduler has the lease, by the database's clock only, and which epoch may write.
// The lease decides which process may take over. The epoch, never the time, prevents an old leader from writing.

// Lead implements store.Store. It returns store.ErrLed while the lease of another holder runs. A holder's own lease
// does not count, so a restarted scheduler need not wait for itself.
func (s *Store) Lead(holder string) (uint64, error) {
	ctx, leave, err := s.enter()
	if err != nil {
		return 0, err
	}
	defer leave()
	var epoch uint64
	err = pgx.BeginFunc(ctx, s.writes, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `UPDATE synapse.lease SET epoch = epoch + 1, holder = $1, until = clock_timestamp() + $2
			WHERE holder = $1 OR until <= clock_timestamp() RETURNING epoch`, holder, s.options.Lease).Scan(&epoch)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "UPDATE synapse.leader SET epoch = $1, holder = $2", epoch, holder)
		return err
	})
	if err == nil {
		s.holder.Store(&holder)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		err = store.ErrLed
		if now, readErr := s.leading(ctx); readErr == nil {
			err = fmt.Errorf("%w: %s, for %v more unless it renews", store.ErrLed, now.Holder, now.Left.Round(time.Millisecond))
		}
	}
	if err != nil {
		return 0, fmt.Errorf("store: lead: %w", judged(err))
	}
	return epoch, nil
}

// Renew extends the lease from now on, by the database's clock. The leader counts from before its call. Renew returns
// ErrDeposed if another process has the lease.
func (s *Store) Renew(epoch uint64) error { return s.until(epoch, s.options.Lease) }

// Resign ends the lease at once, so that a standby scheduler can take over.
func (s *Store) Resign(epoch uint64) error { return s.until(epoch, 0) }

func (s *Store) until(epoch uint64, left time.Duration) error {
	ctx, leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := s.inTime(ctx)
	defer cancel()
	tag, err := s.writes.Exec(ctx,
		"UPDATE synapse.lease SET until = clock_timestamp() + $2 WHERE epoch = $1 AND holder = $3", epoch, left, s.name())
	switch {
	case err != nil:
		return fmt.Errorf("store: renew the lease: %w", judged(err))
	case tag.RowsAffected() == 0:
		return store.ErrDeposed
	}
	return nil
}

// name returns the holder's name under which this process led last.
func (s *Store) name() string {
	if h := s.holder.Load(); h != nil {
		return *h
	}
	return ""
}

// inTime limits a call to the duration of a lease, because a later answer is useless. A scheduler must be able to use
// another connection if one hangs.
func (s *Store) inTime(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.options.Lease <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, s.options.Lease)
}

// Leading returns the leader for standby schedulers.
func (s *Store) Leading() (store.Leadership, error) {
	ctx, leave, err := s.enter()
	if err != nil {
		return store.Leadership{}, err
	}
	defer leave()
	ctx, cancel := s.inTime(ctx)
	defer cancel()
	l, err := s.leading(ctx)
	if err != nil {
		return store.Leadership{}, fmt.Errorf("store: read the lease: %w", judged(err))
	}
	return l, nil
}

func (s *Store) leading(ctx context.Context) (l store.Leadership, err error) {
	err = s.reads.QueryRow(ctx, `SELECT holder, epoch, CASE WHEN until > clock_timestamp() THEN until - clock_timestamp() ELSE interval '0' END
		FROM synapse.lease`).Scan(&l.Holder, &l.Epoch, &l.Left)
	return l, err
}
