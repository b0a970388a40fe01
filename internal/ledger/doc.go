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
// # Journal
//
// Each transition appends one row to the journal of its sale: numbers without
// gaps, each row's hash covering the row before it. The journal is also the
// outbox from which events go out.
package ledger
