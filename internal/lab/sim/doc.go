// Package sim leads the real engine, settlement and handover through simulated
// lives: two instances over a counter and a ledger in memory, in fake time, with a
// scheduler that draws from a seed which call is carried out next, which is lost,
// which is heard of too late, and who dies. The promises are checked after every
// step, and at the end, when the faults have stopped, everything must be sold that
// can be sold.
//
// All of it is test code: the kits that it stands on must not reach the binary.
// How it works, how to run one seed, and the faults that it has found are in
// docs/simulation.md.
package sim
