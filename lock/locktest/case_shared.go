package locktest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/lock"
)

func sharedCases() map[string]func(*testing.T, *world) {
	return map[string]func(*testing.T, *world){
		"ReadersShare":             readersShare,
		"N18_AllReadersEnter":      allReadersEnter,
		"N17_WriterBecomesReader":  writerBecomesReader,
		"N17_InnerReadFirst":       innerReadFirst,
		"RenewGivesBack":           renewGivesBack,
		"N19_NoUpgrade":            noUpgrade,
		"N20_DeadReaderEnds":       deadReader,
		"WriterIsNotStarved":       writerNotStarved,
		"CancelledWriterLetsRead":  cancelledWriter,
		"ReadersAndWritersExclude": readersWriters,
		"PermitsAreCounted":        permitsCounted,
		"N21_ExpiredPermit":        expiredPermit,
		"N22_CrashedHolder":        crashedHolder,
		"ManyAreNotOvertaken":      manyNotOvertaken,
		"FewerPermits":             fewerPermits,
		"PermitsUnderLoad":         permitsUnderLoad,
		"SharedHandOver":           sharedHandOver,
		"LossyReadersAndWriters":   lossy(readersWriters),
		"LossyPermits":             lossy(permitsUnderLoad),
		"LossyDowngrade":           lossyDowngrade,
	}
}

func readersShare(t *testing.T, w *world) {
	a, b := w.locker(t).ReadWrite("n"), w.locker(t).ReadWrite("n")
	one, err := a.RLock(ctx(t))
	require.NoError(t, err)
	two, err := b.TryRLock(ctx(t))
	require.NoError(t, err)
	require.NotEqual(t, one.Fence(), two.Fence())
	_, err = b.TryLock(ctx(t))
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, one.Unlock(ctx(t)))
	require.NoError(t, two.Unlock(ctx(t)))
	writer, err := b.TryLock(ctx(t))
	require.NoError(t, err)
	require.Greater(t, writer.Fence(), two.Fence())
	_, err = a.TryRLock(ctx(t))
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	info, err := a.Inspect(ctx(t))
	require.NoError(t, err)
	require.Equal(t, int64(lock.Everything), info.Holders[0].Count)
}

func allReadersEnter(t *testing.T, w *world) {
	const n = 8
	writer, err := w.locker(t).ReadWrite("n").Lock(ctx(t))
	require.NoError(t, err)
	var inside, work sync.WaitGroup
	inside.Add(n)
	c := ctx(t)
	lockers := []*lock.Locker{w.locker(t), w.locker(t)}
	for i := range n {
		work.Go(func() {
			lease, err := lockers[i%2].ReadWrite("n").RLock(c)
			if err != nil {
				t.Error(err)
				return
			}
			inside.Done()
			inside.Wait() // until all of them are
			assert.NoError(t, lease.Unlock(c))
		})
	}
	until(t, "all wait", func() bool {
		info, err := lockers[0].ReadWrite("n").Inspect(c)
		require.NoError(t, err)
		return info.Waiters == n
	})
	require.NoError(t, writer.Unlock(ctx(t)))
	work.Wait()
}

func writerBecomesReader(t *testing.T, w *world) {
	a, b := w.locker(t).ReadWrite("n"), w.locker(t).ReadWrite("n")
	write, err := a.Lock(ctx(t))
	require.NoError(t, err)
	read, err := a.RLock(write.Context())
	require.NoError(t, err)
	require.NoError(t, write.Unlock(ctx(t)))
	other, err := b.TryRLock(ctx(t))
	require.NoError(t, err, "others may read now")
	_, err = b.TryLock(ctx(t))
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, read.Check(ctx(t)))
	require.NoError(t, read.Unlock(ctx(t)))
	require.NoError(t, other.Unlock(ctx(t)))
	_, err = b.TryLock(ctx(t))
	require.NoError(t, err)
}

func innerReadFirst(t *testing.T, w *world) {
	a, b := w.locker(t).ReadWrite("n"), w.locker(t).ReadWrite("n")
	write, err := a.Lock(ctx(t))
	require.NoError(t, err)
	again, err := a.Lock(write.Context())
	require.NoError(t, err)
	read, err := a.RLock(again.Context())
	require.NoError(t, err)
	require.NoError(t, read.Unlock(ctx(t)))
	require.NoError(t, again.Unlock(ctx(t)))
	_, err = b.TryRLock(ctx(t))
	require.ErrorIs(t, err, lock.ErrNotAcquired, "it still writes")
	require.NoError(t, write.Unlock(ctx(t)))
	_, err = b.TryRLock(ctx(t))
	require.NoError(t, err)
}

func noUpgrade(t *testing.T, w *world) {
	a, b := w.locker(t).ReadWrite("n"), w.locker(t).ReadWrite("n")
	for _, rw := range []*lock.RW{a, b} {
		read, err := rw.RLock(ctx(t))
		require.NoError(t, err)
		_, err = rw.Lock(read.Context())
		require.ErrorIs(t, err, lock.ErrUpgrade)
		require.NoError(t, read.Check(ctx(t)))
	}
	r := shared("a.1", 1)
	_, err := w.store.Acquire(ctx(t), r)
	require.NoError(t, err)
	r.Count = lock.Everything
	g, err := w.store.Acquire(ctx(t), r)
	require.NoError(t, err)
	require.True(t, g.Refused, "a single reader, too")
}

// shared asks for a part of a read-write lock.
func shared(owner string, count int64) *lock.Request {
	r := request(owner, time.Minute)
	r.Kind, r.Name, r.Limit, r.Count = lock.ReadWrite, "x", lock.Everything, count
	return r
}

// renewGivesBack makes a writer a reader: those that wait to read enter, and none
// of that can be undone by what is repeated.
func renewGivesBack(t *testing.T, w *world) {
	writer, reader := shared("a.1", lock.Everything), shared("b.1", 1)
	first, err := w.store.Acquire(ctx(t), writer)
	require.NoError(t, err)
	reader.Queue = time.Minute
	g, err := w.store.Acquire(ctx(t), reader)
	require.NoError(t, err)
	require.Zero(t, g.Fence)
	less := *writer
	less.Count = 1
	for range 2 {
		ok, failed := w.store.Renew(ctx(t), &less)
		require.NoError(t, failed)
		require.True(t, ok)
	}
	info, err := w.store.Inspect(ctx(t), lock.ReadWrite, "x")
	require.NoError(t, err)
	require.Len(t, info.Holders, 2, "the reader was let in")
	for _, h := range info.Holders {
		require.Equal(t, int64(1), h.Count)
		require.Equal(t, h.Owner == writer.Owner, h.Fence == first.Fence, "the fence stays")
	}
	ok, err := w.store.Renew(ctx(t), writer)
	require.NoError(t, err)
	require.True(t, ok, "a late renewal of the writer keeps what there is")
	g, err = w.store.Acquire(ctx(t), writer)
	require.NoError(t, err)
	require.True(t, g.Refused, "a late repetition does not bring the writer back")
	_, err = w.store.Release(ctx(t), writer)
	require.NoError(t, err)
	ok, err = w.store.Renew(ctx(t), &less)
	require.NoError(t, err)
	require.False(t, ok)
	info, err = w.store.Inspect(ctx(t), lock.ReadWrite, "x")
	require.NoError(t, err)
	require.Len(t, info.Holders, 1)
}

func deadReader(t *testing.T, w *world) {
	r := lock.Request{Kind: lock.ReadWrite, Name: "n", Owner: "dead.1", Limit: lock.Everything, Count: 1, Lease: short}
	_, err := w.store.Acquire(ctx(t), &r)
	require.NoError(t, err)
	l := w.locker(t)
	alive, err := l.ReadWrite("n").RLock(ctx(t), lock.WithLease(renewed))
	require.NoError(t, err)
	lasts(renewed) // the living reader renews its own share alone
	require.NoError(t, alive.Unlock(ctx(t)))
	_, err = l.ReadWrite("n").TryLock(ctx(t))
	require.NoError(t, err)
}

func writerNotStarved(t *testing.T, w *world) {
	l := w.locker(t)
	rw := l.ReadWrite("n")
	read, err := rw.RLock(ctx(t))
	require.NoError(t, err)
	writer := make(chan locked, 1)
	c := ctx(t)
	go func() {
		lease, failed := rw.Lock(c)
		writer <- locked{lease, failed}
	}()
	until(t, "the writer waits", func() bool {
		info, failed := rw.Inspect(c)
		require.NoError(t, failed)
		return info.Waiters == 1
	})
	_, err = rw.TryRLock(ctx(t))
	require.ErrorIs(t, err, lock.ErrNotAcquired, "later readers stand behind it")
	require.NoError(t, read.Unlock(ctx(t)))
	require.NoError(t, (<-writer).err)
}

func cancelledWriter(t *testing.T, w *world) {
	l := w.locker(t)
	rw := l.ReadWrite("n")
	_, err := rw.RLock(ctx(t))
	require.NoError(t, err)
	c, cancel := context.WithCancel(t.Context())
	writer, reader := make(chan error, 1), make(chan error, 1)
	waiters := func(n int) {
		until(t, "they wait", func() bool {
			info, err := rw.Inspect(ctx(t))
			require.NoError(t, err)
			return info.Waiters == n
		})
	}
	go func() {
		_, failed := rw.Lock(c)
		writer <- failed
	}()
	waiters(1)
	all := ctx(t)
	go func() {
		_, err := rw.RLock(all)
		reader <- err
	}()
	waiters(2)
	cancel()
	require.ErrorIs(t, <-writer, context.Canceled)
	require.NoError(t, <-reader)
}

func readersWriters(t *testing.T, w *world) {
	var mu sync.Mutex
	readers, writers, wrong := 0, 0, 0
	enter := func(count *int, by int) {
		mu.Lock()
		defer mu.Unlock()
		*count += by
		if writers > 1 || writers == 1 && readers > 0 {
			wrong++
		}
	}
	var work sync.WaitGroup
	c := ctx(t)
	for i := range 6 {
		rw := w.locker(t).ReadWrite("n")
		work.Go(func() {
			for range 30 {
				take, count := rw.RLock, &readers
				if i%3 == 0 {
					take, count = rw.Lock, &writers
				}
				lease, err := take(c)
				if err != nil {
					t.Error(err)
					return
				}
				enter(count, 1)
				pause()
				enter(count, -1)
				w.unlocked(t, lease.Unlock(c))
			}
		})
	}
	work.Wait()
	require.Zero(t, wrong)
}

func permitsCounted(t *testing.T, w *world) {
	a, b := w.locker(t).Semaphore("n", 3), w.locker(t).Semaphore("n", 3)
	two, err := a.Acquire(ctx(t), 2)
	require.NoError(t, err)
	one, err := b.TryAcquire(two.Context(), 1)
	require.NoError(t, err, "a permit is no re-entry")
	_, err = b.TryAcquire(ctx(t), 1)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	info, err := a.Inspect(ctx(t))
	require.NoError(t, err)
	require.Len(t, info.Holders, 2)
	require.NoError(t, two.Unlock(ctx(t)))
	require.ErrorIs(t, two.Unlock(ctx(t)), lock.ErrNotHeld)
	_, err = a.TryAcquire(ctx(t), 3)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, one.Unlock(ctx(t)))
	_, err = a.TryAcquire(ctx(t), 3)
	require.NoError(t, err)
}

func expiredPermit(t *testing.T, w *world) {
	s := w.locker(t).Semaphore("n", 1)
	lease, err := s.Acquire(ctx(t), 1, lock.WithFixedLease(lock.MinLease))
	require.NoError(t, err)
	require.ErrorIs(t, done(t, lease.Context()), lock.ErrLost)
	next, err := s.Acquire(ctx(t), 1)
	require.NoError(t, err)
	require.ErrorIs(t, lease.Unlock(ctx(t)), lock.ErrNotHeld)
	require.NoError(t, next.Check(ctx(t)))
	_, err = s.TryAcquire(ctx(t), 1)
	require.ErrorIs(t, err, lock.ErrNotAcquired, "the late release has freed nothing")
}

func crashedHolder(t *testing.T, w *world) {
	r := lock.Request{Kind: lock.Permits, Name: "n", Owner: "dead.1", Limit: 3, Count: 2, Lease: short}
	_, err := w.store.Acquire(ctx(t), &r)
	require.NoError(t, err)
	_, err = w.locker(t).Semaphore("n", 3).Acquire(ctx(t), 3)
	require.NoError(t, err)
}

func manyNotOvertaken(t *testing.T, w *world) {
	l := w.locker(t)
	s := l.Semaphore("n", 3)
	one, err := s.Acquire(ctx(t), 1)
	require.NoError(t, err)
	many := make(chan error, 1)
	c := ctx(t)
	go func() {
		_, failed := s.Acquire(c, 3)
		many <- failed
	}()
	until(t, "it waits", func() bool {
		info, failed := s.Inspect(c)
		require.NoError(t, failed)
		return info.Waiters == 1
	})
	_, err = s.TryAcquire(ctx(t), 1)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, one.Unlock(ctx(t)))
	require.NoError(t, <-many)
}

func fewerPermits(t *testing.T, w *world) {
	l := w.locker(t)
	three, err := l.Semaphore("n", 3).Acquire(ctx(t), 3)
	require.NoError(t, err)
	_, err = l.Semaphore("n", 2).TryAcquire(ctx(t), 1)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, three.Check(ctx(t)))
	require.NoError(t, three.Unlock(ctx(t)))
	_, err = l.Semaphore("n", 2).TryAcquire(ctx(t), 2)
	require.NoError(t, err)
}

func permitsUnderLoad(t *testing.T, w *world) {
	var mu sync.Mutex
	used, most := 0, 0
	var work sync.WaitGroup
	c := ctx(t)
	for range 6 {
		s := w.locker(t).Semaphore("n", 3)
		work.Go(func() {
			for i := range 30 {
				n := 1 + i%2
				lease, err := s.Acquire(c, n)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				used += n
				most = max(most, used)
				mu.Unlock()
				pause()
				mu.Lock()
				used -= n
				mu.Unlock()
				w.unlocked(t, lease.Unlock(c))
			}
		})
	}
	work.Wait()
	require.LessOrEqual(t, most, 3)
	until(t, "nothing is left", func() bool {
		info, err := w.locker(t).Semaphore("n", 3).Inspect(c)
		require.NoError(t, err)
		return len(info.Holders) == 0 && info.Waiters == 0
	})
}

func sharedHandOver(t *testing.T, w *world) {
	a, b := w.locker(t), w.locker(t)
	read, err := a.ReadWrite("n").RLock(ctx(t))
	require.NoError(t, err)
	handle, err := read.Handle()
	require.NoError(t, err)
	adopted, err := b.Adopt(ctx(t), handle)
	require.NoError(t, err)
	require.Greater(t, adopted.Fence(), read.Fence())
	_, err = a.Adopt(ctx(t), handle)
	require.ErrorIs(t, err, lock.ErrLost)
	require.NoError(t, adopted.Unlock(ctx(t)))
	_, err = a.ReadWrite("n").TryLock(ctx(t))
	require.NoError(t, err)
}
