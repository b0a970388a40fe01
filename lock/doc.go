// Package lock coordinates processes by locks that live in a store they share:
// mutexes, read-write locks, semaphores, and several mutexes at once. Stores are
// in lock/redislock (Redis, Sentinel, Cluster, a quorum of servers) and
// lock/memlock (one process); lock/locktest examines others.
//
//	locker, err := lock.New(store, lock.Config{})
//	err = locker.Do(ctx, "report:2026-11", func(ctx context.Context, lease *lock.Lease) error {
//		return build(ctx, lease.Fence())
//	})
//
// # Leases
//
// What is held is a lease: it ends by itself, so a holder that crashes stands in
// nobody's way for long, and a watchdog renews it at each third of its length
// while the holder lives.
//
//	       Lock                    Unlock
//	free ─────────► held ─────────────────► released
//	                 │ ▲                       ▲
//	           renew └─┘                       │ Unlock (answers ErrLost)
//	                 │ lease ends, Break,      │
//	                 │ store forgets           │
//	                 └──────────────────────► lost
//
// The context of a lease ends with it: cause ErrReleased (which is ErrClosed too if
// Close took the lock away) or ErrLost. Work that is
// done under the lock should run under that context. The holder knows a loss by
// its own clock before the store can give the lock to another, also when the store
// does not answer any more.
//
// The owner of a lock is the acquisition: not a process, thread or goroutine. Any
// goroutine may use and release a lease. Re-entry goes by the context: Lock with
// the context of a lease of the same name, by the same *Locker, is a re-entry, which
// costs nothing and has the same fence and lease: options that say otherwise have no
// effect. Another Locker waits for the first, for ever.
//
// # Promises
//
//  1. While the context of an exclusive lease is live, no other lease of that name
//     is, if the assumptions below hold and nobody breaks the lock.
//  2. Fences of one name grow strictly, whatever else fails, as long as the clock
//     of the store does not fall behind what it has shown before its memory is lost.
//     A resource that refuses smaller fences than it has seen is safe without any
//     of the other assumptions. See Lease.Fence.
//  3. An error of Lock means that nothing is held and nobody is queued, or will be
//     shortly: what was granted to a caller who has gone is given back in the
//     background, and ends with its lease if the store cannot be reached. A context
//     that ended before Lock returns never comes with a lease.
//  4. Every call may be repeated. No renewal brings a lock back that was lost, and
//     no release touches the lock of another owner. An Unlock whose first answer was
//     lost may say ErrLost where another has held and given back the lock since.
//  5. Waiters are served in the order in which the store heard of them, over all
//     processes, and a release hands the lock on in the same step. Waiters that have
//     died are passed over: they cost no more than Config.Waiter, or two seconds if
//     the lock was just handed to one. WithBarging gives the order up.
//  6. After the last fault, a waiter has the lock within the lease of the holder
//     and a quarter of Config.Waiter.
//
// # Assumptions
//
// Promise 1 rests on time, as that of every lock service does:
//
//   - A holder is not paused between a look at its context and the effect of its
//     work for longer than what is left of the lease. A garbage collection, a
//     suspended machine or a slow network can do that. Only the fence helps then.
//   - The clocks of process and store run equally fast to a hundredth, and the
//     store's clock does not jump forward by more than a lease has left.
//   - The store does not lose what it has confirmed. A Redis that fails over to a
//     replica, or restarts without having synced its log, does lose the last writes.
//     redislock.Options.Replicas makes that rarer; redislock.NewQuorum survives the
//     loss of a minority of servers.
//
// # When not to lock
//
// A lock that keeps work from being done twice needs no fence. A lock that guards
// data should not be the only guard: let the write itself be conditional, by a
// version, a state or the fence. Where the data lives in one database, a
// transaction there is the better lock.
package lock
