// Package audit proves the promises, or shows which one is broken: everything
// leaves a trace that can be recounted.
//
// # What it trusts
//
// Nothing that it checks. The judge's counters (items.sold, the holders' live
// quantities) are compared with a recount from the order rows; the order rows
// are compared with a replay of the journal; the journal is compared with its
// own chain of hashes and with the head that the sale row keeps. Rules are
// written here a second time, on purpose: an audit that called the judge's own
// code would share its mistakes.
//
// # How it reads
//
// A sale is a stream of facts in a fixed order: the sale itself, its terms,
// journal rows, order rows, refund records, payments, holders. Two things
// produce it: the live ledger, inside one snapshot, and an exported file. Two
// things consume it: the recount, which is all the rules, and the writer of the
// export. So a file is judged by exactly the rules that judge the ledger.
//
// Memory grows with orders and buyers (about 0.4 KiB an order), never with the
// journal, whose rows pass through once.
//
// # What a file proves
//
// An export is one JSON object a line: header, terms, rows, orders, refunds,
// payments, holders, trailer. Bodies of journal rows are kept byte for byte, so
// every hash can be computed again; the trailer counts the lines and carries
// the SHA-256 of every byte before it. A file whose author rewrote everything
// consistently, hashes included, is caught only by a head hash that was
// published elsewhere before: VerifyOptions.Head. The file never contains the
// sale's key or API keys; it does contain buyers' ids.
//
// # What it does not show
//
// Liveness and delivery leave no trace to recount: that demand sells everything
// (P2), that queued orders end (P5), that events arrive (P8) and that errors
// are honest (P9) is shown by tests.
package audit
