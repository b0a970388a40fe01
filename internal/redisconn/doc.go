// Package redisconn connects to Redis the way the fast path needs it: one server,
// a primary behind sentinels, or a cluster.
//
// # What a client promises
//
// Open returns a client that sends a call at most once. When the answer does not
// come, nobody knows whether the call was carried out, and only the caller can
// know whether it may be repeated; a client that repeats calls by itself would
// sell a unit twice to one click. Redirections in a cluster are no repetitions:
// the node that answers with one has done nothing.
//
// Calls share a few connections and travel together. A caller whose time is up
// leaves without disturbing the others on its connection.
//
// # What an error means
//
// Trouble gives each error a Reason and says the one thing that matters to a
// caller: whether the call was surely not carried out, or may have been. All of
// it is infrastructure; none is an answer to a buyer. The rules rest on how Redis
// 7 runs scripts: a server that is a replica, out of memory, unable to save or
// short of replicas refuses the first write of a script, and never a later one,
// so after such a refusal nothing has been written.
//
// # What is checked at the start
//
// Check asks every master for what the counter relies on: the version, that no
// key is evicted, what a restart would cost, and how its clock stands to the
// ledger's.
package redisconn
