package pgledger

import (
	"encoding/json"
	"fmt"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// sales gathers sales from rows of a sale and one of its items each.
type sales struct{ list []readSale }

type readSale struct {
	number int64
	record ledger.Record
	err    error // the first thing that could not be read
}

// add takes a row. It never fails: what is wrong with one sale stays with it.
func (s *sales) add(row *row) error {
	number := row.int()
	fresh := len(s.list) == 0 || s.list[len(s.list)-1].number != number
	if fresh {
		s.list = append(s.list, readSale{number: number})
	}
	at := &s.list[len(s.list)-1]
	rec := decodeSale(number, row)
	if fresh {
		at.record = rec
	}
	at.record.Items = append(at.record.Items, decodeItem(row))
	if err := row.done(); err != nil && at.err == nil {
		at.err = fmt.Errorf("sale %d: %w", number, err)
	}
	return nil
}

// one returns the only sale.
func (s *sales) one() (ledger.Record, error) {
	if len(s.list) == 0 {
		return ledger.Record{}, sale.SaleNotFound()
	}
	return s.list[0].record, s.list[0].err
}

func decodeSale(number int64, row *row) ledger.Record {
	var rec ledger.Record
	if number <= 0 || number > int64(^sale.Number(0)) {
		row.err = corrupt("the number is out of range")
	}
	rec.Number = sale.Number(number) //nolint:gosec // checked above
	rec.Slug = row.text()
	rec.Key = sale.Key(row.digest())
	rec.Title = row.text()
	rec.StartsAt, rec.EndsAt = row.time(), row.time()
	rec.PerUserLimit = row.int()
	rec.LimitRule = oneOf(row, sale.LimitLive, sale.LimitEverPaid)
	rec.Hold = row.duration()
	rec.MaxUnpaidHolds = row.int()
	rec.CoolDown = row.duration()
	rec.Currency = row.text()
	rec.Preferred = oneOf(row, sale.PathDirect, sale.PathFast)
	rec.State = oneOf(row, sale.Draft, sale.Published, sale.Paused, sale.Closed, sale.Deleted)
	rec.Terms, rec.Version = row.int(), row.int()
	rec.Path = oneOf(row, sale.PathDirect, sale.PathFast)
	rec.Epoch = row.int()
	rec.BuildToken, rec.BuildAt = row.int(), row.time()
	rec.Salts = decodeSalts(row)
	rec.CreatedAt, rec.UpdatedAt = row.time(), row.time()
	rec.Seq = uint64(row.int()) //nolint:gosec // the table holds it above zero
	rec.Head = row.digest()
	return rec
}

// decodeItem reads the columns of an item, which are NULL in a sale without any;
// no such sale can be sold, so that is damage.
func decodeItem(row *row) sale.Item {
	return sale.Item{SKU: row.text(), Title: row.text(), Stock: row.int(), Sold: row.int(), Price: row.int()}
}

func decodeOrder(row *row) (sale.Order, error) {
	o := sale.Order{
		ID: row.id(), Slug: row.text(), User: row.text(), SKU: row.text(), Quantity: row.int(), Terms: row.int(),
		Amount: row.int(), Currency: row.text(),
		State: oneOf(row, sale.Reserved, sale.Paid, sale.Cancelled, sale.Expired, sale.Rejected, sale.Refunded),
		Epoch: row.int(), Version: row.int(),
		ReservedAt: row.time(), ExpiresAt: row.time(), EndedAt: row.time(),
		Reason: sale.RejectReason(row.text()), PaymentID: row.text(), Replaces: row.id(),
	}
	if err := row.done(); err != nil {
		return sale.Order{}, fmt.Errorf("order %v: %w", o.ID, err)
	}
	return o, nil
}

func decodeHolder(row *row) (ledger.Holder, error) {
	h := ledger.Holder{
		User: row.text(), Live: row.int(), Refunded: row.int(), Unpaid: row.int(), Cap: row.int(), CoolUntil: row.time(),
	}
	if err := row.done(); err != nil {
		return ledger.Holder{}, fmt.Errorf("holder %q: %w", h.User, err)
	}
	return h, nil
}

func decodePayment(row *row) (ledger.PaymentRow, error) {
	p := ledger.PaymentRow{
		Payment: sale.Payment{
			ID: row.text(), Order: row.id(), Status: oneOf(row, sale.PaymentSucceeded, sale.PaymentFailed),
			Amount: row.int(), Currency: row.text(),
		},
		Outcome:   oneOf(row, sale.OutcomePaid, sale.OutcomeAlreadyPaid, sale.OutcomeRecorded, sale.OutcomeRefundRequired),
		PaidOrder: row.id(), At: row.time(),
	}
	if err := row.done(); err != nil {
		return ledger.PaymentRow{}, fmt.Errorf("payment %q: %w", p.ID, err)
	}
	return p, nil
}

func decodeRefund(row *row) (sale.Refund, error) {
	f := sale.Refund{
		ID: row.id(), PaymentID: row.text(), Order: row.id(), Amount: row.int(), Currency: row.text(),
		Reason: oneOf(row, sale.ReasonAmount, sale.ReasonDuplicate, sale.ReasonLate, sale.ReasonRefunded),
		State:  oneOf(row, sale.RefundRequired, sale.RefundDone), CreatedAt: row.time(), DoneAt: row.time(),
	}
	if err := row.done(); err != nil {
		return sale.Refund{}, fmt.Errorf("refund %v: %w", f.ID, err)
	}
	return f, nil
}

func decodeEntry(n sale.Number, row *row) (ledger.Entry, error) {
	e := ledger.Entry{
		Sale: n, Seq: uint64(row.int()), At: row.time(), Kind: ledger.Kind(row.text()), //nolint:gosec // above zero by the table
		Order: row.id(), Body: row.blob(), Hash: row.digest(),
	}
	if err := row.done(); err != nil {
		return ledger.Entry{}, fmt.Errorf("row %d of the journal of sale %d: %w", e.Seq, n, err)
	}
	return e, nil
}

func decodeLetter(row *row) (ledger.Letter, error) {
	l := ledger.Letter{
		ID: row.id(), Sale: sale.Number(row.int()), Place: string(row.blob()), Cause: string(row.blob()), Raw: row.blob(), //nolint:gosec // the table holds it in range
	}
	a := ledger.Attempt{ID: row.id(), User: string(row.blob()), SKU: string(row.blob()), Quantity: row.int()}
	a.Slip = &ledger.Slip{Epoch: row.int(), Terms: row.int(), TakenAt: row.time(), Presented: row.int() != 0}
	if !a.ID.IsZero() {
		l.Attempt = &a
	}
	l.State = oneOf(row, ledger.LetterOpen, ledger.LetterReplayed, ledger.LetterDropped)
	l.ParkedAt, l.ClosedAt = row.time(), row.time()
	if err := row.done(); err != nil {
		return ledger.Letter{}, fmt.Errorf("dead letter %x: %w", l.ID, err)
	}
	return l, nil
}

func decodeKey(row *row) (ledger.APIKey, error) {
	k := ledger.APIKey{ID: row.text(), Hash: row.digest()}
	scopes := row.text()
	k.Label, k.CreatedAt, k.RevokedAt = row.text(), row.time(), row.time()
	err := row.done()
	if err == nil && json.Unmarshal([]byte(scopes), &k.Scopes) != nil {
		err = corrupt("the scopes are %q", scopes)
	}
	if err != nil {
		return ledger.APIKey{}, fmt.Errorf("API key %q: %w", k.ID, err)
	}
	return k, nil
}
