// Package settle brings the ledger up to what time demands: it ends holds that
// are over, so that their units sell again.
//
// Due times are durable, in the orders themselves; nothing depends on a timer or
// a message that could be lost. Any number of sweepers may run: each transition
// is conditional, so the second one finds nothing to do. An order that the
// ledger refuses to end is set aside with growing pauses, counted and reported,
// and never stops the others.
package settle
