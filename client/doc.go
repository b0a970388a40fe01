// Package client is the Go client of the Doorbuster HTTP API. It needs nothing
// but the standard library.
//
//	c, err := client.New(client.Options{URL: "http://127.0.0.1:8080", Token: token})
//	got, err := c.Buy(ctx, "summer-drop-1", "", client.Attempt{Quantity: 1})
//	if err == nil {
//		got.Order, err = c.Follow(ctx, got)   // if it is queued, until it is judged
//	}
//	switch {
//	case err == nil:                          // got.Order is reserved (or paid, at price zero)
//	case errors.Is(err, client.ErrSoldOut):   // a business answer: final for now
//	case client.CodeOf(err).Unsure():         // repeat later with got.Key: it is the same click
//	}
//
// # Queued orders
//
// A sale on the fast path answers a buy before the order is judged: its state is
// StateQueued, which promises nothing. BuyWith can have the server wait for the
// judge; Follow waits as long as it takes. An order that is rejected is an error of
// both, and of a repeated Buy, with the order in it: see Rejection.
//
// # The gate
//
// A server may ask a buyer for a proof (ErrChallengeRequired) or demand a pass
// (ErrPassRequired). BuyProving does what is asked for: it solves the challenge, gets
// the pass and buys with it. One pass is one click, as one key is.
//
// # What is repeated
//
// A call is repeated by itself only where a second execution changes nothing:
// reads; a buy, since every try carries the same Idempotency-Key; a payment,
// known by its payment id; cancel, refund and refund-done, which end in the
// same state; pause, resume and the like, whose state is compared afterwards.
// The rest (creating a sale, changing it by version, adding stock) is repeated
// only if the first try certainly did nothing: no connection, or a refusal with
// 429 or 503 busy.
//
// Tries are bounded in number and by the context. Between two tries lies a
// jittered, doubling pause, at least what the server asked for in Retry-After.
// A pause that is longer than Retry.MaxPause or than the context's deadline is
// not slept through: the error is returned at once and carries RetryAfter.
//
// # Errors
//
// Every error of a call is an *Error. Branch on its code with errors.Is and the
// ErrX constants; show Detail and Hint to people.
package client
