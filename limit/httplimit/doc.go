// Package httplimit is what limits on HTTP traffic need besides a limiter: the
// address a request really comes from, the network that one party has to itself,
// and the header fields that tell a client how much it may still do.
//
// # The client's address
//
// Anybody may send X-Forwarded-For. What counts is the part that the operator's own
// proxies appended: the walk goes from the peer of the connection to the left, hop by
// hop, for as long as the hop that reported the next one is a configured proxy, and
// ends at the first that is none. Without configured proxies the peer is the client.
//
//	X-Forwarded-For: 198.51.100.7, 203.0.113.9, 10.0.0.4      peer 10.0.0.1
//	                 made up       the client   a proxy       a proxy
//
// No other header is believed, whatever it is called: X-Real-IP, Forwarded,
// CF-Connecting-IP and the like are copied through by proxies that do not know them, so
// a client can set them. An entry that cannot be read ends the walk at the hop that
// reported it: the answer is always the address of somebody, never a bucket that
// strangers share, and never an error.
//
// If forwarded headers come from a peer that is not configured, either somebody is
// making them up or the operator has forgotten a proxy, and then all of its clients
// share one address. Watch tells the two parties apart no better than anybody could,
// but it says so once for each network, so that the operator can look.
//
// # What an address is counted by
//
// Network is what one household or server has to itself, Subnet what a small provider
// hands out together. A client that owns a /64 owns 2^64 addresses; counting by
// address would give it as many budgets.
//
// # Header fields
//
// Write sets RateLimit-Policy and RateLimit as draft-ietf-httpapi-ratelimit-headers-10
// has them; Refuse adds Retry-After, which is never earlier than the time at which the
// RateLimit field promises more. A partition key can only be made by a Hider, which
// keeps the raw id from leaving.
package httplimit
