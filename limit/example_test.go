package limit_test

import (
	"context"
	"fmt"
	"time"

	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/memlimit"
)

// open returns a limiter. In a program that has several processes, it is one of
// redislimit.
func open() limit.Limiter {
	l, err := memlimit.New(memlimit.Options{})
	if err != nil {
		panic(err)
	}
	return l
}

func Example() {
	ctx, limiter := context.Background(), open()
	perUser := limit.Rate{Name: "user", Algorithm: limit.TokenBucket, Quota: 1, Window: time.Minute, Burst: 2}
	for range 3 {
		d, err := limiter.Allow(ctx, "user 7", 1, perUser)
		if err != nil {
			panic(err)
		}
		fmt.Println(d.Allowed, d.Binding.Remaining, d.Binding.RetryAfter.Round(time.Second))
	}
	// Output:
	// true 1 0s
	// true 0 0s
	// false 0 1m0s
}

// Several rates of a subject are spent together, or none of them.
func ExampleLimiter_several() {
	ctx, limiter := context.Background(), open()
	rates := []limit.Rate{
		{Name: "second", Algorithm: limit.SlidingWindow, Quota: 10, Window: time.Second},
		{Name: "day", Algorithm: limit.FixedWindow, Quota: 12, Window: 24 * time.Hour},
	}
	_, _ = limiter.Allow(ctx, "user 7", 10, rates...)
	d, _ := limiter.Allow(ctx, "user 7", 3, rates...)
	fmt.Println(d.Allowed, "because of the", d.Binding.Rate)
	for s := range d.All() {
		fmt.Println(s.Rate, s.Refused, s.Remaining, "of", s.Limit)
	}
	// Output:
	// false because of the day
	// second true 0 of 10
	// day true 2 of 12
}

// A request counts against its user and its address, or against neither.
func ExampleLimiter_allowAll() {
	ctx, limiter := context.Background(), open()
	user := []limit.Rate{{Name: "user", Algorithm: limit.TokenBucket, Quota: 5, Window: time.Minute}}
	address := []limit.Rate{{Name: "ip", Algorithm: limit.TokenBucket, Quota: 1, Window: time.Minute}}
	for _, name := range []string{"ann", "bob"} {
		out, err := limiter.AllowAll(ctx, []limit.Check{
			{Subject: "ip:192.0.2.1", Cost: 1, Rates: address},
			{Subject: "user:" + name, Cost: 1, Rates: user},
		})
		if err != nil {
			panic(err)
		}
		fmt.Println(name, out[0].Allowed, out[1].Allowed)
	}
	d, _ := limiter.Peek(ctx, "user:bob", user...)
	fmt.Println("bob has", d.Binding.Remaining, "left")
	// Output:
	// ann true true
	// bob false true
	// bob has 5 left
}

// Calls to a provider leave evenly spaced.
func ExampleLimiter_wait() {
	ctx, limiter := context.Background(), open()
	sms := limit.Rate{Name: "sms", Algorithm: limit.LeakyBucket, Quota: 100, Window: time.Second, Burst: 50}
	start := time.Now()
	for range 3 {
		if d, err := limiter.Wait(ctx, "provider", 1, sms); err != nil || !d.Allowed {
			panic("too many wait already")
		}
	}
	fmt.Println(time.Since(start) >= 20*time.Millisecond)
	// Output: true
}

// At most two exports run at the same time, over all processes; one that crashes
// gives its slot back after a minute.
func ExampleLimiter_acquire() {
	ctx, limiter := context.Background(), open()
	exports := limit.Rate{Name: "exports", Algorithm: limit.Concurrency, Quota: 2, Window: time.Minute}
	first, _, _ := limiter.Acquire(ctx, "shop", exports)
	_, _, _ = limiter.Acquire(ctx, "shop", exports)
	third, d, _ := limiter.Acquire(ctx, "shop", exports)
	fmt.Println(third == nil, d.Allowed)
	_ = first.Release(ctx)
	third, _, _ = limiter.Acquire(ctx, "shop", exports)
	fmt.Println(third != nil)
	// Output:
	// true false
	// true
}
