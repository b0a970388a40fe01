// Package gate is the doorkeeper: limits, lists, bans, challenges and passes,
// which is everything before the engine that keeps the house fair.
//
// # The way of an attempt
//
//	Arrive ──► (who is it?) ──► Enter ──► engine: window, sold-out memory ──► Admit ──► the line
//	 local       httpapi         local                                         shared
//
// Arrive and Enter look at memory only, so that a flood is shed before work is
// done. Admit asks the shared limits; the engine calls it for attempts that it
// cannot answer from memory, and looks the order up before it passes a refusal on
// that is none of the load: whoever has an order already gets it.
//
// # What can be said
//
// A limit refuses (429 rate_limited) or asks for a proof (403 challenge_required):
// a solved challenge opens a pass, and who comes with a pass is asked for no other
// proof. Lists deny (403 banned), allow (past every limit) or ask for a proof.
// Strikes are signs of a machine; they decay, lead to a challenge and then to a ban,
// whose time doubles when it is repeated.
//
// # State
//
// Settings, lists and keys live in the ledger under one growing version. Every
// instance looks once a second and when it is told; what it knows is one immutable
// view, swapped as a whole. What was spent of limits lives in the limiters.
package gate
