// Package redislock keeps locks in Redis 7.0 or later: one server, a primary
// behind Sentinel, or a Cluster, over one client of rueidis; NewQuorum keeps them
// on several servers that know nothing of each other, where a majority decides.
//
//	client, err := rueidis.NewClient(rueidis.ClientOption{
//		InitAddress: []string{addr}, DisableCache: true, AlwaysPipelining: true, PipelineMultiplex: -1,
//	})
//	store, err := redislock.New(client, redislock.Options{})
//	locker, err := lock.New(store, lock.Config{})
//
// Every step is one Lua script of lua/, whose time is the server's. A script
// repeats nothing that it has done for the same owner, so a call whose answer was
// lost is simply sent again. All keys of a name share a hash tag:
//
//	lk:m:{name}  mutex     lk:s:{name}  read-write lock     lk:p:{name}  permits
//
// and beside each of them, with another letter before the colon, q (queue),
// w (waiters), h (holders), and c, the channel in a Cluster. A name that has a {tag}
// of its own keeps it, so that a lock may lie beside the data it guards; see
// Store.Key.
//
// A user of the server needs the keys ~lk:*, the channels &lk:*, and the commands
// of lua/, EVAL and EVALSHA, SUBSCRIBE or SSUBSCRIBE, and WAIT where replicas are
// asked for. Without the channels everything works, but waiters only ask from time
// to time. On a server whose memory is full (noeviction) nobody gets a lock that is
// free, but what is held is renewed, given back and handed on.
//
// The fence of a grant is the last fence plus one or the server's time in
// microseconds, whichever is more. It is stored beside the owner for a day. After
// a fail-over to a replica that had not heard of the last grants, or when the key
// is gone, the time alone makes the next fence larger, unless the clock of the new
// server is behind that of the old one by more than has passed.
package redislock
