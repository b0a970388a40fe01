package strategy

import (
	"context"
	"errors"
	"time"

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
			Expect: Holds, Redis: true,
		},
		open: func(w *World) (Shop, error) {
			store, err := redislock.New(w.redis, redislock.Options{Prefix: "lab:lock:"})
			if err != nil {
				return nil, err
			}
			locker, err := lock.New(store, lock.Config{Lease: lease})
			return &fair{w: w, locker: locker}, err
		},
	}
}

type fair struct {
	w      *World
	locker *lock.Locker
}

// Buy implements Shop.
func (s *fair) Buy(ctx context.Context, c Click) (string, error) {
	order := newOrder()
	return order, s.alone(ctx, func(ctx context.Context, fence int64) error {
		conn, err := s.w.conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		var units, has int64
		// To read the stock is to show the fence: from here on the book refuses what
		// an earlier holder may still have in his hand.
		err = conn.QueryRow(ctx, `UPDATE stock SET fence = $1 WHERE fence <= $1 RETURNING units`, fence).Scan(&units)
		if err == nil {
			err = conn.QueryRow(ctx, `SELECT count(*) FROM orders WHERE buyer = $1 AND state = 'reserved'`, c.Buyer).Scan(&has)
		}
		switch {
		case err != nil:
			return err
		case has > 0:
			return limitReached()
		case units <= 0:
			return soldOut()
		}
		if err = s.w.slow(ctx); err != nil {
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

// Cancel implements Shop. Its one statement is right by itself, but the stock that a
// holder of the lock has read must not change under him.
func (s *fair) Cancel(ctx context.Context, order string) error {
	return s.alone(ctx, func(ctx context.Context, _ int64) error { return s.w.cancel(ctx, order) })
}

// alone runs work under the lock. Work is not cut off when the lock is lost: the fence
// decides whether what it writes counts.
func (s *fair) alone(ctx context.Context, work func(ctx context.Context, fence int64) error) error {
	if err := s.w.turn(ctx); err != nil {
		return err
	}
	until, _ := ctx.Deadline()
	ctx, done := working(ctx)
	defer done()
	held, err := s.locker.TryLock(ctx, "{"+s.w.schema+"}", lock.WithWait(max(0, time.Until(until))))
	s.w.turnOver()
	if err == nil {
		defer func() { _ = held.Unlock(ctx) }() // the lease ends by itself
		err = work(ctx, int64(held.Fence()))    //nolint:gosec // below 2^53
	}
	if errors.Is(err, lock.ErrNotAcquired) || errors.Is(err, lock.ErrNotHeld) {
		return sale.Busy()
	}
	return err
}

// Close implements io.Closer.
func (s *fair) Close() error {
	ctx, done := context.WithTimeout(context.Background(), lease)
	defer done()
	return s.locker.Close(ctx)
}
