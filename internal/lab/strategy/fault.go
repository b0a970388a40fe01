package strategy

import (
	"context"
	"os"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

const (
	// lease is that of every lock in Redis that has one. It is some hundred times
	// what the work under it takes, as with ten seconds for a hundred milliseconds.
	lease = 400 * time.Millisecond
	// How long slow holders pause. Who comes back just too late finds another in his
	// place; while one is away much too long, others sell.
	justTooLong, muchTooLong = lease + lease/20, lease + lease/2
	// Of the sales that a faulty process makes, the slowFirst one pauses, and
	// every slowEvery-th after it, slowTimes in all.
	slowFirst, slowEvery, slowTimes = 3, 5, 4
	// crashAt is the pass of a faulty process over the spot in question at which it
	// kills itself.
	crashAt = 10
)

// faults are what a process does to itself. The zero value does nothing.
type faults struct {
	faulty  bool
	passes  atomic.Int64 // over the spot of the crash
	holders atomic.Int64 // that might have been slow
}

// crash kills this process, if it is the one, at the given pass: nothing is deferred,
// flushed or said good-bye to.
func (w *World) crash(ctx context.Context, passes int64) {
	if !w.faulty || w.passes.Add(passes) < crashAt {
		return
	}
	w.strike(context.WithoutCancel(ctx))
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {} // until the signal is there
}

// slow lets some holders of a lock pause.
func (w *World) slow(ctx context.Context, pause time.Duration) error {
	if !w.faulty {
		return nil
	}
	n := w.holders.Add(1) - slowFirst
	if n < 0 || n%slowEvery != 0 || n/slowEvery >= slowTimes {
		return nil
	}
	w.strike(ctx)
	return rest(ctx, pause)
}

// strike counts, for the recount, that a fault happens now. One that cannot be counted
// happens all the same, and is missed in the recount.
func (w *World) strike(ctx context.Context) {
	ctx, done := context.WithTimeout(ctx, lease)
	defer done()
	_ = w.redis.Do(ctx, w.redis.B().Incr().Key(w.key(struckKey)).Build()).Error()
}

// struckKey names the counter of the faults that happened. It is in Redis, which all
// strategies have to which a fault is done.
const struckKey = "struck"

// struck returns how many faults happened.
func (w *World) struck(ctx context.Context) (int64, error) {
	if w.Fault == "" {
		return 0, nil
	}
	n, err := w.redis.Do(ctx, w.redis.B().Get().Key(w.key(struckKey)).Build()).AsInt64()
	if rueidis.IsRedisNil(err) {
		err = nil
	}
	return n, err
}
