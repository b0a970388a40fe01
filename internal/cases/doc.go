// Package cases holds tests of accidents that happened elsewhere: bug reports
// about limited-stock sales, restated as cases C01–C70, each a test named after
// its number. It has no code of its own.
//
// A case is played where it can be seen best: on the real binary over HTTP
// (site), or on engine, SQLite ledger and sweeper in this process under a clock
// that the test moves (shop). After each one the promises are recounted, and
// free + reserved + paid units must be the stock.
package cases
