package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// Kind names what a journal row records: "sale." and an action, "order." and
// the state entered, or one of the refund kinds.
type Kind string

// The kinds that are not built from an action or a state.
const (
	KindRefundRequired Kind = "refund.required"
	KindRefundDone     Kind = "refund.done"
	// KindLaneReturn says that a lane of the fast counter took units for an order
	// that had ended, or never will be one, and gets them back.
	KindLaneReturn Kind = "lane.return"
	// KindLaneAdopt says that the ledger accepted an order that the lane did not
	// take.
	KindLaneAdopt Kind = "lane.adopt"

	saleKinds  = "sale."
	orderKinds = "order."
)

// OrderKind returns the kind that records an order's entry into a state.
func OrderKind(s sale.OrderState) Kind { return Kind(orderKinds + string(s)) }

// SaleKind returns the kind that records an operator's action.
func SaleKind(a sale.Action) Kind { return Kind(saleKinds + string(a)) }

// OfOrder reports whether the row records a transition of an order.
func (k Kind) OfOrder() bool { return strings.HasPrefix(string(k), orderKinds) }

// OfSale reports whether the row records an act on the sale itself.
func (k Kind) OfSale() bool { return strings.HasPrefix(string(k), saleKinds) }

// ForLane reports whether a lane of the fast counter must learn of such rows: what
// ends an order gives its units back there too, and acts on the sale change its
// rules. A birth is known there already, or comes with a KindLaneAdopt.
func (k Kind) ForLane() bool {
	switch k {
	case OrderKind(sale.Reserved), OrderKind(sale.Paid), KindRefundRequired, KindRefundDone:
		return false
	case KindLaneReturn, KindLaneAdopt:
	}
	return true
}

// Entry is one row of a sale's journal. Numbers are gapless from 1 and given
// under the sale's lock; each row's hash covers the row before it, so a row
// cannot be changed, dropped or slipped in without breaking every later hash.
// Entries never change.
type Entry struct {
	Sale  sale.Number
	Seq   uint64
	At    time.Time
	Kind  Kind
	Order sale.OrderID // zero for rows about the sale
	Body  []byte       // JSON: OrderBody, SaleBody or RefundBody by kind
	Hash  [32]byte
}

// EventID returns the id under which the row is delivered to the world.
func (e *Entry) EventID() string { return sale.EventID(e.Sale, e.Seq) }

// ChainHash returns the hash that the row must carry when it follows a row with
// hash prev (zeros before the first): SHA-256 over a version label, prev, sale,
// seq, time in ms, kind, order and body, the variable parts preceded by their
// length, all integers big-endian.
func (e *Entry) ChainHash(prev [32]byte) [32]byte {
	buf := make([]byte, 0, 128+len(e.Kind)+len(e.Body))
	buf = append(buf, "doorbuster journal 1\n"...)
	buf = append(buf, prev[:]...)
	buf = binary.BigEndian.AppendUint32(buf, uint32(e.Sale))
	buf = binary.BigEndian.AppendUint64(buf, e.Seq)
	buf = binary.BigEndian.AppendUint64(buf, uint64(e.At.UnixMilli()))
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(e.Kind))) //nolint:gosec // short
	buf = append(buf, e.Kind...)
	buf = append(buf, e.Order[:]...)
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(e.Body))) //nolint:gosec // a few KiB at most
	buf = append(buf, e.Body...)
	return sha256.Sum256(buf)
}

// OrderBody is the body of a row about an order: the order as it is after the
// transition. It is enough to rebuild the order.
type OrderBody struct {
	From      sale.OrderState `json:"from"`
	State     sale.OrderState `json:"state"`
	Version   int64           `json:"version"`
	User      string          `json:"user"`
	SKU       string          `json:"item"`
	Quantity  int64           `json:"quantity"`
	Terms     int64           `json:"terms"`
	Amount    int64           `json:"amount"`
	Currency  string          `json:"currency"`
	Epoch     int64           `json:"epoch"`
	ExpiresAt int64           `json:"expires_at,omitempty"` // ms since 1970
	PaymentID string          `json:"payment_id,omitempty"`
	Replaces  sale.OrderID    `json:"replaces,omitzero"`
	// Reason says why a rejected order was rejected.
	Reason sale.RejectReason `json:"reason,omitempty"`
	// CoolUntil is when the cool-down ends that this transition began.
	CoolUntil int64 `json:"cool_until,omitempty"` // ms since 1970
}

// LaneBody is the body of a row for the lane alone: an order's units as the lane
// must have them.
type LaneBody struct {
	User     string `json:"user"`
	SKU      string `json:"item"`
	Quantity int64  `json:"quantity"`
	TakenAt  int64  `json:"taken_at"` // ms since 1970
}

// SaleBody is the body of a row about a sale: its rules and stock after the act.
type SaleBody struct {
	Slug           string         `json:"sale"`
	State          sale.State     `json:"state"`
	Version        int64          `json:"version"`
	Terms          int64          `json:"terms"`
	Path           sale.Path      `json:"path"`
	Epoch          int64          `json:"epoch"`
	Title          string         `json:"title"`
	StartsAt       int64          `json:"starts_at"` // ms since 1970
	EndsAt         int64          `json:"ends_at"`
	PerUserLimit   int64          `json:"per_user_limit"`
	LimitRule      sale.LimitRule `json:"limit_rule"`
	HoldMS         int64          `json:"hold_ms"`
	MaxUnpaidHolds int64          `json:"max_unpaid_holds"`
	CoolDownMS     int64          `json:"cool_down_ms"`
	Currency       string         `json:"currency"`
	Preferred      sale.Path      `json:"preferred_path"`
	Items          []ItemBody     `json:"items"`
}

// ItemBody is an item in a SaleBody.
type ItemBody struct {
	SKU   string `json:"item"`
	Title string `json:"title"`
	Stock int64  `json:"stock"`
	Price int64  `json:"price"`
}

// RefundBody is the body of a row about a refund record.
type RefundBody struct {
	ID        string            `json:"refund"`
	PaymentID string            `json:"payment_id"`
	Amount    int64             `json:"amount"`
	Currency  string            `json:"currency"`
	Reason    sale.RefundReason `json:"reason"`
	State     sale.RefundState  `json:"state"`
}

// Millis returns t as milliseconds since 1970, 0 for the zero time.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// FromMillis is the inverse of Millis; instants are in UTC.
func FromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func orderBody(from sale.OrderState, o *sale.Order) OrderBody {
	return OrderBody{
		From: from, State: o.State, Version: o.Version, User: o.User, SKU: o.SKU, Quantity: o.Quantity,
		Terms: o.Terms, Amount: o.Amount, Currency: o.Currency, Epoch: o.Epoch,
		ExpiresAt: Millis(o.ExpiresAt), PaymentID: o.PaymentID, Replaces: o.Replaces, Reason: o.Reason,
	}
}

func saleBody(s *sale.Sale) SaleBody {
	b := SaleBody{
		Slug: s.Slug, State: s.State, Version: s.Version, Terms: s.Terms, Path: s.Path, Epoch: s.Epoch, Title: s.Title,
		StartsAt: Millis(s.StartsAt), EndsAt: Millis(s.EndsAt), PerUserLimit: s.PerUserLimit, LimitRule: s.LimitRule,
		HoldMS: s.Hold.Milliseconds(), MaxUnpaidHolds: s.MaxUnpaidHolds, CoolDownMS: s.CoolDown.Milliseconds(),
		Currency: s.Currency, Preferred: s.Preferred, Items: make([]ItemBody, 0, len(s.Items)),
	}
	for i := range s.Items {
		it := &s.Items[i]
		b.Items = append(b.Items, ItemBody{SKU: it.SKU, Title: it.Title, Stock: it.Stock, Price: it.Price})
	}
	return b
}

func refundBody(r *sale.Refund) RefundBody {
	return RefundBody{ID: r.ID.String(), PaymentID: r.PaymentID, Amount: r.Amount, Currency: r.Currency, Reason: r.Reason, State: r.State}
}

// encode writes a body. The types above hold nothing that JSON cannot carry.
func encode(body any) ([]byte, error) { return json.Marshal(body) }
