// Package app puts the house together: it is the only room that picks concrete
// stores, and it owns the order of starting and stopping.
//
// Start: data folder, lock, ledger (migrated), keys, engine, feed, sweeper,
// listeners, addresses written, ready. Stop, the other way round: not ready, no
// new requests, those accepted are answered, the engine's lines are drained, the
// sweeper and the feed end, the ledger closes. Whatever has not ended within the
// grace time is cut off, which is no worse than a crash.
package app
