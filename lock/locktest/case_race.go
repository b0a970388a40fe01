package locktest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/lock"
)

func raceCases() map[string]func(*testing.T, *world) {
	return map[string]func(*testing.T, *world){
		"OneAtATime":          oneAtATime,
		"N01_NothingIsKept":   nothingIsKept,
		"N33_SharedOptions":   sharedOptions,
		"N36_LockUnlockLock":  lockUnlockLock,
		"N34_UnlockInRenewal": unlockInRenewal,
		"CloseInTheMiddle":    closeInTheMiddle,
	}
}

// oneAtATime lets several processes fight for one name, and looks at the history.
func oneAtATime(t *testing.T, w *world) {
	const lockers, each = 4, 4
	rounds := 25
	if !w.exact || w.lossy {
		rounds = 5 // a quorum without a queue is slow under a crowd
	}
	var witness Witness
	history := NewHistory()
	var work sync.WaitGroup
	c := ctx(t)
	for range lockers {
		l := w.locker(t)
		for range each {
			work.Go(func() {
				for range rounds {
					lease, err := history.Lock(c, l, "n")
					if err != nil {
						t.Error(err)
						return
					}
					witness.Enter(lease)
					pause()
					witness.Leave(lease)
					w.unlocked(t, history.Unlock(c, lease))
				}
			})
		}
	}
	work.Wait()
	witness.Require(t, lockers*each*rounds)
	history.Require(t)
}

// nothingIsKept unlocks while renewals come and go: none may bring a lock back.
func nothingIsKept(t *testing.T, w *world) {
	renewals := make(chan struct{}, 1)
	l := w.with(t, lock.Config{Observe: func(e lock.Event) {
		if e.Kind == lock.Renewed {
			select {
			case renewals <- struct{}{}:
			default:
			}
		}
	}})
	c := ctx(t)
	var work sync.WaitGroup
	for i := range 8 {
		name := string(rune('a' + i))
		work.Go(func() {
			for range 10 {
				lease, err := l.Lock(c, name, lock.WithLease(60*time.Millisecond))
				if err != nil {
					t.Error(err)
					return
				}
				select { // any renewal: this one's is due at the same time, or on its way
				case <-renewals:
				case <-lease.Context().Done():
				}
				// A slow machine may lose so short a lease.
				if err = lease.Unlock(c); err != nil {
					assert.ErrorIs(t, err, lock.ErrNotHeld)
				}
			}
		})
	}
	work.Wait()
	for i := range 8 {
		name := string(rune('a' + i))
		until(t, "nobody holds it", func() bool {
			info, err := l.Inspect(c, name)
			require.NoError(t, err)
			return len(info.Holders) == 0 && info.Waiters == 0
		})
	}
}

func sharedOptions(t *testing.T, w *world) {
	l := w.locker(t)
	opts := []lock.Option{lock.WithLease(time.Second), lock.WithWait(limit), lock.WithMetadata("m")}
	c := ctx(t)
	var work sync.WaitGroup
	for range 64 {
		work.Go(func() {
			assert.NoError(t, l.Do(c, "n", func(context.Context, *lock.Lease) error { return nil }, opts...))
		})
	}
	work.Wait()
}

// lockUnlockLock cancels every other attempt, at every moment of it: the next one
// finds the lock.
func lockUnlockLock(t *testing.T, w *world) {
	l := w.locker(t)
	all := ctx(t)
	rounds := 50
	if !w.exact {
		rounds = 5 // a quorum without a queue is slow under a crowd
	}
	var work sync.WaitGroup
	for i := range 8 {
		work.Go(func() {
			for n := range rounds {
				c, cancel := context.WithTimeout(all, time.Duration((n*8+i)%40)*25*time.Microsecond)
				lease, err := l.Lock(c, "n")
				cancel()
				if errors.Is(err, context.DeadlineExceeded) {
					lease, err = l.Lock(all, "n")
				}
				if err == nil {
					err = lease.Unlock(all)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
}

func unlockInRenewal(t *testing.T, w *world) {
	l := w.locker(t)
	c := ctx(t)
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for range 20 {
				lease, err := l.Lock(c, "n")
				if err != nil {
					t.Error(err)
					return
				}
				renewed := make(chan error, 1)
				go func() { renewed <- lease.Check(c) }()
				if err = lease.Unlock(c); err != nil {
					t.Error(err)
				}
				err = <-renewed // a majority may be of two minds just then
				if _, unknown := errors.AsType[*lock.StoreError](err); err != nil && !unknown {
					assert.ErrorIs(t, err, lock.ErrNotHeld)
				}
			}
		})
	}
	work.Wait()
	free(t, l, "n")
}

func closeInTheMiddle(t *testing.T, w *world) {
	c := ctx(t)
	for range 5 {
		l := w.locker(t)
		var work sync.WaitGroup
		sections := make(chan struct{}, 1)
		for range 8 {
			work.Go(func() {
				for {
					lease, err := l.Lock(c, "n")
					if err != nil {
						assert.ErrorIs(t, err, lock.ErrClosed)
						return
					}
					select {
					case sections <- struct{}{}:
					default:
					}
					_ = lease.Unlock(c)
				}
			})
		}
		for range 5 {
			<-sections
		}
		require.NoError(t, l.Close(c))
		work.Wait()
	}
	free(t, w.locker(t), "n")
}
