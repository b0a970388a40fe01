// Package ledger is the book of record: the contract, and the rules that decide
// who gets a unit.
//
// # Who does what
//
// Book is the one implementation of Ledger. It loads a sale's rows through a
// Store, decides at a desk (a plain function of the rows and the ledger's time),
// and hands back one set of changes. A Store — sqliteledger or pgledger —
// runs the transaction and writes the set; it decides nothing, but each write
// carries a guard (expected state, 0 ≤ sold ≤ stock, live ≤ cap, the expected
// journal number), so that even a mistake above it cannot oversell.
//
// # What is durable when
//
// Every method is one transaction. When it returns nil, order, units, limit,
// money and journal rows are durable together; when the process dies before the
// commit, none of them is. A commit whose reply was lost is found again by the
// same call, since order ids are derived from the click and every transition is
// conditional on the state before it.
//
// # Lock order
//
// Sale row, orders by id, holders by user. Everything that writes to a sale
// locks its row first, so two writers of one sale never hold parts of each other.
//
// # Two ways in
//
// A direct attempt is decided here, under the sale's rules of this moment; it
// names the epoch it believes in, and is refused with ErrWrongEpoch when the sale
// has gone another way. A slip was taken by the fast counter under the rules of
// its own moment; it becomes an order whatever happens, for a reason rejected
// where stock, limit, cool-down or its age leave no place for it:
//
//	attempt ─────────────► reserved ─► paid ─► refunded
//	slip ─┬─► reserved …      ├─► cancelled
//	      ├─► rejected        └─► expired
//	      └─► cancelled, where its buyer left the queue before the judge came
//
// Path and epoch change by StartBuild, FinishBuild and GoDirect. Epochs only grow;
// a build's token becomes the epoch, so that a builder who was overtaken, or comes
// back after the sale has moved on, changes nothing.
//
// # Lanes
//
// What the lanes of the fast counter must learn of is in the journal: ends of
// orders, acts on the sale, and two kinds of rows that are for them alone.
// KindLaneAdopt follows the birth of an order that the lane in force did not take
// (an older slip, a receipt, a late payment). KindLaneReturn says that a lane took
// units for an order that had ended, or cannot be one; where the order lives on as
// something else, an adopt follows. On the direct path there is no lane and no such
// row: whoever loads one reads the orders.
//
// # Dead letters
//
// A slip that cannot be judged is parked: its buyer gets a rejected order; where
// the database refuses that, the lane gets its units back; where even the order
// cannot be read, the letter alone is kept. Nothing waits behind it.
//
// # Gate
//
// What the doorkeepers share belongs to no sale and is no part of a journal: lists of
// who is denied, allowed or challenged, settings, and keys to sign with. One row is
// the gate's lock, and counts its changes: each listing bears the number of its last
// one, so that an instance which knows a number asks for what came after it.
//
// # Journal
//
// Each transition appends one row to the journal of its sale: numbers without
// gaps, each row's hash covering the row before it. The journal is also the
// outbox from which events go out.
package ledger
