package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// The calls of this file need an API key with the scope admin. What they change takes
// effect on every instance within two seconds.

// BanQuery selects listings; zero fields select everything.
type BanQuery struct {
	// Subject is user:ID, device:ID or network:ADDRESS; of networks, all that hold the
	// address or network are found.
	Subject string
	Effect  string // deny, allow, challenge
	After   string // Next of the page before
	Limit   int    // most listings of a page; 0 is the server's default
}

// Bans returns a page of the gate's listings that are in force, in the order of their
// last change. A page may be short, or empty, and have a Next all the same.
func (c *Client) Bans(ctx context.Context, q BanQuery) (Page[Listing], error) {
	k := get("v1", "admin", "bans")
	k.query = make(url.Values)
	put(k.query, "subject", q.Subject)
	put(k.query, "effect", q.Effect)
	put(k.query, "after", q.After)
	putLimit(k.query, q.Limit)
	page, _, err := fetch[Page[Listing]](ctx, c, k)
	return page, err
}

// PutBan enters a listing in the place of any other of its subject. Repeated, it
// changes nothing. ErrListingsFull.
func (c *Client) PutBan(ctx context.Context, l NewListing) (Listing, error) {
	out, _, err := send[Listing](ctx, c, post(again, "v1", "admin", "bans"), l)
	return out, err
}

// DropBan takes the listing of a subject back, whoever made it, and returns it as it
// ended. ErrListingNotFound where none is in force. It is not repeated when the outcome
// is unknown: the second try would find nothing.
func (c *Client) DropBan(ctx context.Context, s Subject) (Listing, error) {
	out, _, err := send[Listing](ctx, c, post(once, "v1", "admin", "bans", "drop"), s)
	return out, err
}

// GateSettings returns the gate's settings and whose they are.
func (c *Client) GateSettings(ctx context.Context) (GateSettings, error) {
	out, _, err := fetch[GateSettings](ctx, c, get("v1", "admin", "gate"))
	return out, err
}

// PutGateSettings enters settings in the place of those at version (0: while none were
// entered); ErrVersionMismatch if they have moved on. Members that are left out take
// their defaults. It is not repeated when the outcome is unknown: the second try would
// meet its own change.
func (c *Client) PutGateSettings(ctx context.Context, version int64, settings json.RawMessage) (GateSettings, error) {
	k := call{method: http.MethodPut, path: []string{"v1", "admin", "gate"}, safety: once}
	out, _, err := send[GateSettings](ctx, c, k.set("If-Match", etagOf(version)), settings)
	return out, err
}

// RotateGateKey makes a new key for the gate to sign with. What earlier ones have
// signed stays good for as long as it lives. It is not repeated when the outcome is
// unknown: each call makes a key.
func (c *Client) RotateGateKey(ctx context.Context) (GateKey, error) {
	out, _, err := fetch[GateKey](ctx, c, post(once, "v1", "admin", "gate", "keys"))
	return out, err
}
