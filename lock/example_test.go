package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/doorbuster/doorbuster/lock"
	"github.com/doorbuster/doorbuster/lock/memlock"
)

// open returns a locker. In a program, the store is one of redislock.
func open() *lock.Locker {
	l, err := lock.New(memlock.New(), lock.Config{})
	if err != nil {
		panic(err)
	}
	return l
}

func Example() {
	ctx, locker := context.Background(), open()
	err := locker.Do(ctx, "report:2026-11", func(ctx context.Context, _ *lock.Lease) error {
		fmt.Println("one builds the report:", ctx.Err() == nil)
		return nil
	})
	fmt.Println(err, locker.Close(ctx))
	// Output:
	// one builds the report: true
	// <nil> <nil>
}

// A value that has expired is built once, and everybody else waits for it.
func Example_cacheRebuild() {
	ctx, locker := context.Background(), open()
	var cache sync.Map
	builds := 0
	get := func(key string) (string, error) {
		if v, ok := cache.Load(key); ok {
			return fmt.Sprint(v), nil
		}
		var out string
		err := locker.Do(ctx, "build:"+key, func(context.Context, *lock.Lease) error {
			if v, ok := cache.Load(key); ok { // somebody was faster
				out = fmt.Sprint(v)
				return nil
			}
			builds++
			out = "value of " + key
			cache.Store(key, out)
			return nil
		}, lock.WithWait(5*time.Second))
		return out, err
	}
	var work sync.WaitGroup
	for range 10 {
		work.Go(func() { _, _ = get("k") })
	}
	work.Wait()
	v, err := get("k")
	fmt.Println(v, err, "built", builds)
	// Output: value of k <nil> built 1
}

// One process leads as long as its lease lives; the next one takes over when it
// ends.
func Example_leaderElection() {
	ctx, locker := context.Background(), open()
	lead := func(ctx context.Context, term *lock.Lease) error {
		fmt.Println("leading:", term.Err() == nil)
		<-ctx.Done() // until the term is lost, or the process stops
		return context.Cause(ctx)
	}
	campaign := func(ctx context.Context) error {
		for ctx.Err() == nil { // also after an outage: who waits longer than Patience is told
			if err := locker.Do(ctx, "leader", lead, lock.WithLease(10*time.Second)); err == nil {
				return nil
			}
		}
		return context.Cause(ctx)
	}
	stop, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	fmt.Println(campaign(stop))
	// Output:
	// leading: true
	// context deadline exceeded
}

// A resource that remembers the highest fence it has seen refuses whoever was
// paused for so long that the lock has gone on without it.
func Example_fence() {
	ctx, locker := context.Background(), open()
	var seen lock.Fence
	write := func(fence lock.Fence, what string) {
		if fence < seen {
			fmt.Println("refused:", what)
			return
		}
		seen = fence
		fmt.Println("written:", what)
	}
	paused, _ := locker.Lock(ctx, "file")
	_ = locker.Break(ctx, "file", paused.Owner()) // as if its lease had ended
	next, _ := locker.Lock(ctx, "file")
	write(next.Fence(), "by the next holder")
	write(paused.Fence(), "by the one that was paused")
	// Output:
	// written: by the next holder
	// refused: by the one that was paused
}

func ExampleLocker_LockAll() {
	ctx, locker := context.Background(), open()
	both, err := locker.LockAll(ctx, []string{"account:7", "account:3"})
	fmt.Println(err, both.Err())
	fmt.Println(both.Unlock(ctx))
	// Output:
	// <nil> <nil>
	// <nil>
}

func ExampleRW() {
	ctx, prices := context.Background(), open().ReadWrite("prices")
	one, _ := prices.RLock(ctx)
	two, _ := prices.RLock(ctx)
	_, err := prices.TryLock(ctx)
	fmt.Println("write while two read:", errors.Is(err, lock.ErrNotAcquired))
	fmt.Println(one.Unlock(ctx), two.Unlock(ctx))
	// Output:
	// write while two read: true
	// <nil> <nil>
}

func ExampleSemaphore() {
	ctx, exports := context.Background(), open().Semaphore("exports", 2)
	one, _ := exports.Acquire(ctx, 1)
	_, _ = exports.Acquire(ctx, 1)
	_, err := exports.TryAcquire(ctx, 1)
	fmt.Println("a third:", errors.Is(err, lock.ErrNotAcquired))
	fmt.Println(one.Unlock(ctx))
	// Output:
	// a third: true
	// <nil>
}

// A lock goes to another process with the work it guards.
func ExampleLease_Handle() {
	ctx, store := context.Background(), memlock.New()
	here, _ := lock.New(store, lock.Config{})
	there, _ := lock.New(store, lock.Config{})
	lease, _ := here.Lock(ctx, "job:9")
	handle, _ := lease.Handle() // travels as JSON
	adopted, err := there.Adopt(ctx, handle)
	fmt.Println(err, lease.Err() != nil, adopted.Err())
	// Output: <nil> true <nil>
}

func ExampleStats() {
	var stats lock.Stats
	ctx := context.Background()
	locker, _ := lock.New(memlock.New(), lock.Config{Observe: stats.Observe})
	_ = locker.Do(ctx, "n", func(context.Context, *lock.Lease) error { return nil })
	fmt.Println(stats.Count(lock.Acquired), stats.Count(lock.Lost), stats.Quantile(lock.Released, 0.99) > 0)
	// Output: 1 0 true
}
