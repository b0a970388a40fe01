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
// Visits are drawn as a Poisson process within their profile, since buyers do not know
// of each other. One connection at a time waits for the next visit, by an alarm of the
// kernel's that is exact to some ten microseconds; the others wait for their turn.
//
// # Connections
//
// All are opened before the start and spread evenly over the targets. One that stood
// idle is looked at before a visit is sent over it. One that breaks has failed its
// step, which is never told again, and is opened anew, at another target where its own
// cannot be reached. What follows from visits has connections of its own, so that a
// crowd at the door does not hold up those who pay.
//
// # One story a buyer
//
// What a buyer asks for is a Script's business: it renders the requests and judges
// the answers, and it may order what shall follow for the same buyer, such as a poll,
// a payment after some time to think, or a cancel.
package traffic
