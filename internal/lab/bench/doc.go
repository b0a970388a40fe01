// Package bench is the `doorbuster bench` command: it sends an open-loop crowd at the
// instances that sell a sale, watches them and what stands behind them side by side in
// time, compares what buyers were told with what the server holds, asks for an audit,
// and says whether the promises were kept.
//
// # A run
//
//	reach    every instance answers; the ledger's clock is read against ours
//	open     a sale is made, published and heated, or one that exists is found
//	watch    package probe begins to read
//	send     package traffic carries out the plan, package buyers is what it does
//	judged   nothing is queued any more
//	prove    some clicks once more; the books against the account; the audit
//	end      a sale that was made is closed, whatever has happened
//
// # What the figures say
//
// Waited counts from the instant at which a step was due, also where it stood in line
// for a connection or was told to come again; served counts from its last leaving. Where visits left late there are
// two reasons, and the report tells which: visits stood in line since all connections
// were waiting for the server (Report.Saturated), which is what is measured, or the
// crowd's machine was too slow, which is a warning not to trust the waits.
//
// Rates are those from the first answer of a class to the last, so that a straggler
// lowers them; the peak is that of the best tenth of a second, and there is
// none where all came within less.
//
// # The verdict
//
// Checks are a pure function of the crowd's books and the server's account
// (reckon.go), which knows the promises and nothing of the product's rules. Package
// benchtest has a shop that lies in ten ways to see each of them fail. A run in which
// no buyer was told yes or no, in which orders stayed queued, or whose account could not
// be read, proves nothing and is no pass (Report.Unproved; verdict.go).
package bench
