// Package limit says how often something may happen: requests of a client, sends
// to a provider, work at the same time. Implementations are limit/redislimit (many
// processes share a Redis) and limit/memlimit (one process); limit/limittest
// examines others.
//
//	perUser := limit.Rate{Name: "user", Algorithm: limit.TokenBucket, Quota: 10, Window: time.Second, Burst: 20}
//	d, err := limiter.Allow(ctx, userID, 1, perUser)
//	if err == nil && !d.Allowed {
//		// try again after d.Binding.RetryAfter
//	}
//
// # Algorithms
//
//	algorithm      Quota            Window     Burst               in any time T at most
//	FixedWindow    calls a window   its length –                   Quota · (⌈T/Window⌉ + 1)
//	SlidingWindow  calls a window   its length –                   Quota · ⌈T/Window⌉
//	TokenBucket    tokens a Window  refill     at once             Burst + Quota · T/Window
//	LeakyBucket    turns a Window   spacing    turns in the queue  cost + Quota · T/Window
//	Concurrency    slots            lease      –                   Quota held at one time
//
// Calls stands for costs: a call of cost n counts n times. The cost in the row of
// the LeakyBucket is the largest of one call; with costs of 1, calls are Window/Quota
// apart.
//
// A FixedWindow is the cheapest, and admits twice the quota around an edge; its
// windows begin with the first call of a subject, so that no clock gives all of them
// an edge at once. A SlidingWindow has no edges: it counts in sixteen cells a window,
// and a cell counts until all of it is older than the window. So what was spent comes
// back after the window and at most a sixteenth of it more. A TokenBucket is the
// usual choice for requests: it forgives bursts and is exact. With Burst equal to
// Quota, which is the default, a window may see twice the quota: the burst, and what
// has come back since; choose a smaller Burst or a SlidingWindow where that matters.
//
// # Promises
//
//  1. The bounds above hold over all processes that share a store, for every pattern
//     of calls, while the store keeps what it has confirmed and its clock runs evenly.
//     A clock that is set back admits nothing early, and blocks for no longer than
//     the rate itself would. One that is set forward by d counts as d of waiting.
//  2. A refusal costs nothing, in any rate of the call. Several rates are decided in
//     one atomic step.
//  3. At RetryAfter, the same call is admitted, if nobody has spent anything else.
//  4. Changing a rate neither resets what was spent nor breaks anything: counts are
//     kept, cut to the new capacity. What was spent is over when it is by either of
//     the rates, and does not come back under a third. So a FixedWindow that becomes
//     shorter ends that much after it has begun, which may be at once, and a longer
//     one may still end with the old one; a SlidingWindow counts what is still in the
//     old window as of the last call; a bucket fills at the new pace, from the
//     last call that was admitted or a later one on; a Concurrency whose Window
//     becomes shorter may cut the leases that are held. Who keeps in mind with a rate that something has happened once, as that a
//     token was used, gives it the same Window in every call.
//  5. Time is the store's. The caller's clock is never asked about shared state.
//  6. A store that does not answer costs a call a short time, then nothing, and is
//     found again by itself. Meanwhile the Policy of each rate decides, and the
//     Decision is Degraded. What Local admits is bounded over all outages of a window
//     together. It is never a reason to call somebody over the limit.
package limit
