// Package strategy holds the ways to sell a hundred units that people have tried, each
// in a file of its own with the reason for which it fails or holds, behind one small HTTP
// server that a crowd of package traffic can buy from as it buys from Doorbuster.
//
// # A run
//
// A run is one strategy and one sale. Whoever compares strategies opens its World,
// prepares it, starts two processes of the same binary with Serve (one of them Faulty),
// sends the crowd to both, recounts, and discards the world:
//
//	w, err := strategy.Open(ctx, strategy.Place{Name: "plain_del", Sale: "lab-7f3a", …})
//	err = w.Prepare(ctx, 100)
//	…                             // doorbuster lab-shop, twice; the crowd
//	books, err := w.Recount(ctx)  // while at least one shop runs
//	err = w.Discard(ctx)
//
// Two processes are the least for which a mutex is not enough, and the least that any
// shop of some size has.
//
// # Books
//
// Whatever a strategy counts in, an order is a row of one PostgreSQL table in a schema of
// the run's own, so that all are recounted alike. A strategy is never asked how well it
// did.
//
// # Faults
//
// Nothing is played. A crash is the process killing itself with SIGKILL at the spot in
// question, once, in the process that is Faulty; a slow holder is work under a lock that
// now and then takes longer than the lease, as with a pause of the garbage collector or a
// call that hangs.
//
// # Fairness
//
// Each strategy is written as well as it can be while it stays what it is: bounded waits,
// after which a buyer is told busy, pools of one size, as few round trips as it takes. A
// strategy fails here by its idea, not by neglect.
package strategy
