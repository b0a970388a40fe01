package strategy

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/lock"
	"github.com/doorbuster/doorbuster/lock/redislock"
)

// fairLock is the lock of package lock: buyers get it in the order in which they came, a
// watchdog renews its lease while the holder lives, and the book checks its fence. With
// the watchdog the slow holders of no_renewal keep the lock. With the fence not even one
// who has lost it can do harm: the book remembers the highest fence it has seen, and
// refuses writes under a smaller one.
func fairLock() Strategy {
	return Strategy{
		Info: Info{
			Name: "fair_lock", Title: "Fair lock with watchdog and fence (package lock)",
			Fault: "some holders pause for longer than the lease, between reading and writing, as in no_renewal",
			Why: "The lease is renewed while its holder works, and who has lost it is refused by the book, whose fence has gone on. " +
				"It is right, and fair; still all buyers pass one by one, and wait for those who are slow.",
			Expect: Must, Redis: true, Ours: true,
		},
		open: func(w *World) (Shop, error) {
			store, err := redislock.New(w.redis, redislock.Options{Prefix: "lab:lock:"})
			if err != nil {
				return nil, err
			}
			locker, err := lock.New(store, lock.Config{Lease: lease})
			return &fair{w: w, locker: locker, midway: func(ctx context.Context) error {
				return w.slow(ctx, muchTooLong)
			}}, err
		},
	}
}

type fair struct {
	w      *World
	locker *lock.Locker
	midway func(ctx context.Context) error // between reading and writing
}

// Buy implements Shop.
func (s *fair) Buy(ctx context.Context, c Click) (string, error) {
	order := newOrder()
	return order, s.alone(ctx, func(ctx context.Context, conn *pgxpool.Conn, fence int64) error {
		units, err := show(ctx, conn, fence)
		if err != nil {
			return err
		}
		var has int64
		err = conn.QueryRow(ctx, `SELECT count(*) FROM orders WHERE buyer = $1 AND state = 'reserved'`, c.Buyer).Scan(&has)
		switch {
		case err != nil:
			return err
		case has > 0:
			return limitReached()
		case units <= 0:
			return soldOut()
		}
		if err = s.midway(ctx); err != nil {
			return err
		}
		written, err := conn.Exec(ctx, `
			WITH mine AS (UPDATE stock SET units = $1 WHERE fence = $2 RETURNING 1)
			INSERT INTO orders (id, buyer, click) SELECT $3, $4, $5 FROM mine`, units-1, fence, order, c.Buyer, c.Key)
		if err == nil && written.RowsAffected() == 0 {
			return lock.ErrLost
		}
		return err
	})
}

// Cancel implements Shop.
func (s *fair) Cancel(ctx context.Context, order string) error {
	return s.alone(ctx, func(ctx context.Context, conn *pgxpool.Conn, fence int64) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := show(ctx, tx, fence); err != nil {
				return err
			}
			return endOrder(ctx, tx, order)
		})
	})
}

// show shows the fence to the book and returns the stock. From here on the book refuses
// whatever an earlier holder of the lock may still have in his hand.
func show(ctx context.Context, conn querier, fence int64) (units int64, err error) {
	err = conn.QueryRow(ctx, `UPDATE stock SET fence = $1 WHERE fence <= $1 RETURNING units`, fence).Scan(&units)
	if errors.Is(err, pgx.ErrNoRows) {
		err = lock.ErrLost
	}
	return units, err
}

// alone runs work under the lock, or is CodeBusy. Work is not cut off when the lock is
// lost: the fence decides whether what it writes counts.
func (s *fair) alone(ctx context.Context, work func(ctx context.Context, conn *pgxpool.Conn, fence int64) error) error {
	held, err := s.take(ctx)
	if errors.Is(err, lock.ErrNotAcquired) {
		return sale.Busy()
	}
	if err != nil {
		return err
	}
	ctx, done := working(ctx)
	defer done()
	defer func() { _ = held.Unlock(ctx) }() // the lease ends by itself
	conn, err := s.w.conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if err = work(ctx, conn, int64(held.Fence())); errors.Is(err, lock.ErrLost) { //nolint:gosec // below 2^53
		return sale.Busy()
	}
	return err
}

// take waits for the lock. The lease outlives the patience of the buyer.
func (s *fair) take(ctx context.Context) (*lock.Lease, error) {
	if err := s.w.turn(ctx); err != nil {
		return nil, err
	}
	defer s.w.turnOver()
	wait := patience
	if until, ok := ctx.Deadline(); ok {
		wait = max(0, time.Until(until))
	}
	return s.locker.TryLock(context.WithoutCancel(ctx), s.name(), lock.WithWait(wait))
}

// name keeps the lock's keys beside the others of the run.
func (s *fair) name() string { return "{" + s.w.schema + "}" }

// Close implements io.Closer.
func (s *fair) Close() error {
	ctx, done := context.WithTimeout(context.Background(), lease)
	defer done()
	return s.locker.Close(ctx)
}
