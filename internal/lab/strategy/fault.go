package strategy

import (
	"context"
	"os"
	"sync/atomic"
	"time"
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

// faults are what is done to one process. The zero value does nothing.
type faults struct {
	faulty  bool
	passes  atomic.Int64 // over the spot of the crash
	holders atomic.Int64 // that might have been slow
}

// crash kills this process, if it is the one, at the given pass: nothing is deferred,
// flushed or said good-bye to.
func (f *faults) crash(passes int64) {
	if !f.faulty || f.passes.Add(passes) < crashAt {
		return
	}
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {} // until the signal is there
}

// slow lets some holders of a lock pause.
func (f *faults) slow(ctx context.Context, pause time.Duration) error {
	if !f.faulty {
		return nil
	}
	n := f.holders.Add(1) - slowFirst
	if n < 0 || n%slowEvery != 0 || n/slowEvery >= slowTimes {
		return nil
	}
	return rest(ctx, pause)
}
