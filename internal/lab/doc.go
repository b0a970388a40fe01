// Package lab is the proving ground: it sends crowds at real servers and
// compares what the crowd was told with what the server holds.
//
// # The demo
//
// Demo runs one sale from the empty folder to the last paid unit:
//
//	server   a child process of the same binary, in a temporary folder
//	cast     every buyer a persona, drawn from the seed: how he clicks, what he does with a unit
//	rush     all buyers at the door in one instant, over warmed connections
//	after    winners pay, pay twice, cancel, forget, or pay too late
//	late     latecomers click again and again and get what came back
//	reckon   the crowd's books against the server's orders and refunds
//	audit    the same binary's audit command, on the ledger itself
//
// It ends when every unit is paid and every winner has done what he does.
//
// # Books
//
// The books keep each answer that anybody of the crowd was given, with the
// instants of question and answer. At the end they are compared with the
// server's account, which is read through the admin API. The comparison is a
// pure function that knows the promises and nothing of the product's code, so a
// server that tells two people two stories is caught, and so is one whose
// orders nobody was told of.
//
// # Measuring
//
// Latency counts from the instant an answer was due to be asked for: at the
// door, the start of the sale, for all buyers alike. A buyer who has to wait for
// a connection waits in these figures too. The crowd runs on the machine that
// serves it, so figures are those of both together.
package lab
