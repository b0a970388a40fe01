// Package stock is the contract of the fast counter: what stands between the
// crowd and the ledger on the fast path. It knows, per lane, how many units are
// left, who has taken some, and keeps a tray of slips for the judge. It may be
// lost, stale, rebuilt or bypassed at any moment; then the speed changes, never
// the outcome, because an order exists only when the ledger has accepted its slip.
//
// redisstock is the implementation over Redis, stocktest the examiner of every
// implementation, with a counter in memory for simulations.
package stock
