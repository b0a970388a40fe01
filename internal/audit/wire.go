package audit

import (
	"encoding/hex"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

const (
	fileFormat = "doorbuster audit"
	// fileVersion is written. Version 1, which is read too, knew no fast path.
	fileVersion = 2
	// maxLine bounds a line of an export in bytes. The longest, a row about a
	// sale of 100 items with long titles, takes a fifth of it.
	maxLine = 1 << 20
)

// line is one line of an export: exactly one of its members.
type line struct {
	Header  *headerLine  `json:"header,omitempty"`
	Terms   *termsLine   `json:"terms,omitempty"`
	Row     *rowLine     `json:"row,omitempty"`
	Order   *orderLine   `json:"order,omitempty"`
	Refund  *refundLine  `json:"refund,omitempty"`
	Payment *paymentLine `json:"payment,omitempty"`
	Holder  *holderLine  `json:"holder,omitempty"`
	Trailer *trailerLine `json:"trailer,omitempty"`
}

// digest is a SHA-256 in lower-case hexadecimal.
type digest [32]byte

func (d digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

func (d *digest) UnmarshalText(text []byte) error {
	parsed, err := parseDigest(string(text))
	*d = parsed
	return err
}

func parseDigest(text string) (digest, error) {
	var d digest
	if len(text) != 2*len(d) {
		return d, errors.New("a hash has 64 hexadecimal digits")
	}
	if _, err := hex.Decode(d[:], []byte(text)); err != nil {
		return d, err
	}
	if hex.EncodeToString(d[:]) != text {
		return d, errors.New("a hash is written in lower-case digits")
	}
	return d, nil
}

type headerLine struct {
	Format  string          `json:"format"`
	Version int             `json:"version"`
	At      int64           `json:"at"` // the ledger's time of the snapshot; all times in ms since 1970
	Number  sale.Number     `json:"number"`
	Sale    ledger.SaleBody `json:"sale"`
	Sold    []int64         `json:"sold"` // by item
	Seq     uint64          `json:"seq"`
	Head    digest          `json:"head"`
}

func headerOf(f *saleFacts) *headerLine {
	return &headerLine{
		Format: fileFormat, Version: fileVersion, At: f.at.UnixMilli(), Number: f.number,
		Sale: f.body, Sold: f.sold, Seq: f.seq, Head: f.head,
	}
}

func (h *headerLine) facts() (saleFacts, error) {
	switch {
	case h.Format != fileFormat:
		return saleFacts{}, fmt.Errorf("the format is %q, not %q", h.Format, fileFormat)
	case h.Version < 1 || h.Version > fileVersion:
		return saleFacts{}, fmt.Errorf("the version is %d; this program reads versions 1 to %d", h.Version, fileVersion)
	case h.Number == 0:
		return saleFacts{}, errors.New("the sale has no number")
	case len(h.Sale.Items) == 0 || len(h.Sale.Items) > sale.MaxItems || len(h.Sold) != len(h.Sale.Items):
		return saleFacts{}, fmt.Errorf("the sale has %d items and %d counters", len(h.Sale.Items), len(h.Sold))
	}
	return saleFacts{
		number: h.Number, body: h.Sale, sold: h.Sold, seq: h.Seq, head: h.Head, at: time.UnixMilli(h.At).UTC(),
	}, nil
}

type termsLine struct {
	Number   int64   `json:"number"`
	Currency string  `json:"currency"`
	HoldMS   int64   `json:"hold_ms"`
	Prices   []int64 `json:"prices"` // by item
}

func termsOf(t *ledger.Terms) *termsLine {
	return &termsLine{Number: t.Number, Currency: t.Currency, HoldMS: t.Hold.Milliseconds(), Prices: t.Prices}
}

func (l *termsLine) terms() (ledger.Terms, error) {
	if l.HoldMS < 0 || l.HoldMS > sale.MaxHold.Milliseconds() || len(l.Prices) > sale.MaxItems {
		return ledger.Terms{}, fmt.Errorf("terms %d hold %d ms at %d prices", l.Number, l.HoldMS, len(l.Prices))
	}
	return ledger.Terms{Number: l.Number, Currency: l.Currency, Hold: time.Duration(l.HoldMS) * time.Millisecond, Prices: l.Prices}, nil
}

// rowLine is a journal row. Its body is kept byte for byte: as text, or where
// that is no UTF-8, in base64.
type rowLine struct {
	Seq   uint64       `json:"seq"`
	At    int64        `json:"at"`
	Kind  ledger.Kind  `json:"kind"`
	Order sale.OrderID `json:"order,omitzero"`
	Body  string       `json:"body"`
	Raw   []byte       `json:"raw,omitempty"`
	Hash  digest       `json:"hash"`
}

func rowOf(e *ledger.Entry) *rowLine {
	l := &rowLine{Seq: e.Seq, At: e.At.UnixMilli(), Kind: e.Kind, Order: e.Order, Hash: e.Hash}
	if utf8.Valid(e.Body) {
		l.Body = string(e.Body)
	} else {
		l.Raw = e.Body
	}
	return l
}

func (l *rowLine) entry(n sale.Number) *ledger.Entry {
	e := &ledger.Entry{Sale: n, Seq: l.Seq, At: time.UnixMilli(l.At).UTC(), Kind: l.Kind, Order: l.Order, Body: l.Raw, Hash: l.Hash}
	if l.Raw == nil {
		e.Body = []byte(l.Body)
	}
	return e
}

type orderLine struct {
	ID         sale.OrderID    `json:"id"`
	User       string          `json:"user"`
	SKU        string          `json:"item"`
	Quantity   int64           `json:"quantity"`
	Terms      int64           `json:"terms"`
	Amount     int64           `json:"amount"`
	Currency   string          `json:"currency"`
	State      sale.OrderState `json:"state"`
	Epoch      int64           `json:"epoch"`
	Version    int64           `json:"version"`
	ReservedAt int64           `json:"reserved_at"`
	ExpiresAt  int64           `json:"expires_at,omitempty"`
	EndedAt    int64           `json:"ended_at,omitempty"`
	PaymentID  string          `json:"payment_id,omitempty"`
	Replaces   sale.OrderID    `json:"replaces,omitzero"`

	Reason sale.RejectReason `json:"reason,omitempty"`
}

func orderOf(o *sale.Order) *orderLine {
	return &orderLine{
		ID: o.ID, User: o.User, SKU: o.SKU, Quantity: o.Quantity, Terms: o.Terms, Amount: o.Amount, Currency: o.Currency,
		State: o.State, Epoch: o.Epoch, Version: o.Version, ReservedAt: ledger.Millis(o.ReservedAt),
		ExpiresAt: ledger.Millis(o.ExpiresAt), EndedAt: ledger.Millis(o.EndedAt), PaymentID: o.PaymentID, Replaces: o.Replaces,
		Reason: o.Reason,
	}
}

func (l *orderLine) order() *sale.Order {
	return &sale.Order{
		ID: l.ID, User: l.User, SKU: l.SKU, Quantity: l.Quantity, Terms: l.Terms, Amount: l.Amount, Currency: l.Currency,
		State: l.State, Epoch: l.Epoch, Version: l.Version, ReservedAt: ledger.FromMillis(l.ReservedAt),
		ExpiresAt: ledger.FromMillis(l.ExpiresAt), EndedAt: ledger.FromMillis(l.EndedAt), PaymentID: l.PaymentID, Replaces: l.Replaces,
		Reason: l.Reason,
	}
}

type refundLine struct {
	ID        string            `json:"id"`
	PaymentID string            `json:"payment_id"`
	Order     sale.OrderID      `json:"order"`
	Amount    int64             `json:"amount"`
	Currency  string            `json:"currency"`
	Reason    sale.RefundReason `json:"reason"`
	State     sale.RefundState  `json:"state"`
	CreatedAt int64             `json:"created_at"`
	DoneAt    int64             `json:"done_at,omitempty"`
}

func refundOf(f *sale.Refund) *refundLine {
	return &refundLine{
		ID: f.ID.String(), PaymentID: f.PaymentID, Order: f.Order, Amount: f.Amount, Currency: f.Currency,
		Reason: f.Reason, State: f.State, CreatedAt: ledger.Millis(f.CreatedAt), DoneAt: ledger.Millis(f.DoneAt),
	}
}

func (l *refundLine) refund() (*sale.Refund, error) {
	id, err := sale.ParseRefundID(l.ID)
	if err != nil {
		return nil, fmt.Errorf("%q is no id of a refund record", l.ID)
	}
	return &sale.Refund{
		ID: id, PaymentID: l.PaymentID, Order: l.Order, Amount: l.Amount, Currency: l.Currency,
		Reason: l.Reason, State: l.State, CreatedAt: ledger.FromMillis(l.CreatedAt), DoneAt: ledger.FromMillis(l.DoneAt),
	}, nil
}

type paymentLine struct {
	ID        string             `json:"id"`
	Order     sale.OrderID       `json:"order"`
	Status    sale.PaymentStatus `json:"status"`
	Amount    int64              `json:"amount"`
	Currency  string             `json:"currency"`
	Outcome   sale.Outcome       `json:"outcome"`
	PaidOrder sale.OrderID       `json:"paid_order,omitzero"`
	At        int64              `json:"at"`
}

func paymentOf(p *ledger.PaymentRow) *paymentLine {
	return &paymentLine{
		ID: p.ID, Order: p.Order, Status: p.Status, Amount: p.Amount, Currency: p.Currency,
		Outcome: p.Outcome, PaidOrder: p.PaidOrder, At: ledger.Millis(p.At),
	}
}

func (l *paymentLine) payment() *ledger.PaymentRow {
	return &ledger.PaymentRow{
		Payment: sale.Payment{ID: l.ID, Order: l.Order, Status: l.Status, Amount: l.Amount, Currency: l.Currency},
		Outcome: l.Outcome, PaidOrder: l.PaidOrder, At: ledger.FromMillis(l.At),
	}
}

type holderLine struct {
	User     string `json:"user"`
	Live     int64  `json:"live"`
	Refunded int64  `json:"refunded"`
}

// lineCounts counts the lines of an export by kind.
type lineCounts struct {
	Terms    int64 `json:"terms"`
	Rows     int64 `json:"rows"`
	Orders   int64 `json:"orders"`
	Refunds  int64 `json:"refunds"`
	Payments int64 `json:"payments"`
	Holders  int64 `json:"holders"`
}

type trailerLine struct {
	lineCounts

	SHA256 digest `json:"sha256"` // of every byte before this line
}
