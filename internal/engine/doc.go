// Package engine is the seller: it takes attempts from the crowd, turns away
// those it may refuse without asking, gathers the rest, and has each gathering
// decided in one call by the path that its sale is on. It has no I/O of its own.
//
// # One way through
//
//	Buy ─► catalog ─► memory ─► line of the lane ─┬─ direct ─► ledger.Reserve ─► reserved
//	      (cached)   (may we    (gather)          └─ fast ───► counter.Take ───► queued ─► room ─► reserved
//	                 refuse?)                                                   (wait for the judge)
//
// # Group commit
//
// A sale has one lane on the direct path and as many as it was given on the fast
// one; a user is at home in one of them. Each lane has one line and at most one
// call under way. While the call runs the next batch gathers; there is no
// artificial delay, so one buyer alone waits for nobody and a crowd shares calls.
// A line is bounded: beyond it an attempt is refused as busy, with nothing done.
// Looking orders up and judging receipts gather in lines of the same kind.
//
// # A sale that moves
//
// Every call names the epoch, and on the fast path the terms, that it believes in.
// If it is wrong nothing is decided, the sale is read again, and the batch follows
// it, twice at most. A lane that is cold, frozen or behind what this instance has
// seen is reported (Options.Trouble) and the batch is busy: trouble of the counter
// is never a business answer. A lane that is behind in terms is brought up to date
// and asked again.
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
// have no order. While nothing is left of an item nobody can come to hold any, so
// whoever is not among the holders read after that was first seen is such a user.
// Every reply carries a stamp; one that shows that units may have come back since
// makes the holders worthless until they are read again, at most once a second. A
// reading that fails is tried again after a pause no shorter than it took.
// Memory of what is left lives a second and is dropped by every message that the
// sale sells again; replies to calls sent before such a message are not learned.
// When it lapses one attempt probes and the others wait for that. An engine that
// is alone (Options.Alone) sees all there is to see: it need not read again, and
// may refuse quantities above what is left, too.
//
// # Waiting for the judge
//
// Who waits for a queued order sits in one room. News of other instances and the
// journal rows of this process wake those they concern; as a net, everybody who
// waits is looked up about once a second, all in one reading. Nobody polls for himself.
//
// # Ahead of the journal
//
// What the ledger changes reaches the lanes by the journal in any case. The engine
// takes it there at once where somebody waits for it: the units of an order that
// was cancelled or refunded, and the rules of a sale that an operator changed.
// Failing costs the next buyer a moment, never correctness.
package engine
