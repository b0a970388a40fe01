// Package buyers is what a crowd of package traffic does at a server of the HTTP API:
// it asks, buys, follows what it was promised, pays or gives back, and remembers every
// order that anybody was told of.
//
// # Who
//
// A Cast is the users and their tokens, minted from a development secret or read from
// a file.
//
// # What
//
// A Script renders requests whole and judges answers; it reads of an answer what it
// needs and no more, so that a crowd is not slower than what it measures. What one
// buyer does follows from the seed, his number and his click:
//
//	buy ── taken, reserved ──── thinks ─┬─ pays (the shop tells of the charge)
//	 │                                  ├─ cancels
//	 │                                  └─ leaves it to the end of its hold
//	 ├─ taken, queued ── polls until it is judged ── as above, or rejected
//	 ├─ 429, 503, no answer ── the same click again, so often as Conduct.Again says
//	 └─ refused
//
// Of the API it needs POST orders alone. A conduct that cancels needs POST cancel, one
// that pays POST payments, a profile with refreshes GET sale, and queued orders GET
// order.
//
// # Books
//
// Books keep what buyers were told, by order, to be compared with the server's account
// afterwards. A refusal costs them nothing; the crowd's record counts it.
package buyers
