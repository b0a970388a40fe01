// Package handover moves sales between the direct and the fast path. Its keeper
// loads the fast counter before a sale starts, looks after it while the sale runs,
// rebuilds it when it is lost, and clears it away at the end.
//
// Preheating, rebuilding and switching are one procedure (see build.go), fenced by
// a token from the ledger: any number of instances may try, crash or repeat, and
// at most one of them puts its work in force.
package handover
