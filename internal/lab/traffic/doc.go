// Package traffic sends crowds in an open loop: every visit has an instant at which
// it is due, drawn before the first one leaves, and leaves then whatever the answers
// do. A slow server does not slow the crowd down, it lets it queue.
//
// # Measuring
//
// Latency counts from the instant a visit was due (coordinated omission is thereby
// accounted for); the time from the bytes' leaving to the answer is kept beside it,
// so that a crowd that could not keep up with itself is told from a slow server.
// Accepted and refused buys never share a histogram.
//
// # One story a buyer
//
// What a buyer asks for is a Script's business: it renders the requests and judges
// the answers, and it may order what shall follow for the same buyer, such as a poll,
// a payment after some time to think, or a cancel.
package traffic
