// Package sale is the language of the house: what a sale, an item, an order, a
// verdict and a transition are, how ids are derived, and which errors exist.
// It imports nothing of ours and does no I/O; every rule that depends on time
// takes now as an argument.
//
// # Order states
//
//	queued ──► reserved ──► paid ──► refunded
//	   │           ├──────► cancelled
//	   │           └──────► expired
//	   ├─────► rejected
//	   ├─────► cancelled
//	   └─────► paid            (price zero: born paid)
//
// queued has no row in the ledger; rejected, cancelled, expired and refunded
// are final. Only reserved and paid orders hold units ("live").
//
// # Units of measure
//
// Money is an integer count of minor units with an ISO 4217 currency. Instants
// are UTC with millisecond resolution. Windows are half-open: [StartsAt, EndsAt).
package sale
