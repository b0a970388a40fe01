// Package cases holds tests of accidents that happened elsewhere: bug reports
// about limited-stock sales, restated as cases C01–C70, each a test named after
// its number. It has no code of its own.
//
// A case is played where it can be seen best: on the real binary over HTTP (site),
// or on engine, SQLite ledger and sweeper in this process under a clock that the
// test moves (shop). A site is one server on the embedded default or a fleet of
// three on the fast path, with Redis and PostgreSQL; a case whose outcome is the same
// on both is one body with the subtests "embedded" and "fleet" (onBoth), and what only
// a fleet can suffer has Fleet in its name. After each one the promises are recounted:
// free + reserved + paid units must be the stock, and the counter of a fleet must be
// what its ledger says, buyer by buyer.
package cases
