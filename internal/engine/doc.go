// Package engine is the seller: it takes attempts from the crowd, turns away
// those it may refuse without asking, gathers the rest, and hands each sale's
// gathering to the ledger in one call. It has no I/O of its own.
//
// # One way through
//
//	Buy ─► catalog (cached sale) ─► memory (may we refuse?) ─► line (gather) ─► ledger.Reserve
//
// # Group commit
//
// Each sale has one line and at most one ledger call under way. While the call
// runs the next batch gathers; there is no artificial delay, so one buyer alone
// waits for nobody and a crowd shares transactions. A line is bounded: beyond
// it an attempt is refused as busy, with nothing done.
//
// # Callers who leave
//
// An attempt whose caller is gone before its batch is sent is dropped. One that
// is already in a batch is decided as if the caller had stayed: the order is
// found again by its key, or its hold ends. No unit is lost either way.
//
// # What may be refused from memory
//
// Look-up comes before every refusal, so memory may refuse only users known to
// have no order in the sale. The set of buyers is loaded when it is first needed
// and then kept current by the batches themselves, before anything is learned
// from their replies. Memory of what is left lives a second and is dropped by
// every return, restock or change of the sale; replies that were judged before
// such a message are ignored. When it lapses one attempt probes the ledger and
// the others wait for that.
package engine
