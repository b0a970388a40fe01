// Package httpapi is the front hall: it turns requests into calls of the engine
// and answers into JSON. No rule of the business lives here.
//
// # The way of a request
//
//	mux ─► arrival ─► body ─► class ─► caller ─► handler ─► gate, engine or ledger ─► one answer
//
// routes.go is the table of everything there is: method, path, class, who may
// call, handler. At its arrival a request meets the gate's limits by address, unless it
// is the house itself over its own connection, or claims to bring an API key where one
// has come from lately, which is counted if it turns out to be none. Attempts, and
// requests for passes, meet the rest of the gate in their handlers; the engine asks it
// again for those that it cannot answer from memory. Then the body is read whole and bounded, so a
// slow sender keeps nobody's place. The request's class (buy, read,
// pay, admin) bounds how many are worked on at once; a bounded number more is
// parked for a short time, the rest is turned away at once with 503 busy. Those
// who are parked cost no CPU, which is what keeps a crowd of buyers from
// starving payments and pages.
//
// # Answers
//
// Each exchange is answered exactly once, by reply or empty. Errors are coded in
// package sale; statusOf is the one place that gives a code its HTTP status, and
// what has no code is infrastructure trouble: 503 unavailable, with its cause in
// the log and not in the answer. A panic is answered the same way. openapi.yaml
// describes every answer, and the tests check every answer against it.
//
// # What is made once
//
// Refusals that are always the same are rendered when the API is made; the page
// of a sale is rendered once per view of the engine and status, and its ETag is
// the hash of its bytes. Header values are shared slices, exchanges and bodies
// are used again, a request's deadline costs a timer only if somebody waits.
//
// # Event streams
//
// One hub a sale looks at it at most four times a second and hands the rendered
// message to all who listen; a slow listener skips states and never holds up
// the others. A buyer's orders come from the feed of package event. Streams are
// capped in all, per address and per buyer, end with their token, and all end
// when the feed is closed.
package httpapi
