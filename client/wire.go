package client

import (
	"encoding/json"
	"time"
)

// The types of this file are the JSON of the HTTP API; the server writes and
// reads the same ones. Instants are RFC 3339 with milliseconds in UTC; money is
// an integer count of minor units of an ISO 4217 currency.

// Sale is a sale as everybody may see it.
type Sale struct {
	ID           string    `json:"sale"`
	Title        string    `json:"title"`
	Status       string    `json:"status"` // scheduled, live, paused, ended, closed (admin: draft, deleted)
	StartsAt     time.Time `json:"starts_at"`
	EndsAt       time.Time `json:"ends_at"` // exclusive
	PerUserLimit int64     `json:"per_user_limit"`
	HoldSeconds  int64     `json:"hold_seconds"`
	Currency     string    `json:"currency"`
	Items        []Item    `json:"items"`
}

// Item is one SKU of a sale as everybody may see it.
type Item struct {
	SKU   string `json:"item"`
	Title string `json:"title"`
	Price int64  `json:"price"`
	// Left is what nobody holds; at most two seconds old.
	Left int64 `json:"left"`
}

// AdminSale is a sale as an operator sees it.
type AdminSale struct {
	ID              string    `json:"sale"`
	Number          uint32    `json:"number"`
	Version         int64     `json:"version"` // the ETag is the same number in quotes
	State           string    `json:"state"`   // draft, published, paused, closed, deleted
	Status          string    `json:"status"`
	Title           string    `json:"title"`
	StartsAt        time.Time `json:"starts_at"`
	EndsAt          time.Time `json:"ends_at"`
	PerUserLimit    int64     `json:"per_user_limit"`
	LimitRule       string    `json:"limit_rule"` // live, ever_paid
	HoldSeconds     int64     `json:"hold_seconds"`
	MaxUnpaidHolds  int64     `json:"max_unpaid_holds"` // 0: no cap
	CoolDownSeconds int64     `json:"cool_down_seconds"`
	Currency        string    `json:"currency"`
	PreferredPath   string    `json:"preferred_path"` // direct, fast: the way attempts shall take
	Terms           int64     `json:"terms"`
	Path            string    `json:"path"` // direct, fast: the way attempts take now
	Epoch           int64     `json:"epoch"`
	// Outstanding lists the lanes of the fast path that have not confirmed the
	// change yet; there the old rules apply for a moment more. Empty: all have.
	Outstanding []int       `json:"outstanding,omitempty"`
	Items       []AdminItem `json:"items"`
	CreatedAt   time.Time   `json:"created_at"`
	UpdatedAt   time.Time   `json:"updated_at"`
}

// AdminItem is one SKU as an operator sees it: Left = max(0, Stock − Sold).
type AdminItem struct {
	SKU   string `json:"item"`
	Title string `json:"title"`
	Price int64  `json:"price"`
	Stock int64  `json:"stock"`
	Sold  int64  `json:"sold"` // held by reserved and paid orders
	Left  int64  `json:"left"`
}

// NewSale is what creates a sale. Zero LimitRule and PreferredPath, HoldSeconds,
// MaxUnpaidHolds and CoolDownSeconds (nil pointers) take the documented defaults.
type NewSale struct {
	ID              string    `json:"sale"`
	Title           string    `json:"title,omitempty"`
	StartsAt        string    `json:"starts_at"` // RFC 3339 with offset, or a local time with TimeZone
	EndsAt          string    `json:"ends_at"`
	TimeZone        string    `json:"time_zone,omitempty"` // IANA zone for times without offset
	PerUserLimit    int64     `json:"per_user_limit"`
	LimitRule       string    `json:"limit_rule,omitempty"`        // default live
	HoldSeconds     *int64    `json:"hold_seconds,omitempty"`      // default 300
	MaxUnpaidHolds  *int64    `json:"max_unpaid_holds,omitempty"`  // default 2; 0 is no cap
	CoolDownSeconds *int64    `json:"cool_down_seconds,omitempty"` // default 600
	Currency        string    `json:"currency"`
	PreferredPath   string    `json:"preferred_path,omitempty"` // direct, fast; the default is the server's
	Items           []NewItem `json:"items"`
}

// NewItem is an item of a NewSale.
type NewItem struct {
	SKU   string `json:"item"`
	Title string `json:"title,omitempty"`
	Price int64  `json:"price"`
	Stock int64  `json:"stock"`
}

// SalePatch changes rules of a sale; what is left out stays. Stock is changed by
// Restock only, so that a form read minutes ago cannot put back old stock.
type SalePatch struct {
	Title           *string     `json:"title,omitempty"`
	StartsAt        *string     `json:"starts_at,omitempty"`
	EndsAt          *string     `json:"ends_at,omitempty"`
	TimeZone        *string     `json:"time_zone,omitempty"`
	PerUserLimit    *int64      `json:"per_user_limit,omitempty"`
	LimitRule       *string     `json:"limit_rule,omitempty"`
	HoldSeconds     *int64      `json:"hold_seconds,omitempty"`
	MaxUnpaidHolds  *int64      `json:"max_unpaid_holds,omitempty"`
	CoolDownSeconds *int64      `json:"cool_down_seconds,omitempty"`
	Currency        *string     `json:"currency,omitempty"`
	PreferredPath   *string     `json:"preferred_path,omitempty"`
	Items           []ItemPatch `json:"items,omitempty"`
}

// ItemPatch changes title or price of one item.
type ItemPatch struct {
	SKU   string  `json:"item"`
	Title *string `json:"title,omitempty"`
	Price *int64  `json:"price,omitempty"`
}

// Restock changes the stock of one item: exactly one of Add and Stock.
type Restock struct {
	SKU   string `json:"item,omitempty"` // may be left out for the only item
	Add   *int64 `json:"add,omitempty"`
	Stock *int64 `json:"stock,omitempty"`
}

// Attempt is the body of a buy.
type Attempt struct {
	SKU            string `json:"item,omitempty"` // may be left out for the only item
	Quantity       int64  `json:"quantity"`
	ExpectedAmount *int64 `json:"expected_amount,omitempty"` // refuse other terms with terms_changed
	Currency       string `json:"currency,omitempty"`        // goes with expected_amount
	OnBehalfOf     string `json:"on_behalf_of,omitempty"`    // shop keys only: the buyer
	ClientIP       string `json:"client_ip,omitempty"`       // shop keys only: the buyer's address
}

// PassRequest is the body of a request for a pass. Challenge or Captcha proves what an
// earlier refusal (ErrChallengeRequired) asked for.
type PassRequest struct {
	Challenge  string `json:"challenge,omitempty"`    // what Solve, or the ALTCHA widget, returns
	Captcha    string `json:"captcha,omitempty"`      // what the widget of the hosted captcha returns
	OnBehalfOf string `json:"on_behalf_of,omitempty"` // shop keys only: the buyer
	ClientIP   string `json:"client_ip,omitempty"`    // shop keys only: the buyer's address
}

// Pass is the permission of one buyer to buy once in one sale. Asking again gives the
// same until an order has come of it.
type Pass struct {
	Text      string    `json:"pass"`
	Sale      string    `json:"sale"`
	NotBefore time.Time `json:"not_before"`
	ExpiresAt time.Time `json:"expires_at"` // exclusive
	// Path is the address at which alone this pass buys; empty: the usual one.
	Path string `json:"path,omitempty"`
}

// Challenge is work to be done for a pass, as version 1 of ALTCHA has it: find the
// number for which SHA-256(Salt followed by the number) is Challenge.
type Challenge struct {
	Algorithm string `json:"algorithm"` // SHA-256
	Challenge string `json:"challenge"` // hexadecimal
	MaxNumber int    `json:"maxnumber"` // the number is in [0, MaxNumber]
	Salt      string `json:"salt"`
	Signature string `json:"signature"`
}

// Captcha names the hosted captcha to be shown for a pass.
type Captcha struct {
	Provider string `json:"provider"` // turnstile, hcaptcha, geetest
	SiteKey  string `json:"site_key"`
	// Bound is what the page hands to the widget as custom data (cData), where it
	// takes some.
	Bound string `json:"bound"`
}

// Subject is whom a listing is about.
type Subject struct {
	Kind  string `json:"kind"`  // user, device, network
	Value string `json:"value"` // a user's id; a device's id; an address or network
}

// NewListing enters a subject into the gate's lists, in the place of any other
// listing of it.
type NewListing struct {
	Kind      string     `json:"kind"`
	Value     string     `json:"value"`
	Effect    string     `json:"effect"` // deny, allow, challenge
	Reason    string     `json:"reason,omitempty"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"` // nil: never
}

// Listing is an entry of the gate's lists.
type Listing struct {
	Kind      string     `json:"kind"`
	Value     string     `json:"value"`
	Effect    string     `json:"effect"` // deny, allow, challenge
	Reason    string     `json:"reason"`
	Author    string     `json:"author"` // the id of an API key, or "gate"
	Level     int        `json:"level"`  // how often the time of a ban by the gate has been doubled
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"` // nil: never
	Version   int64      `json:"version"`
}

// GateSettings are the gate's settings and whose they are.
type GateSettings struct {
	// Version is that of the settings entered by operators; 0: none are, and those of
	// From are in force. The ETag is the same number in quotes.
	Version int64  `json:"version"`
	From    string `json:"from"` // default, file, ledger
	// InForce says that the instance that answers has taken them over.
	InForce bool       `json:"in_force"`
	Author  string     `json:"author,omitempty"` // the id of an API key
	At      *time.Time `json:"at,omitempty"`
	// Settings is the whole document; docs/gate.md describes it.
	Settings json.RawMessage `json:"settings"`
}

// GateKey is a key that the gate signs passes, challenges and devices with. Its
// secret never leaves the house.
type GateKey struct {
	ID        uint32    `json:"key"`
	CreatedAt time.Time `json:"created_at"`
}

// CancelRequest is the body of a cancel; buyers send none.
type CancelRequest struct {
	OnBehalfOf string `json:"on_behalf_of,omitempty"` // shop keys only: refuse orders of anybody else
}

// Order is a buyer's order. User and PaymentID are shown to API keys only.
type Order struct {
	ID       string `json:"order"`
	Sale     string `json:"sale"`
	SKU      string `json:"item"`
	Quantity int64  `json:"quantity"`
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
	State    string `json:"state"` // queued, reserved, paid, cancelled, expired, rejected, refunded
	// Reason says why a rejected order was rejected: sold_out, stock_reduced,
	// limit_reached, cool_down, too_late, sale_gone or unreadable.
	Reason     string     `json:"reason,omitempty"`
	TakenAt    time.Time  `json:"taken_at,omitzero"`    // when a queued order was taken; zero in every other state
	ReservedAt time.Time  `json:"reserved_at,omitzero"` // when it was judged; zero for a queued order
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
	EndedAt    *time.Time `json:"ended_at,omitempty"`
	Replaces   string     `json:"replaces,omitempty"`
	ReplacedBy string     `json:"replaced_by,omitempty"`
	User       string     `json:"user,omitempty"`
	PaymentID  string     `json:"payment_id,omitempty"`
}

// Payment is the body of a payment notice.
type Payment struct {
	ID       string `json:"payment_id"`
	Status   string `json:"status"` // succeeded, failed
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
}

// PaymentResult says what became of a payment. Order is the order as it is now;
// where a late payment bore a new order, that one.
type PaymentResult struct {
	Outcome string `json:"outcome"` // paid, already_paid, recorded, refund_required
	Order   Order  `json:"order"`
}

// RefundRequest is the body of a refund. Restock puts the units up again.
type RefundRequest struct {
	Restock bool `json:"restock"`
}

// Refund is a record of a captured charge that must go back.
type Refund struct {
	ID        string     `json:"refund"`
	PaymentID string     `json:"payment_id"`
	Order     string     `json:"order"`
	Amount    int64      `json:"amount"`
	Currency  string     `json:"currency"`
	Reason    string     `json:"reason"` // amount_mismatch, duplicate, late, refunded
	State     string     `json:"state"`  // required, done
	CreatedAt time.Time  `json:"created_at"`
	DoneAt    *time.Time `json:"done_at,omitempty"`
}

// Page is a piece of a listing. Next, if not empty, continues it as ?after=.
type Page[T any] struct {
	Data []T    `json:"data"`
	Next string `json:"next,omitempty"`
}

// Problem is the body of every error (RFC 9457, application/problem+json).
type Problem struct {
	Type   string `json:"type"` // about:blank
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   string `json:"code"` // stable; branch on this
	Detail string `json:"detail,omitempty"`
	Hint   string `json:"hint,omitempty"`
	Field  string `json:"field,omitempty"`

	Available *int64     `json:"available,omitempty"` // insufficient: what may still be had
	StartsAt  *time.Time `json:"starts_at,omitempty"` // not_started
	RetryAt   *time.Time `json:"retry_at,omitempty"`  // cool_down
	// Orders holds, for limit_reached, the buyer's orders in the sale. Where a buy
	// was taken first and rejected by the judge, it holds the rejected order alone.
	Orders []Order `json:"orders,omitempty"`
	// Challenge or Captcha is, for challenge_required, what must be solved for a pass.
	Challenge *Challenge `json:"challenge,omitempty"`
	Captcha   *Captcha   `json:"captcha,omitempty"`
}

// Route is the body of a change of path.
type Route struct {
	Path string `json:"path"` // direct, fast
}

// DeadLetter is a slip that the ledger could not judge.
type DeadLetter struct {
	ID    string `json:"letter"`
	Sale  string `json:"sale"`
	Place string `json:"place"` // lane, entry and index of the slip
	Cause string `json:"cause"`
	State string `json:"state"` // open, replayed, dropped
	// Raw is the slip, or the tray's entry, as it was found; base64 in JSON.
	Raw []byte `json:"raw"`
	// Attempt is what the slip stands for, if an instance of the house made it;
	// nil for a forged or unreadable one, which can only be dropped.
	Attempt  *LetterAttempt `json:"attempt,omitempty"`
	ParkedAt time.Time      `json:"parked_at"`
	ClosedAt *time.Time     `json:"closed_at,omitempty"`
}

// LetterAttempt is an attempt whose slip became a dead letter.
type LetterAttempt struct {
	Order    string    `json:"order"`
	User     string    `json:"user"`
	SKU      string    `json:"item"`
	Quantity int64     `json:"quantity"`
	TakenAt  time.Time `json:"taken_at"`
}

// Stats is what operators watch. Loads, streams and waiters are those of the
// instance that answers.
type Stats struct {
	Time    time.Time   `json:"time"` // the ledger's clock
	Sales   []SaleStats `json:"sales"`
	Classes Classes     `json:"classes"`
	Streams int         `json:"streams"` // event streams that are open
	Waiters int         `json:"waiters"` // requests that wait for a queued order to be judged
}

// SaleStats sums up the items of a sale that buyers may know of.
type SaleStats struct {
	ID     string `json:"sale"`
	Status string `json:"status"`
	Path   string `json:"path"` // direct, fast: the way attempts take now
	Epoch  int64  `json:"epoch"`
	Stock  int64  `json:"stock"`
	Sold   int64  `json:"sold"`
	Left   int64  `json:"left"`
	// Queued counts the orders that wait for their judgement; nil where the fast
	// path is not in use, or does not answer.
	Queued *int64 `json:"queued,omitempty"`
}

// Classes tells how busy each class of requests is.
type Classes struct {
	Buy   ClassLoad `json:"buy"`
	Read  ClassLoad `json:"read"`
	Pay   ClassLoad `json:"pay"`
	Admin ClassLoad `json:"admin"`
}

// ClassLoad counts requests of one class.
type ClassLoad struct {
	InFlight int `json:"in_flight"` // being worked on
	Waiting  int `json:"waiting"`   // for a place
}
