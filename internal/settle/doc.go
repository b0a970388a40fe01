// Package settle brings the ledger and the lanes of the fast counter in line with
// each other, and the ledger with the clock.
//
// # Three jobs
//
// A Judge brings slips from the trays to the ledger, which makes orders of them. A
// Forwarder brings to the lanes what the ledger did without them. A Sweeper ends
// holds that are over, so that their units sell again. Lanes runs the first two for
// every lane there is.
//
// # What is durable when
//
// Nothing is kept here. A slip is in its tray until the ledger has decided it and
// the transaction is committed; how far a lane has followed the journal is written
// in the lane; due times are in the orders. So each worker may die between any two
// steps, and any number of them may do the same work at once: judging twice is a
// replay, removing twice and forwarding twice change nothing.
//
//	tray ── claim ──► judge ── commit ──► off the tray ──► tell
//	  ▲                 │ refused by the database: again alone, later; then parked
//	  │                 │ trouble: again, after a growing pause; nothing is removed
//	  └─ taken over after five seconds, wherever its worker stopped
//
// # What blocks what
//
// Nothing blocks what is behind it. A slip that the database refuses is tried again
// alone and then parked as a dead letter, what nobody of ours made is parked at
// once, and an order that cannot be ended is set aside with growing pauses; each is
// reported. One sale never stops the others.
package settle
