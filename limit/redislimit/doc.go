// Package redislimit keeps limits in Redis 7.0 or later, where any number of
// processes share them: one server, a primary behind Sentinel, or a Cluster, over
// one client of rueidis.
//
//	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
//	limiter, err := redislimit.New(client, redislimit.Options{Instances: 4})
//	defer limiter.Close()
//
// Every decision is one step of a Lua script of lua/, whose time is the server's.
// All rates of a subject lie in one slot:
//
//	rl:1:{subject}:t:name   f fixed window, s sliding window, t token bucket,
//	                        l leaky bucket, c concurrency
//
// The subject in a key is a hash of 16 bytes, keyed with Options.HashKey, so that a
// dump of Redis is no list of addresses or users. Every key expires when nothing
// counts any more. A key that was written by somebody else counts as none and is
// replaced, one whose expiry was taken away gets it back, and what a clock that was
// set back has left in the future counts as of now.
//
// # Calls
//
// While a call is under way, those that come gather and go together in the next one:
// one script for up to 128 of them, or in a Cluster one pipeline, by ranges of
// slots. Nothing waits for a timer; of a crowd, the last waits for as many calls as
// there are 128 in it. A caller whose context ends does not wait any
// more, but what it asked for may be spent.
//
// A refusal is remembered until RetryAfter has passed on the monotonic clock of this
// process, counted from before the call was sent; until then the same cost, or a
// larger one, of the same rate is refused at once, without a call: nobody can have
// been admitted in between. That is exact unless another process gives something
// back, resets the subject, or follows a smaller rate of that name, or the server's
// clock is set forward; so nothing is remembered for longer than Options.MaxDeny.
// Refund and Reset of this limiter, and a changed rate, forget at once. Concurrency
// is never remembered: a slot may be released at any time.
//
// # Without Redis
//
// A call has Options.Timeout. When it fails, the policies of the rates decide. One
// call that is late is no outage: the next one is sent as ever. When that is late, too,
// or when the connection or the server fails, the store rests: the policies decide at
// once, without a call, until one call at a time has found the server again (in a
// Cluster: for the range of slots that failed). What is remembered as refused stays
// refused meanwhile.
//
// Local counts in a memlimit.Limiter with the quota divided by Options.Instances. What
// was spent in Redis before is not known to it, and what is spent in it not to Redis
// afterwards; a call that was late may count in both. It does not forget when the
// store is found again, so all outages of a window together admit one share more in
// each process: over all of them, at most twice the bounds of package limit. Only
// where a quota is smaller than the number of processes, each of them admits one.
package redislimit
