package locktest

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/lock"
)

func queueCases() map[string]func(*testing.T, *world) {
	return map[string]func(*testing.T, *world){
		"N50_InOrder":              inOrder,
		"N07_DeadWaiterIsSkipped":  deadWaiter,
		"N08_PlaceIsRefreshed":     placeRefreshed,
		"N09_CancelLeavesTheQueue": cancelLeavesQueue,
		"N10_NobodyToTell":         nobodyToTell,
		"N10_ReleasedBefore":       releasedBefore,
		"GrantsAreClaimed":         claimed,
		"N06_PlacesEndSoon":        placesEnd,
		"DeadGranteeIsPassedOver":  deadGrantee,
		"NoOvertaking":             noOvertaking,
		"Barging":                  barging,
	}
}

// inOrder lets waiters of several processes join one after the other, and expects
// them to be served so.
func inOrder(t *testing.T, w *world) {
	const n = 8
	lockers := []*lock.Locker{w.locker(t), w.locker(t), w.locker(t)}
	first := must(t, lockers[0], "n")
	var mu sync.Mutex
	var served []int
	var work sync.WaitGroup
	c := ctx(t)
	for i := range n {
		work.Go(func() {
			lease, err := lockers[i%3].Lock(c, "n")
			if err != nil {
				return
			}
			mu.Lock()
			served = append(served, i)
			mu.Unlock()
			_ = lease.Unlock(c)
		})
		queued(t, lockers[0], i+1)
	}
	require.NoError(t, first.Unlock(ctx(t)))
	work.Wait()
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7}, served)
}

// ghost is a waiter whose process has died.
func (w *world) ghost(t *testing.T, owner string, place time.Duration) {
	t.Helper()
	r := request(owner, time.Minute)
	r.Queue = place
	g, err := w.store.Acquire(ctx(t), r)
	require.NoError(t, err)
	require.Zero(t, g.Fence)
}

func deadWaiter(t *testing.T, w *world) {
	l := w.locker(t)
	first := must(t, l, "n")
	for _, owner := range []string{"dead.1", "dead.2", "dead.3"} {
		w.ghost(t, owner, 50*time.Millisecond)
	}
	waiting := background(ctx(t), l)
	queued(t, l, 4)
	lasts(100 * time.Millisecond)
	require.NoError(t, first.Unlock(ctx(t)))
	info, err := l.Inspect(ctx(t), "n")
	require.NoError(t, err)
	require.NotEqual(t, "dead", info.Holders[0].Owner.Locker(), "the release has passed over them")
	require.NoError(t, (<-waiting).err)
	queued(t, l, 0)
}

// placeRefreshed waits for several lives of a place.
func placeRefreshed(t *testing.T, w *world) {
	l := w.with(t, lock.Config{Waiter: 200 * time.Millisecond})
	first := must(t, l, "n")
	one := background(ctx(t), l)
	queued(t, l, 1)
	two := background(ctx(t), w.locker(t))
	queued(t, l, 2)
	lasts(time.Second)
	require.NoError(t, first.Unlock(ctx(t)))
	got := <-one
	require.NoError(t, got.err)
	require.NoError(t, got.lease.Unlock(ctx(t)))
	require.NoError(t, (<-two).err)
}

func cancelLeavesQueue(t *testing.T, w *world) {
	l := w.locker(t)
	must(t, l, "n")
	for range 5 {
		_, err := w.locker(t).TryLock(ctx(t), "n", lock.WithWait(10*time.Millisecond))
		require.ErrorIs(t, err, lock.ErrNotAcquired)
	}
	queued(t, l, 0)
}

// nobodyToTell grants to a waiter that is not told: it finds out by asking.
func nobodyToTell(t *testing.T, w *world) {
	l := w.locker(t)
	mute, err := lock.New(&deaf{w.store}, lock.Config{})
	require.NoError(t, err)
	first := must(t, l, "n")
	waiting := background(ctx(t), mute)
	queued(t, l, 1)
	require.NoError(t, first.Unlock(ctx(t)))
	require.NoError(t, (<-waiting).err)
	require.NoError(t, mute.Close(ctx(t)))
}

// deaf is a store whose messages do not arrive.
type deaf struct{ lock.Store }

func (*deaf) Subscribe(c context.Context, _ string, ready func(), _ func(lock.Owner)) error {
	ready()
	<-c.Done()
	return c.Err()
}

// releasedBefore gives the lock back after a waiter has asked in vain and before it
// listens.
func releasedBefore(t *testing.T, w *world) {
	first := must(t, w.locker(t), "n")
	late := &late{Store: w.store, before: func() { assert.NoError(t, first.Unlock(ctx(t))) }}
	waiter, err := lock.New(late, lock.Config{})
	require.NoError(t, err)
	lease := must(t, waiter, "n")
	sound(t, lease)
	require.NoError(t, waiter.Close(ctx(t)))
}

// late is a store in which something happens before a subscription.
type late struct {
	lock.Store
	once   sync.Once
	before func()
}

func (l *late) Subscribe(c context.Context, topic string, ready func(), wake func(lock.Owner)) error {
	l.once.Do(l.before)
	return l.Store.Subscribe(c, topic, ready, wake)
}

// placesEnd lets many waiters come, ask again and again, and die: none of their
// places lasts longer than its life since it was last asked for.
func placesEnd(t *testing.T, w *world) {
	const place = 200 * time.Millisecond
	l := w.locker(t)
	first := must(t, l, "n")
	for range 20 {
		for i := range 20 {
			w.ghost(t, "dead."+strconv.Itoa(i), place)
		}
	}
	queued(t, l, 20)
	lasts(place + 50*time.Millisecond)
	require.NoError(t, first.Unlock(ctx(t)))
	info, err := l.Inspect(ctx(t), "n")
	require.NoError(t, err)
	require.Empty(t, info.Holders, "all of them are passed over")
	require.Zero(t, info.Waiters)
}

// claimed: a grant to one that does not take it up lasts no longer than two
// seconds.
func claimed(t *testing.T, w *world) {
	l := w.locker(t)
	first := must(t, l, "n")
	w.ghost(t, "dead.1", time.Minute)
	require.NoError(t, first.Unlock(ctx(t)))
	info, err := l.Inspect(ctx(t), "n")
	require.NoError(t, err)
	require.Equal(t, lock.Owner("dead.1"), info.Holders[0].Owner)
	require.LessOrEqual(t, info.Holders[0].Left, 2*time.Second)
}

func deadGrantee(t *testing.T, w *world) {
	l := w.locker(t)
	first := must(t, l, "n")
	w.ghost(t, "dead.1", time.Minute)
	waiting := background(ctx(t), l)
	queued(t, l, 2)
	require.NoError(t, first.Unlock(ctx(t)))
	require.NoError(t, (<-waiting).err, "after the two seconds that a grant may stay unclaimed")
}

// noOvertaking: nobody takes a lock past those that wait for it.
func noOvertaking(t *testing.T, w *world) {
	l := w.locker(t)
	first := must(t, l, "n", lock.WithBarging())
	w.ghost(t, "alive.1", time.Minute)
	require.NoError(t, first.Unlock(ctx(t)))
	info, err := l.Inspect(ctx(t), "n")
	require.NoError(t, err)
	require.Empty(t, info.Holders, "a barging release leaves it free")
	taken(t, l, "n")
	lease, err := l.TryLock(ctx(t), "n", lock.WithBarging())
	require.NoError(t, err)
	require.NoError(t, lease.Check(ctx(t)))
}

func barging(t *testing.T, w *world) {
	var witness Witness
	var work sync.WaitGroup
	c := ctx(t)
	const lockers, rounds = 3, 20
	for range lockers {
		l := w.locker(t)
		for range 2 {
			work.Go(func() {
				for range rounds {
					lease, err := l.Lock(c, "n", lock.WithBarging())
					if err != nil {
						return
					}
					witness.Enter(lease)
					witness.Leave(lease)
					_ = lease.Unlock(c)
				}
			})
		}
	}
	work.Wait()
	witness.Require(t, lockers*2*rounds)
	queued(t, w.locker(t), 0)
}
